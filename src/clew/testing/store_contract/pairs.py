"""Pairs: their fields, unique names, rounds and files; they are deleted with either thread."""

from __future__ import annotations

from typing import Any

from clew.core.ids import RunId, ThreadId
from clew.core.pairs.pair import Order, Pair, PairPart, PairRound, Phase, PlannedMessage
from clew.core.record import replace
from clew.errors import Conflict, NotFound
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_thread, raises


def a_pair(pair_id: str = "pair-1", **changes: Any) -> Pair:
    threads = (ThreadId("thread-1"), ThreadId("thread-2"))
    pair = Pair(pair_id, "build", "Build it.", "/project", "claude", *threads, created_at=10.0, updated_at=10.0)
    return replace(pair, **changes)


class PairContract:
    def test_a_pair_is_read_back_unchanged(self, store: Store) -> None:
        _threads(store)
        odd = a_pair(
            task=ODD_TEXTS[1],
            instructor_model="opus",
            models=("opus", ODD_TEXTS[2]),
            thinking=True,
            phase=Phase.WORKING,
            asking=ODD_TEXTS[3],
            run_id=RunId("run-1"),
            asked_again=True,
            message=ODD_TEXTS[4],
            changed_files=ODD_TEXTS[1:3],
            imported_round=4,
            stop_requested=True,
            fresh_parts=(PairPart.WORKER,),
            planned_messages=(PlannedMessage(2, ODD_TEXTS[2]), PlannedMessage(5, "More.")),
            error="It failed.",
            error_code="failed",
        )
        assert store.pairs.create(odd) == odd
        assert store.pairs.find("pair-1") == store.pairs.find("build") == store.pairs.require("build") == odd
        changed = store.pairs.update("pair-1", at=20.0, phase=Phase.DONE, is_finished=True, run_id=None, error=None)
        assert changed.planned_messages == odd.planned_messages
        assert store.pairs.find("pair-1") == changed
        assert (changed.phase, changed.is_finished, changed.updated_at, changed.task) == (
            Phase.DONE,
            True,
            20.0,
            odd.task,
        )
        with raises(NotFound):
            store.pairs.require("nothing")

    def test_a_name_that_is_taken_gets_a_number_or_is_refused(self, store: Store) -> None:
        _threads(store)
        store.pairs.create(a_pair())
        assert store.pairs.create(a_pair("pair-2")).name == "build-2"
        assert store.pairs.create(a_pair("pair-3")).name == "build-3"
        with raises(Conflict):
            store.pairs.create(a_pair("pair-4"), unique=False)
        with raises(Conflict):
            store.pairs.create(a_pair("pair-1", name="other"))

    def test_a_threads_name_is_taken_too(self, store: Store) -> None:
        """Commands accept the name of a thread or of a pair, so both share one set of names."""
        _threads(store)
        store.threads.create(a_thread("chat", "login"))
        made = store.pairs.create(a_pair(name="login"))
        assert made.name == "login-2"
        with raises(Conflict):
            store.pairs.create(a_pair("pair-2", name="login"), unique=False)
        with raises(Conflict):
            store.pairs.rename(made.id, "login", hint=None)
        assert store.pairs.require(made.id).name == "login-2"

    def test_the_last_used_pairs_are_listed_first(self, store: Store) -> None:
        _threads(store)
        for number in range(3):
            store.pairs.create(a_pair(f"pair-{number}", updated_at=float(number), cwd="/a" if number else "/b"))
        assert [pair.id for pair in store.pairs.recent()] == ["pair-2", "pair-1", "pair-0"]
        assert [pair.id for pair in store.pairs.recent(cwd="/b")] == ["pair-0"]
        store.pairs.update("pair-0", at=9.0)
        assert [pair.id for pair in store.pairs.recent(limit=1)] == ["pair-0"]

    def test_rounds_and_files_are_read_back_unchanged(self, store: Store) -> None:
        from clew.store.rows.pairs import KeptFile, KeptFiles

        _threads(store)
        store.pairs.create(a_pair())
        order = Order(ODD_TEXTS[1], ODD_TEXTS[2], "opus", True, True)
        odd = PairRound("pair-1", 2, ODD_TEXTS[3], ODD_TEXTS[1:3], order, RunId("r1"), None, "opus", None, 10.0)
        store.pairs.add_round(odd)
        store.pairs.add_round(PairRound("pair-1", 1, started_at=9.0))
        assert store.pairs.rounds("pair-1") == [PairRound("pair-1", 1, started_at=9.0), odd]
        changed = store.pairs.update_round("pair-1", 2, result=ODD_TEXTS[4], worker_run_id=RunId("r2"), ended_at=11.0)
        assert (
            store.pairs.rounds("pair-1")[1]
            == changed
            == replace(odd, result=ODD_TEXTS[4], worker_run_id=RunId("r2"), ended_at=11.0)
        )
        with raises(NotFound):
            store.pairs.update_round("pair-1", 3, result="")
        assert store.pairs.files("pair-1") is None
        for run_id in ("r1", "r2"):
            files = {"a.py": KeptFile(7, 2**60 + 1, "ab"), "\udcff\n": KeptFile(-1, 0, None)}
            kept = KeptFiles(run_id, "abc", files)
            store.pairs.keep_files("pair-1", kept)
            assert store.pairs.files("pair-1") == kept
        store.pairs.keep_files("pair-1", None)
        assert store.pairs.files("pair-1") is None

    def test_a_pair_is_archived_and_deleted_with_either_thread(self, store: Store) -> None:
        _threads(store)
        for place, thread_id in enumerate(("thread-1", "thread-2")):
            store.pairs.create(a_pair(f"pair-{place}"))
            store.pairs.add_round(PairRound(f"pair-{place}", 1))
            dumped = store.threads.dump(thread_id)
            assert [row["id"] for row in dumped["pairs"]] == [f"pair-{place}"]
            assert [row["number"] for row in dumped["pair_rounds"]] == [1]
            store.threads.delete(thread_id)
            assert store.pairs.recent() == [] and store.pairs.rounds(f"pair-{place}") == []
            _threads(store)


def _threads(store: Store) -> None:
    for name in ("thread-1", "thread-2"):
        if store.threads.find(name) is None:
            store.threads.create(replace(a_thread(), id=ThreadId(name), name=name))
