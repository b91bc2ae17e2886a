"""Tests of what every store must do: Clew runs them on each of its databases, and you can run them on your store.

Subclass `StoreContract` in a test module, and give it a `store` fixture that yields a new, empty store and closes it
afterwards:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            with open_store(tmp_path / "clew.db") as store:
                yield store

Only that fixture needs pytest: the checks are plain asserts. They do not cover concurrency between processes and broken
disks, because how to cause these depends on the database.
"""

from __future__ import annotations

from clew.testing.store_contract.counts import CountContract
from clew.testing.store_contract.histories import HistoryContract
from clew.testing.store_contract.hooks import HookContract
from clew.testing.store_contract.jobs import JobContract
from clew.testing.store_contract.key_values import KeyValueContract
from clew.testing.store_contract.leases import LeaseContract
from clew.testing.store_contract.pairs import PairContract
from clew.testing.store_contract.pins import PinContract
from clew.testing.store_contract.reviews import ReviewContract
from clew.testing.store_contract.runs import EventContract, QuestionContract, RunContract
from clew.testing.store_contract.samples import (
    ODD_TEXTS,
    OTHER,
    OWNER,
    RUNTIME,
    a_pin,
    a_run,
    a_thread,
    a_turn,
    absorbed,
    raises,
)
from clew.testing.store_contract.search import SearchContract
from clew.testing.store_contract.thread_views import ThreadViewContract
from clew.testing.store_contract.threads import ThreadContract, TurnContract
from clew.testing.store_contract.transactions import TransactionContract

__all__ = [
    "ODD_TEXTS",
    "OTHER",
    "OWNER",
    "RUNTIME",
    "CountContract",
    "EventContract",
    "HistoryContract",
    "HookContract",
    "JobContract",
    "KeyValueContract",
    "LeaseContract",
    "PairContract",
    "PinContract",
    "QuestionContract",
    "ReviewContract",
    "RunContract",
    "SearchContract",
    "StoreContract",
    "ThreadContract",
    "ThreadViewContract",
    "TransactionContract",
    "TurnContract",
    "a_pin",
    "a_run",
    "a_thread",
    "a_turn",
    "absorbed",
    "raises",
]


class StoreContract(
    ThreadContract,
    TurnContract,
    HistoryContract,
    RunContract,
    EventContract,
    QuestionContract,
    ThreadViewContract,
    PinContract,
    LeaseContract,
    JobContract,
    ReviewContract,
    PairContract,
    HookContract,
    SearchContract,
    CountContract,
    KeyValueContract,
    TransactionContract,
):
    """The whole contract."""
