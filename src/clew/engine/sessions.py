"""Looking at a session's file: before a turn (does it hold what we think?) and after one (did it take the turn?)."""

from __future__ import annotations

from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core.answer import joined
from clew.core.history import Role
from clew.core.pins import Mark, Observed, Pin


def observe(adapter: Adapter, pin: Pin) -> Observed:
    """What the file says. Cheap when nothing is open and its size is where we left it."""
    path = adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id)
    if path is None:
        return Observed(exists=False)
    try:
        size = path.stat().st_size
        if pin.pending is None and pin.mark is not None and pin.mark.size_bytes == size:
            return Observed(exists=True, mark=pin.mark)
        return observed_in(adapter.read_session(path), pin)
    except OSError:
        return Observed(exists=False)  # there, but not for us: the agent will not read it either


def observed_in(view: SessionView, pin: Pin) -> Observed:
    mark = Mark(view.size_bytes, view.last_entry)
    if not view.entries:
        return Observed(exists=False, mark=mark)
    if pin.pending is None:
        return Observed(exists=True, mark=mark)
    place = next((n for n, entry in enumerate(view.entries) if entry.id == pin.pending.user_uuid), None)
    if place is None:
        return Observed(exists=True, mark=mark, holds_pending=False)
    after = view.entries[place + 1 :]
    return Observed(
        exists=True,
        mark=mark,
        holds_pending=True,
        said=joined(entry.text for entry in after if entry.role is Role.ASSISTANT),
        complete=bool(after) and after[-1].role is Role.ASSISTANT and after[-1].complete,
        went_on=any(entry.is_prompt for entry in after),
    )


def took(adapter: Adapter, pin: Pin) -> Observed:
    """After a success: reads only what the turn added."""
    path = adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id)
    if path is None:
        return Observed(exists=False)
    try:
        return observed_in(adapter.read_session(path, pin.mark.size_bytes if pin.mark else 0), pin)
    except OSError:
        return Observed(exists=False)


def file_of(adapter: Adapter, pin: Pin) -> Path | None:
    return adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id)
