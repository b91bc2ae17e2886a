"""The outline of a thread is made from its turns, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.history import Absorbed, LongHistory
from clew.core.record import replace
from clew.store import Store, open_store
from clew.store.records import turn_row
from clew.store.transfer.restoring import restore
from clew.testing.store_contract import a_thread, a_turn


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "clew.db") as store:
        yield store


def test_an_edit_by_an_older_clew_is_noticed(store: Store) -> None:
    """A daemon that was not restarted after an update writes the columns that it knows."""
    store.threads.create(a_thread())
    store.turns.add("thread-1", a_turn("turn-1", "before"))
    with store.transaction():
        connection = store.database.session().connection
        connection.execute("UPDATE turns SET text = 'after', revision = revision + 1 WHERE id = 'turn-1'")
    after = a_turn("turn-1", "after", revision=1)
    assert store.turns.long_history("thread-1") == (after,)
    store.turns.complete_outline("thread-1")
    found = store.turns.long_history("thread-1")
    assert isinstance(found, LongHistory) and found.outline == (Absorbed.of(after),) and found[0] == after


def test_completing_the_outline_changes_nothing_else(store: Store) -> None:
    store.threads.create(a_thread())
    store.turns.add("thread-1", a_turn("turn-1"))
    version, summary = store.versions.current(), store.threads.require("thread-1")
    with store.transaction():
        store.database.session().connection.execute("UPDATE turns SET absorbed_as = NULL")
    store.turns.complete_outline("thread-1")
    assert (store.versions.current(), store.threads.require("thread-1")) == (version, summary)
    assert store.turns.revisions("turn-1") == []


def test_a_restored_thread_has_an_outline_of_its_own_turns(store: Store) -> None:
    """A file must not say which text a session has absorbed: it could name another one."""
    turn, other = a_turn("turn-1", "what was said"), a_turn("turn-1", "what a session holds")
    row = {**turn_row(turn), "thread_id": "thread-1", "position": 1, "absorbed_as": str(Absorbed.of(other))}
    plain = {
        **{name: value for name, value in turn_row(replace(turn, id="turn-2")).items() if "absorbed" not in name},
        "thread_id": "thread-1",
        "position": 2,
    }
    with store.transaction():
        restore(store, [a_thread()], [], {"turns": [row, plain]})
    found = store.turns.long_history("thread-1")
    assert isinstance(found, LongHistory)
    assert found.outline == tuple(Absorbed.of(each) for each in store.turns.history("thread-1"))
    assert found.outline[0] == Absorbed.of(turn)
