"""Session files that leave for another machine or come from one: what they may hold, and where they are put.

Rules
1. What travels is the portable form of a file (`Adapter.portable`): the conversation as the thread shows it. It is used
   only when every prompt and answer in it is explained by the thread's own turns, and all that the pin counts as
   absorbed is found in it, in order (`core/explained`). If not, the pin is of no use, and the next turn is fresh: that
   costs money and loses nothing. A borrowed one must end where the fork does: all beyond is another thread's, and
   leaves this machine with that thread alone.
2. A file is put where its adapter says, whole or not at all, for its owner's eyes only, and never over another one.
   One that is the beginning of it may grow, where the caller knows whose it is: what stands in it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core.answer import joined
from clew.core.explained import Known, Said, explains
from clew.core.history import Role
from clew.core.pins import Mark, Pin
from clew.core.record import Record, replace
from clew.engine.sessions import borrowed_in, mark_of
from clew.private_folder import make_private

UNEXPLAINED = "its file does not hold what the thread shows, or holds more than that"


class Where(StrEnum):
    NEW = "new"  # it was written
    GREW = "grew"  # its beginning was there: the rest was written
    THERE = "there"  # the very same was there already
    OTHER = "other"  # another one is there: nothing was done
    NOWHERE = "nowhere"  # the agent has no place for it


class Arriving(Record):
    """A session's portable form that is to be put where its agent looks for it."""

    adapter: Adapter
    config_dir: str
    work_dir: str
    session_id: str
    content: bytes

    def place(self) -> Path | None:
        return self.adapter.session_place(self.config_dir, self.work_dir, self.session_id)

    def file(self) -> Path | None:
        """The one that is there already."""
        return self.adapter.session_file(self.config_dir, self.work_dir, self.session_id)


class Placed(Record):
    """What came of it."""

    where: Where
    path: Path | None = None
    old_bytes: int = 0  # how long it was before it grew
    more: bytes = b""  # what it grew by


def portable(adapter: Adapter, content: bytes, pin: Pin, known: Known) -> bytes | None:
    """The form of the session's file that may travel. None: it holds what the thread does not show."""
    found = adapter.portable(content)
    if found is None:
        return None
    view = view_of(adapter, found)
    is_true = bool(view.entries) and ends_with(view, pin) and explains(list(_said(view)), pin, known)
    return found if is_true else None


def view_of(adapter: Adapter, content: bytes) -> SessionView:
    """Of a file that is not in its place. Writes it to a private folder for the while."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        path = Path(folder) / "session.jsonl"
        path.touch(mode=0o600)
        path.write_bytes(content)
        return adapter.read_session(path)


def ends_with(view: SessionView, pin: Pin) -> bool:
    """Nothing was said in it after what the pin borrows. Always so of a session of its own."""
    if pin.borrowed_at is None:
        return True
    return bool(pin.borrowed_at) and borrowed_in(view, pin.borrowed_at).beyond is False


def mark_in(adapter: Adapter, path: Path, pin: Pin) -> Mark | None:
    """Where we left a file that is in its place now: at its end, or before a prompt whose outcome is open."""
    view = adapter.read_session(path)
    asked = pin.pending.user_uuid if pin.pending is not None else None
    place = max((n for n, entry in enumerate(view.entries) if entry.id == asked), default=None)
    if place is None:
        return mark_of(adapter, path, view)
    at = view.entries[place].at
    return Mark(at, view.entries[place - 1].id if place else None) if at is not None else None


def _said(view: SessionView) -> Iterator[Said]:
    """Each prompt, and all that was said until the next."""
    answer: list[str] = []
    for entry in view.entries:
        if entry.role is Role.ASSISTANT:
            answer.append(entry.text)
        elif entry.is_prompt:
            if joined(answer):
                yield Said(Role.ASSISTANT, joined(answer))
            answer = []
            yield Said(Role.USER, entry.text)
    if joined(answer):
        yield Said(Role.ASSISTANT, joined(answer))


def look(arriving: Arriving, *, may_grow: bool = False) -> Placed:
    """What `place` would do. Reads the disk."""
    adapter, content = arriving.adapter, arriving.content
    path = arriving.place()
    if path is None:
        return Placed(Where.NOWHERE)
    there = path if os.path.lexists(path) else arriving.file()
    if there is None or not _is_in_the_way(arriving, path, there):
        return Placed(Where.NEW, path)
    try:
        found = there.read_bytes()
    except OSError:
        return Placed(Where.OTHER, there)
    held = adapter.portable(found)
    if held == content or found == content:
        return Placed(Where.THERE, there)
    if may_grow and held and content.startswith(held) and not there.is_symlink():
        more = adapter.continued(found, content[len(held) :])
        return Placed(Where.GREW, there, len(found), more if found.endswith(b"\n") else b"\n" + more)
    return Placed(Where.OTHER, there)


def _is_in_the_way(arriving: Arriving, path: Path, there: Path) -> bool:
    """Another directory's session of that id is not, for an agent that keeps them apart by directory."""
    if there == path:
        return True
    elsewhere = replace(arriving, work_dir=f"{arriving.work_dir}{os.sep}elsewhere")
    return elsewhere.place() == path  # one place for all directories


def place(arriving: Arriving, *, may_grow: bool = False) -> Placed:
    """Writes it, unless something is there. Raises OSError."""
    seen = look(arriving, may_grow=may_grow)
    if seen.where is Where.GREW and seen.path is not None:
        _append(seen.path, seen.more)
        return seen
    if seen.where is not Where.NEW or seen.path is None:
        return seen
    path = seen.path
    make_private(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(arriving.content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, not over one that has come meanwhile
    except FileExistsError:
        return look(arriving)
    finally:
        draft.unlink(missing_ok=True)
    return seen


def _append(path: Path, rest: bytes) -> None:
    with path.open("ab") as file:
        file.write(rest)
        file.flush()
        os.fsync(file.fileno())


def take_back(placed: Sequence[Placed]) -> None:
    """What was written for an import that came to nothing."""
    for each in placed:
        with contextlib.suppress(OSError):
            if each.where is Where.NEW and each.path is not None:
                each.path.unlink()
            elif each.where is Where.GREW and each.path is not None:
                os.truncate(each.path, each.old_bytes)
