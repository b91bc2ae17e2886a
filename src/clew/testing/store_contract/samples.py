"""Records for the contracts to store, and texts that have broken a database before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew.core.history import Absorbed, Role, Turn
from clew.core.ids import PinId, RunId, SessionId, ThreadId, TurnId
from clew.core.pins import Pin, PinState, Runtime
from clew.core.record import replace
from clew.core.runs.run import Owner, Run, RunStatus
from clew.core.thread import Thread

ODD_TEXTS = (
    "",
    "plain",
    "Grüße, 線, 🧶, e\u0301",
    "NUL \0 in the middle, and at the end \0",
    "lone \ud83d and \udc00, and a pair that is no character: \ud83d\ude00",
    "the escape itself \x1a, what it would make of it \x1a0000, and \x1ad83d",
    "line ends \n \r\n \u2028 \x0b and a quote ' \" \\ \\u0000 %s %(x)s :name ;",
    "\ufeff\ufffe\uffff",
)

OWNER = Owner("host", 4711, 1000.5)
OTHER = Owner("elsewhere", 12, 2000.25)
RUNTIME = Runtime("claude", "/bin/claude", "Claude Code", True, "/home/me/.claude")


def a_thread(id: str = "thread-1", name: str = "maze", **changes: Any) -> Thread:
    return replace(
        Thread(ThreadId(id), name, "/project", "claude", "opus", created_at=10.0, updated_at=10.0), **changes
    )


def a_turn(id: str, text: str = "hello", role: Role = Role.USER, **changes: Any) -> Turn:
    return replace(Turn(TurnId(id), role, text, created_at=10.0), **changes)


def a_run(id: str = "run-1", thread_id: str = "thread-1", **changes: Any) -> Run:
    run = Run(RunId(id), ThreadId(thread_id), TurnId("turn-1"), "hello", "claude", None, RunStatus.QUEUED)
    return replace(run, **changes)


def a_pin(id: str = "pin-1", **changes: Any) -> Pin:
    session = SessionId(f"session-of-{id}")
    pin = Pin(PinId(id), ThreadId("thread-1"), "claude", "opus", session, PinState.PROVISIONAL, "/project", RUNTIME)
    return replace(pin, **changes)


def absorbed(*ids: str) -> tuple[Absorbed, ...]:
    return tuple(Absorbed(TurnId(id), f"digest of {id}") for id in ids)


@contextmanager
def raises(kind: type[Exception]) -> Iterator[None]:
    """Like `pytest.raises`, so that the contract does not need pytest."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
