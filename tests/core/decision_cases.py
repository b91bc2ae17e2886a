"""A thread, its pin and a request, for tests of the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.core import prompts
from clew.core.decision import (
    Abilities,
    Decision,
    DecisionCase,
    DecisionRequest,
    Policy,
    decide,
)
from clew.core.history import Absorbed, History, LongHistory, Role, Turn, Visibility, visible
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import (
    Mark,
    Observed,
    Pin,
    PinState,
    Runtime,
)
from clew.core.record import replace
from clew.core.session import SessionState

RUNTIME = Runtime("claude", "/usr/bin/claude", "Claude Code", True, "/home/me/.claude")
NOW = 1_000_000.0


def user(name: str, text: str | None = None) -> Turn:
    return Turn(TurnId(name), Role.USER, text if text is not None else f"question {name}", agent="claude")


def said(name: str, text: str | None = None, agent: str = "claude", **more: Any) -> Turn:
    return Turn(TurnId(name), Role.ASSISTANT, text if text is not None else f"answer {name}", agent, "m1", **more)


HISTORY: History = (user("u1"), said("a1"), user("u2"), said("a2"))


def make_pin(holds: History = HISTORY, **changes: Any) -> Pin:
    pin = Pin(
        id=PinId("p1"),
        thread_id=ThreadId("t1"),
        agent="claude",
        model="m1",
        session_id=SessionId("s1"),
        state=PinState.GOOD,
        work_dir="/project",
        runtime=RUNTIME,
        absorbed=tuple(Absorbed.of(turn) for turn in holds),
        mark=Mark(100, "e1"),
        resume_count=3,
        created_at=NOW - 1000,
        used_at=NOW - 100,
    )
    return replace(pin, **changes)


def make_request(**changes: Any) -> DecisionRequest:
    return replace(DecisionRequest("claude", "m1", "/project", RUNTIME, user("u3", "and now?")), **changes)


def ask(
    *,
    request: DecisionRequest | None = None,
    history: History = HISTORY,
    pins: tuple[Pin, ...] | None = None,
    abilities: Abilities | None = None,
    observed: Observed | None = None,
    policy: Policy | None = None,
    now: float = NOW,
    **more: Any,
) -> Decision:
    case = DecisionCase(
        request or make_request(),
        history,
        (make_pin(),) if pins is None else pins,
        abilities or Abilities(resume=True, choose_id=True),
        observed or Observed(state=SessionState.SAME, mark=Mark(100, "e1")),
        policy or Policy(),
        now,
        **more,
    )
    return decide(case)


class Reads:
    """Reads the turns of a long history, as the store does, and notes which were read."""

    def __init__(self, turns: History) -> None:
        self.all = turns
        self.of_turns: list[tuple[int, int]] = []  # from, and up to

    def turns(self, outline: Sequence[Absorbed], after: int) -> History:
        stop = len(self.all) - after
        found = self.all[stop - len(outline) : stop]
        assert [Absorbed.of(turn) for turn in found] == [*outline]
        self.of_turns.append((stop - len(outline), stop))
        return found

    def chars(self, first: int, stop: int) -> int:
        return sum(map(prompts.turn_chars, self.all[first:stop]))

    def end_of_others(self, agent: str, stop: int) -> int:
        return stop - len(visible(self.all[:stop], agent, Visibility.OWN))


def long(turns: History, reads: Reads | None = None) -> LongHistory:
    """The same history, but its turns are read when somebody looks at them."""
    reads = reads or Reads(turns)
    return LongHistory(tuple(map(Absorbed.of, turns)), reads.chars(0, len(turns)), reads)
