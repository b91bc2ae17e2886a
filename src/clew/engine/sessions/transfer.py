"""Session files that are sent to another machine or come from one: what they may hold, and where they are written.

Rules
1. What is sent is the portable form of a file (`Adapter.portable_form`): the conversation as the thread shows it. It is
   used only if the thread's own turns explain every prompt and answer in it, and if it holds everything that the pin
   counts as absorbed, in order (`core/session_check`). Otherwise the pin is useless, and the next turn is fresh: that
   costs money and loses nothing. A borrowed session must end where the fork does: what follows belongs to another
   thread, and leaves this machine only with that thread.
2. A file is written where its adapter says, completely or not at all, readable by its owner only, and never over
   another file. If the file there is the beginning of the new one, and the caller knows whose it is, the rest may be
   appended.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core.pins import Mark, Pin
from clew.core.record import Record, replace
from clew.core.session_check import ShownThread, explains
from clew.engine.sessions.observation import borrowed_in, mark_of, utterances
from clew.system.files import write_whole
from clew.system.folders import make_private

UNEXPLAINED = "its file does not hold what the thread shows, or holds more than that"


class PlacementState(StrEnum):
    """What was found where a session file belongs, and what was done."""

    NEW = "new"  # nothing was there: the file was written
    GREW = "grew"  # the beginning of the file was there: the rest was appended
    THERE = "there"  # the same content was there: nothing was done
    OTHER = "other"  # another file was there: nothing was done
    NOWHERE = "nowhere"  # the agent has no place for such a file


class SessionFile(Record):
    """The portable form of a session, to be written where its agent looks for it."""

    adapter: Adapter
    config_dir: str
    work_dir: str
    session_id: str
    content: bytes

    def place(self) -> Path | None:
        return self.adapter.expected_session_path(self.config_dir, self.work_dir, self.session_id)

    def existing(self) -> Path | None:
        """The file that the agent would find for this session now."""
        return self.adapter.session_file(self.config_dir, self.work_dir, self.session_id)


class Placement(Record):
    """Where a session file is, or would be, written."""

    state: PlacementState
    path: Path | None = None
    old_bytes: int = 0  # the size before the rest was appended
    appended: bytes = b""


def portable(adapter: Adapter, content: bytes, pin: Pin, shown: ShownThread) -> bytes | None:
    """The form of the session's file that may be sent. None: it holds something that the thread does not show."""
    found = adapter.portable_form(content)
    if found is None:
        return None
    view = view_of(adapter, found)
    is_explained = bool(view.entries) and ends_with(view, pin) and explains(list(utterances(view)), pin, shown)
    return found if is_explained else None


def view_of(adapter: Adapter, content: bytes) -> SessionView:
    """Reads session content that has no file yet, by means of a temporary file in a private folder."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        path = Path(folder) / "session.jsonl"
        path.touch(mode=0o600)
        path.write_bytes(content)
        return adapter.read_session(path)


def ends_with(view: SessionView, pin: Pin) -> bool:
    """Whether the session ends with what the pin borrows. Always true for a session that is not borrowed."""
    if pin.borrowed_at is None:
        return True
    return bool(pin.borrowed_at) and borrowed_in(view, pin.borrowed_at).continues_past_fork is False


def mark_in(adapter: Adapter, path: Path, pin: Pin) -> Mark | None:
    """The mark of a file that was written: its end, or the position before a prompt whose outcome is not known."""
    view = adapter.read_session(path)
    asked = pin.pending.user_uuid if pin.pending is not None else None
    place = max((n for n, entry in enumerate(view.entries) if entry.id == asked), default=None)
    if place is None:
        return mark_of(adapter, path, view)
    at = view.entries[place].offset
    return Mark(at, view.entries[place - 1].id if place else None) if at is not None else None


def plan_placement(file: SessionFile, *, may_grow: bool = False) -> Placement:
    """What `place` would do. Changes nothing."""
    adapter, content = file.adapter, file.content
    path = file.place()
    if path is None:
        return Placement(PlacementState.NOWHERE)
    there = path if os.path.lexists(path) else file.existing()
    if there is None or not _is_in_the_way(file, path, there):
        return Placement(PlacementState.NEW, path)
    try:
        found = there.read_bytes()
    except OSError:
        return Placement(PlacementState.OTHER, there)
    held = adapter.portable_form(found)
    if held == content or found == content:
        return Placement(PlacementState.THERE, there)
    if may_grow and held and content.startswith(held) and not there.is_symlink():
        rest = adapter.appendable_lines(found, content[len(held) :])
        return Placement(PlacementState.GREW, there, len(found), rest if found.endswith(b"\n") else b"\n" + rest)
    return Placement(PlacementState.OTHER, there)


def _is_in_the_way(file: SessionFile, path: Path, there: Path) -> bool:
    """False for a session with the same id in another directory, if the agent keeps sessions by directory."""
    if there == path:
        return True
    elsewhere = replace(file, work_dir=f"{file.work_dir}{os.sep}elsewhere")
    return elsewhere.place() == path  # the agent has one place for all directories


def place(file: SessionFile, *, may_grow: bool = False) -> Placement:
    """Writes the file if none is there. `may_grow`: if its beginning is there, appends the rest. Raises OSError."""
    planned = plan_placement(file, may_grow=may_grow)
    if planned.state is PlacementState.GREW and planned.path is not None:
        _append(planned.path, planned.appended)
        return planned
    if planned.state is not PlacementState.NEW or planned.path is None:
        return planned
    path = planned.path
    make_private(path.parent)
    try:
        write_whole(path, file.content, replace=False)
    except FileExistsError:
        return plan_placement(file)
    return planned


def _append(path: Path, rest: bytes) -> None:
    with path.open("ab") as file:
        file.write(rest)
        file.flush()
        os.fsync(file.fileno())


def undo_placements(placed: Sequence[Placement]) -> None:
    """Removes what was written for a failed import."""
    for each in placed:
        with contextlib.suppress(OSError):
            if each.state is PlacementState.NEW and each.path is not None:
                each.path.unlink()
            elif each.state is PlacementState.GREW and each.path is not None:
                os.truncate(each.path, each.old_bytes)
