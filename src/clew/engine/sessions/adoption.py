"""Adoption: a session that was started outside Clew becomes a thread's own.

Rules
1. What the session holds is read from its file and becomes turns of the thread, so that no part of the conversation is
   known to the session alone. Without the file nothing is adopted: Clew could not know what the session holds.
2. Turns that the thread had before are not in the session, and are not sent to it later: the person who started the
   session told it what it should know.
3. A session has one owner. A session of another thread is adopted only if it was continued outside Clew, so that its
   thread can no longer resume it. That thread's pin is retired in the same transaction, and never during a run there.
"""

from __future__ import annotations

from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core.history import Turn
from clew.core.ids import PinId, SessionId, TurnId
from clew.core.pins import Absorbed, Mark, Pin, PinState, Runtime, has_diverged
from clew.core.record import Record
from clew.core.thread import Thread, is_safe_argument
from clew.engine.leases import live_lease, thread_key
from clew.engine.planning.notices import taken_over_key
from clew.engine.sessions.observation import mark_of, observed_in, utterances
from clew.engine.settings import RuntimeContext
from clew.errors import Busy, Conflict
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


def diverged_outside(owner: Pin, found: FoundSession) -> bool:
    """Whether the session holds turns that its thread does not have, so that the thread can no longer resume it."""
    return has_diverged(owner, observed_in(found.view, owner))


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
        store.pins.give_up_session(session_id)
        store.key_values.set(taken_over_key(owner.thread_id), thread.name)
    runtime = found.runtime
    before = store.turns.history(thread.id)
    of_model = model or found.view.model or ""
    turns = turns_of(found, context, model)
    for turn in turns:
        store.turns.add(thread.id, turn)
    store.threads.update(thread.id, at=context.clock())  # else a clean-up might delete the thread: its turns may be old
    pin = Pin(
        id=PinId(context.new_id()),
        thread_id=thread.id,
        agent=runtime.agent,
        model=of_model,
        session_id=SessionId(session_id),
        state=PinState.GOOD,
        work_dir=thread.cwd,
        runtime=runtime,
        absorbed=(*(Absorbed(turn.id, None) for turn in before), *(Absorbed.of(turn) for turn in turns)),
        mark=found.mark,
        cost_total_usd=owner.cost_total_usd if owner is not None else 0.0,
        created_at=context.clock(),
        used_at=min(found.changed_at, context.clock()),
    )
    store.pins.save(pin)
    return Adopted(pin, turns)


def _check_idle(store: Store, thread: Thread, context: RuntimeContext) -> None:
    held = live_lease(store, thread_key(thread.id), context)
    if held is not None:
        hint = "Wait for it, or stop it with clew runs cancel."
        raise Busy(f"A run is in progress in {thread.name}.", hint=hint, run_id=held.run_id)


def turns_of(found: FoundSession, context: RuntimeContext, model: str | None = None) -> tuple[Turn, ...]:
    """The turns that an adoption adds: one for each prompt, and one for each answer."""
    return tuple(
        Turn(
            TurnId(context.new_id()),
            each.role,
            each.text,
            agent=found.runtime.agent,
            model=model or found.view.model or None,
            message_id=each.message_id,
            created_at=min(found.changed_at, context.clock()),
        )
        for each in utterances(found.view)
    )
