"""Adoption: a session that was begun without Clew becomes a thread's own.

What it holds is read from its file and becomes turns of the thread, so that nothing of the conversation is known to the
session alone. Without the file nothing is adopted: an id is not a memory. Turns that the thread had before are not in
the session, and it is not shown them later: whoever began it gave it what it was to know.

A session has one owner. One that a thread has is adopted only when it went on outside Clew, so that its thread cannot
resume it any more; that thread's pin is retired in the same transaction, and never while a run is going on there.
"""

from __future__ import annotations

from pathlib import Path

from clew.agents.adapter import Adapter, Entry, SessionView
from clew.core.answer import joined
from clew.core.history import Role, Turn
from clew.core.ids import PinId, SessionId, TurnId
from clew.core.pins import Absorbed, Mark, Pin, PinState, Runtime, has_diverged
from clew.core.record import Record
from clew.core.thread import Thread, is_word
from clew.engine.leases import is_dead, thread_key
from clew.engine.notices import taken_over
from clew.engine.sessions import mark_of, observed_in
from clew.engine.settings import Surroundings
from clew.errors import Busy, Conflict
from clew.store.store import Store


class Adopted(Record):
    """What came of it. No pin: the session has no file here, or one with nothing in it."""

    pin: Pin | None
    turns: tuple[Turn, ...]


class Found(Record):
    """A session's file, and who would go on in it."""

    runtime: Runtime
    view: SessionView
    changed_at: float
    mark: Mark


def look_at(adapter: Adapter, runtime: Runtime, work_dir: str, session_id: str) -> Found | None:
    """Reads the disk. None: there is nothing to adopt."""
    path: Path | None = adapter.session_file(runtime.config_dir, work_dir, session_id)
    if path is None:
        return None
    try:
        view = adapter.read_session(path)
        changed_at = path.stat().st_mtime
        mark = mark_of(adapter, path, view)
    except OSError:
        return None
    if not is_word(view.model):  # nobody checked it: it is what the file says
        view = view.replace(model="")
    return Found(runtime, view, max(0.0, changed_at), mark) if view.entries else None


def went_on_outside(owner: Pin, found: Found) -> bool:
    """It holds what was not said in the thread that has it, which therefore cannot resume it any more."""
    return has_diverged(owner, observed_in(found.view, owner))


def adopt(
    store: Store,
    thread: Thread,
    found: Found,
    session_id: str,
    model: str | None,
    around: Surroundings,
    owner: Pin | None = None,
) -> Adopted:
    """Within a transaction. Raises Conflict when the session is another thread's, Busy while a run is going on.

    `owner` is the pin that gives it up, as it was when the file was found to have gone on outside.
    """
    _check_idle(store, thread, around)
    known = store.pin_by_session(session_id)
    if known != owner:
        raise Conflict(f"Session {session_id} belongs to a thread already.", hint="clew threads list shows them.")
    if owner is not None:
        _check_idle(store, store.require_thread_by_id(owner.thread_id), around)
        store.give_up_session(session_id)
        store.save_fact(taken_over(owner.thread_id), thread.name)
    runtime = found.runtime
    before = store.history(thread.id)
    of_model = model or found.view.model or ""
    turns = _turns(found.view, runtime.agent, of_model or None, found.changed_at, around)
    for turn in turns:
        store.add_turn(thread.id, turn)
    store.update_thread(thread.id, at=around.clock())  # whatever the age of what was said: a clean-up leaves it alone
    pin = Pin(
        id=PinId(around.new_id()),
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
        created_at=around.clock(),
        used_at=min(found.changed_at, around.clock()),
    )
    store.save_pin(pin)
    return Adopted(pin, turns)


def _check_idle(store: Store, thread: Thread, around: Surroundings) -> None:
    held = store.lease(thread_key(thread.id))
    if held is not None and not is_dead(store, held, around):
        hint = "Wait for it, or stop it with clew runs cancel."
        raise Busy(f"A run is going on in {thread.name}.", hint=hint, run_id=held.run_id)


def turns_of(found: Found, around: Surroundings) -> tuple[Turn, ...]:
    """What an adoption would bring."""
    return _turns(found.view, found.runtime.agent, found.view.model or None, found.changed_at, around)


def _turns(view: SessionView, agent: str, model: str | None, at: float, around: Surroundings) -> tuple[Turn, ...]:
    """A turn for each prompt, and one for all that was said until the next."""
    turns: list[Turn] = []
    said: list[Entry] = []
    at = min(at, around.clock())

    def answered() -> None:
        text = joined(entry.text for entry in said)
        if text:
            turns.append(_turn(Role.ASSISTANT, text, agent, model, at, around).replace(message_id=said[-1].id))
        said.clear()

    for entry in view.entries:
        if entry.role is Role.ASSISTANT:
            said.append(entry)
        elif entry.is_prompt:
            answered()
            turns.append(_turn(Role.USER, entry.text, agent, model, at, around))
    answered()
    return tuple(turns)


def _turn(role: Role, text: str, agent: str, model: str | None, at: float, around: Surroundings) -> Turn:
    return Turn(TurnId(around.new_id()), role, text, agent=agent, model=model, created_at=at)
