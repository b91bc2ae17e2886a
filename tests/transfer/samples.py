"""Stores with everything that a thread can have."""

from __future__ import annotations

from pathlib import Path

from clew.core.history import Role
from clew.core.ids import AttemptId, RunId, SessionId, ThreadId
from clew.core.jobs.job import JobStatus
from clew.core.pairs.pair import Pair, PairRound
from clew.core.pins import PinState
from clew.core.runs.events import QuestionAsked, TextStreamed
from clew.core.runs.run import Attempt, RunStatus
from clew.engine.engine import Engine
from clew.engine.settings import EngineSettings
from clew.store.rows.hooks import HookJob, HookKey
from clew.store.store import Store, open_store
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.reviews import a_review, a_round
from clew.testing.store_contract.samples import ODD_TEXTS, a_pin, a_run, a_thread, a_turn, absorbed
from clew.wiring.engine import runtime_context

ODD = tuple(text for text in ODD_TEXTS if text)


def engine_on(where: Path | str) -> Engine:
    return Engine(open_store(where), {}, EngineSettings(), runtime_context({}))


def fill(store: Store, kind: str = "hook") -> None:
    """Stores a thread with everything that it can have."""
    store.threads.create(a_thread(kind=kind, standing=ODD[3]))
    for number, text in enumerate(ODD):
        store.turns.add("thread-1", a_turn(f"turn-{number}", text, (Role.USER, Role.ASSISTANT)[number % 2]))
    store.turns.edit("turn-0", ODD[3], 20.0)
    store.turns.archive("thread-1", "turn-5", inclusive=True, at=30.0, why="truncate")
    store.runs.create(a_run(status=RunStatus.RUNNING, prompt=ODD[4]))
    store.runs.create_attempt(Attempt(AttemptId("attempt-1"), RunId("run-1"), 1, SessionId("s"), "uuid", False))
    asked = QuestionAsked("question-1", "Bash", {"command": ODD[4]}, False)
    store.events.append("run-1", [(1, 1.0, TextStreamed(ODD[4])), (2, 2.0, asked)])
    store.pins.save(a_pin(absorbed=absorbed("turn-0", "turn-1"), state=PinState.GOOD))
    store.pins.save(a_pin("pin-2", state=PinState.POISONED))
    store.jobs.create(a_job(status=JobStatus.QUEUED, kind="hook"))
    store.jobs.create(a_job("job-2", status=JobStatus.FAILED, key="shared"))
    store.jobs.add_marker("job-1", "run-1", 1, "m", 1.0)
    made = store.reviews.create(a_review(), "2026-01-02")
    store.reviews.add_round(a_round(review_id=made.id), diff=ODD[2], files={"a": b"\0\xff"})
    store.hooks.save_key(HookKey("key", "claude", "me/shop", 1, "github", "thread-1", None, 1.0, 2.0))
    store.hooks.add_job(HookJob("job-1", "event", "key", None, None, "keep", "waiting", None, None, 0, 1.0))


def fill_pair(store: Store) -> None:
    for role in ("instructor", "worker"):
        store.threads.create(a_thread(role, f"maze-{role}", kind="pair"))
        store.turns.add(role, a_turn(f"turn-of-{role}"))
    pair = Pair("pair-1", "maze", "find out", "/project", "claude", ThreadId("instructor"), ThreadId("worker"))
    store.pairs.create(pair)
    store.pairs.add_round(PairRound("pair-1", 1, result=ODD[2]))
