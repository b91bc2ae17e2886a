"""A plan of a long thread: it reads the texts that it sends, and decides as if it had read all of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.core.decision import Abilities, Fresh, Policy, Reason, Resume
from clew.core.history import Absorbed, LongHistory, Role, Turn, Visibility
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import Mark, Pin, PinState, Runtime
from clew.core.prompts import fresh_chars
from clew.core.record import replace
from clew.core.runs.run import Owner
from clew.core.thread import Thread
from clew.engine.planning.plan import AttemptPlan, Planner
from clew.engine.request import TurnRequest, new_run
from clew.engine.settings import RuntimeContext
from clew.errors import StoreError
from clew.store import Store, open_store

THREAD, MODEL = ThreadId("thread"), "m1"
ABILITIES = Abilities(resume=True, choose_id=True)
SHARED, OWN = Policy(), Policy(visibility=Visibility.OWN)
Change = Callable[[Store], object]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With one thread of a hundred turns, all of them absorbed by one session."""
    session = str(uuid.uuid4())
    file = tmp_path / "claude" / "projects" / "any" / f"{session}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    turns = [turn(number) for number in range(100)]
    with open_store(tmp_path / "clew.db") as store:
        store.threads.create(Thread(THREAD, "long", str(tmp_path), "claude", MODEL))
        for each in turns:
            store.turns.add(THREAD, each)
        runtime = Runtime("claude", "claude", "Claude Code", True, str(tmp_path / "claude"))
        absorbed = tuple(map(Absorbed.of, turns))
        pin = Pin(
            *(PinId("pin"), THREAD, "claude", MODEL, SessionId(session), PinState.GOOD, str(tmp_path), runtime),
            absorbed=absorbed,
            mark=Mark(file.stat().st_size, "entry"),
        )
        store.pins.save(pin)
        yield store


def turn(number: int, agent: str = "claude") -> Turn:
    role = Role.ASSISTANT if number % 2 else Role.USER
    return Turn(TurnId(f"t{number}"), role, f"text {number}", agent, MODEL, created_at=float(number))


def planner(store: Store, policy: Policy = SHARED, *, retry_of: str | None = None) -> Planner:
    thread = store.threads.require_by_id(THREAD)
    context = RuntimeContext({}, Owner("test", os.getpid(), 1.0), lambda environ: dict(environ))
    request = TurnRequest(thread, "what is next?", retry_of=TurnId(retry_of) if retry_of else None)
    run = new_run(request, MODEL, context)
    store.runs.create(run)
    [pin, *_] = store.pins.of_thread(THREAD)
    parts = Claude(), ABILITIES, pin.runtime, policy, context, request, run
    return Planner(*parts, lambda agent: None, lambda store: None)


def planned(store: Store, policy: Policy = SHARED, *, retry_of: str | None = None) -> AttemptPlan:
    return planner(store, policy, retry_of=retry_of).first(store)


def make_unreadable(store: Store, up_to: int) -> None:
    """Whoever reads one of the first turns gets an error."""
    with store.transaction():
        store.database.session().connection.execute("UPDATE turns SET role = '?' WHERE position <= ?", (up_to,))
    with pytest.raises(StoreError):
        store.turns.history(THREAD)


def test_a_resumed_turn_reads_only_the_newest_turns(store: Store) -> None:
    history = store.turns.history(THREAD)
    make_unreadable(store, up_to=60)
    plan = planned(store)
    assert isinstance(plan.decision, Resume) and plan.decision.prompt == "what is next?"
    assert plan.decision.transcript_chars == fresh_chars(None, history, "what is next?", SHARED.limit_chars)
    assert plan.pin.absorbed == tuple(map(Absorbed.of, history))


def test_turns_of_another_agent_are_sent_without_reading_those_before(store: Store) -> None:
    for number in (100, 101):
        store.turns.add(THREAD, turn(number, "codex"))
    make_unreadable(store, up_to=60)
    decision = planned(store).decision
    assert isinstance(decision, Resume)
    assert [known.turn_id for known in decision.shown[:-1]] == ["t100", "t101"]
    assert "text 100" in decision.prompt and "text 101" in decision.prompt and "text 99" not in decision.prompt


def test_an_agent_that_sees_only_its_own_turns_needs_no_other_texts(store: Store) -> None:
    make_unreadable(store, up_to=60)
    assert isinstance(planned(store, OWN).decision, Resume)


def test_a_session_whose_first_turns_were_left_out_is_resumed(store: Store) -> None:
    [pin] = store.pins.of_thread(THREAD)
    left_out = tuple(Absorbed(known.turn_id, None) for known in pin.absorbed[:70])
    store.pins.save(replace(pin, absorbed=left_out + pin.absorbed[70:]))
    store.turns.edit("t3", "edited, and never shown to the session", 1.0)
    make_unreadable(store, up_to=60)
    assert isinstance(planned(store).decision, Resume)


CHANGES: dict[str, Change] = {
    "edit of the first turn": lambda store: store.turns.edit("t0", "edited", 1.0),
    "edit of an early turn": lambda store: store.turns.edit("t7", "edited", 1.0),
    "edit of the last turn": lambda store: store.turns.edit("t99", "edited", 1.0),
    "truncation": lambda store: store.turns.archive(THREAD, "t40", inclusive=True, at=1.0, why="truncate"),
    "all but one removed": lambda store: store.turns.archive(THREAD, "t0", inclusive=False, at=1.0, why="truncate"),
    "a turn put before others": lambda store: store.turns.add(THREAD, turn(200), before="t8"),
    "two turns in another order": lambda store: swap(store, 8, 10),
    "another turn in the place of the last": lambda store: replace_last(store),
}


def swap(store: Store, first: int, second: int) -> None:
    with store.transaction():
        for old, new in ((first, -1), (second, first), (-1, second)):
            statement = "UPDATE turns SET position = ? WHERE position = ?"
            store.database.session().connection.execute(statement, (new, old))


def replace_last(store: Store) -> None:
    store.turns.archive(THREAD, "t99", inclusive=True, at=1.0, why="retry")
    store.turns.add(THREAD, replace(turn(99), id=TurnId("again")))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("policy", [SHARED, OWN], ids=["shared", "own"])
def test_a_change_in_what_the_session_holds_is_noticed(store: Store, change: Change, policy: Policy) -> None:
    change(store)
    history = store.turns.history(THREAD)
    plan = planned(store, policy)
    assert isinstance(plan.decision, Fresh) and plan.decision.reason is Reason.HISTORY_CHANGED
    assert all(f"\n\n{each.text}" in plan.decision.prompt for each in history)
    assert list(plan.decision.shown[:-1]) == [Absorbed.of(each) for each in history]


def test_a_turn_asked_again_is_noticed(store: Store) -> None:
    plan = planned(store, retry_of="t50")
    assert isinstance(plan.decision, Fresh) and plan.decision.reason is Reason.HISTORY_CHANGED
    assert "text 49" in plan.decision.prompt and "text 51" not in plan.decision.prompt


def test_a_new_boundary_of_what_an_agent_may_see_is_noticed(store: Store) -> None:
    for number in (100, 101, 102, 103):
        store.turns.add(THREAD, turn(number, "codex" if number < 102 else "claude"))
    decision = planned(store, OWN).decision
    assert isinstance(decision, Fresh) and decision.reason is Reason.HISTORY_CHANGED
    assert [known.turn_id for known in decision.shown[:-1]] == ["t102", "t103"]


def test_a_fallback_sends_the_turns_that_the_plan_was_made_with(store: Store) -> None:
    planning = planner(store)
    plan = planning.first(store)
    assert isinstance(plan.decision, Resume) and isinstance(plan.history, LongHistory)
    store.turns.edit("t5", "edited meanwhile", 1.0)
    again = planning.fallback(store, plan, Reason.REJECTED, planning.policy)
    assert "text 5\n" in again.decision.prompt and "edited meanwhile" not in again.decision.prompt
    assert again.decision.shown[:-1] == plan.pin.absorbed


def test_a_plan_completes_the_outline_of_an_older_thread(store: Store) -> None:
    with store.transaction():
        store.database.session().connection.execute("UPDATE turns SET absorbed_as = NULL, absorbed_revision = NULL")
    assert isinstance(store.turns.long_history(THREAD), tuple)
    looked = planner(store)
    assert isinstance(looked.planned(store, looked.run)[1], Resume)
    assert isinstance(store.turns.long_history(THREAD), tuple), "a preview stores nothing"
    assert isinstance(planned(store).decision, Resume)
    assert isinstance(store.turns.long_history(THREAD), LongHistory)
