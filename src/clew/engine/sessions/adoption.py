"""Adoption: a session that was started outside Clew becomes a thread's own.

Rules
1. What the session holds is read from its file and becomes turns of the thread, so that no part of the conversation is
   known to the session alone. Without the file nothing is adopted: Clew could not know what the session holds.
2. Turns that the thread had before are not in the session, and are not sent to it later: the person who started the
   session told it what it should know.
3. A session has one owner. A session of another thread is adopted only if it branched off outside Clew, so that its
   thread can no longer resume it. That thread's pin is retired in the same transaction, and never during a run there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core.history import Absorbed, Turn
from clew.core.ids import PinId, SessionId
from clew.core.pins import Mark, Pin, PinState, Runtime, has_diverged
from clew.core.record import Record
from clew.core.session import SessionState, SessionTurn
from clew.core.thread import Thread, is_safe_argument
from clew.engine.leases import in_use, live_lease, thread_key
from clew.engine.planning.notices import taken_over_key
from clew.engine.rules.shown import inherit_source
from clew.engine.sessions.observation import mark_of, observed_in, turns_in
from clew.engine.sessions.outside import Arrival, OutsideRound, newest_pins, outside_rounds, store_arrival
from clew.engine.settings import RuntimeContext
from clew.errors import Conflict
from clew.store.store import Store


class Adopted(Record):
    """The result of an adoption. Without a pin, nothing was adopted: the session's file is missing or empty."""

    pin: Pin | None
    turns: tuple[Turn, ...]


class FoundSession(Record):
    """A session's file as it was read, and the runtime that would resume it."""

    runtime: Runtime
    view: SessionView
    changed_at: float
    mark: Mark


def find_session(adapter: Adapter, runtime: Runtime, work_dir: str, session_id: str) -> FoundSession | None:
    """Reads the session's file. None: there is nothing to adopt."""
    path: Path | None = adapter.session_file(runtime.config_dir, work_dir, session_id)
    if path is None:
        return None
    try:
        view = adapter.read_session(path)
        changed_at = path.stat().st_mtime
        mark = mark_of(adapter, path, view)
    except OSError:
        return None
    if not is_safe_argument(view.model):  # the file may contain anything
        view = view.replace(model="")
    return FoundSession(runtime, view, max(0.0, changed_at), mark) if view.entries else None


def diverged_outside(owner: Pin, found: FoundSession, *, follows: bool) -> bool:
    """Whether the session was continued so that its thread can no longer resume it. `follows`: turns that were only
    added to it come into that thread (the setting `follow_moves`)."""
    observed = observed_in(found.view, owner)
    return observed.state is SessionState.BRANCHED if follows else has_diverged(observed)


def adopt(
    store: Store,
    thread: Thread,
    found: FoundSession,
    session_id: str,
    model: str | None,
    context: RuntimeContext,
    owner: Pin | None = None,
) -> Adopted:
    """Call it inside a transaction. Raises Conflict if the session is another thread's, Busy during a run.

    `owner` is the pin that loses the session, as it was when its file was found to have diverged.
    """
    _check_idle(store, thread, context)
    known = store.pins.of_session(session_id)
    if known != owner:
        raise Conflict(f"Session {session_id} belongs to a thread already.", hint="clew threads list shows them.")
    if owner is not None:
        _check_idle(store, store.threads.require_by_id(owner.thread_id), context)
        if any(pin.id == owner.id for pin in newest_pins(store.pins.of_thread(owner.thread_id))):
            store.key_values.set(taken_over_key(owner.thread_id), thread.name)
        store.pins.give_up_session(session_id)
        inherit_source(store, thread.id, owner.thread_id)
    before = store.turns.history(thread.id)
    pin = _pin(thread, found, session_id, model, context)
    rounds = _rounds(store, pin, found, context)
    turns = tuple(turn for each in rounds for turn in each.turns)
    absorbed = (*(Absorbed(turn.id, None) for turn in before), *(Absorbed.of(turn) for turn in turns))
    total = found.view.cost_total_usd
    if total is None:
        total = owner.cost_total_usd if owner is not None else 0.0
    summarised = (
        len(before) + _count(turns_in(found.view, found.view.compacted_after)) if found.view.compacted_at else 0
    )
    pin = pin.replace(absorbed=absorbed, cost_total_usd=total, summarised=summarised)
    store_arrival(store, thread, Arrival((*before, *turns), rounds, (pin,)))
    store.threads.update(thread.id, at=context.clock())  # else a clean-up might delete the thread: its turns may be old
    return Adopted(pin, turns)


def _pin(thread: Thread, found: FoundSession, session_id: str, model: str | None, context: RuntimeContext) -> Pin:
    """The pin of the adopted session, before anything is counted as absorbed."""
    return Pin(
        id=PinId(context.new_id()),
        thread_id=thread.id,
        agent=found.runtime.agent,
        model=model or found.view.model or "",
        session_id=SessionId(session_id),
        state=PinState.GOOD if found.view.is_sound else PinState.RETIRED,  # else the agent might be shown anything
        work_dir=thread.cwd,
        runtime=found.runtime,
        mark=found.mark,
        created_at=context.clock(),
        used_at=min(found.changed_at, context.clock()),
    )


def _rounds(store: Store, pin: Pin, found: FoundSession, context: RuntimeContext) -> tuple[OutsideRound, ...]:
    """What the session holds: each prompt with its answer and its tool calls."""
    turns = turns_in(found.view)
    return outside_rounds(store, pin, turns, found.view.cost_total_usd, context)


def _check_idle(store: Store, thread: Thread, context: RuntimeContext) -> None:
    held = live_lease(store, thread_key(thread.id), context)
    if held is not None:
        raise in_use(thread, held)


def count_turns(found: FoundSession) -> int:
    """How many turns an adoption adds: one for each prompt, and one for each answer."""
    return _count(turns_in(found.view))


def _count(turns: Sequence[SessionTurn]) -> int:
    return sum((turn.prompt is not None) + bool(turn.answers) for turn in turns)
