"""Session files that came from elsewhere: do they hold what the thread says, and where does the agent look for them?

Rules
1. A file is believed only as far as it bears a pin out. All that the pin counts as absorbed must be found in it, in
   order, and every prompt in it must be one that the pin knows of. If not, the pin is of no use, and the next turn is
   fresh: that costs money and loses nothing. A borrowed one must end where the fork does: all beyond is another
   thread's, and leaves this machine with that thread alone.
2. A file is put where its adapter says, whole or not at all, for its owner's eyes only, and never over another one.
   One that is the beginning of it may grow, where the caller knows whose it is: what stands in it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from clew.agents.adapter import Adapter, SessionView
from clew.core import prompts
from clew.core.answer import joined
from clew.core.history import Role, Turn, digest
from clew.core.pins import Absorbed, Pin
from clew.core.record import Record
from clew.engine.sessions import borrowed_in

NO_LIMIT = 10**12


class Where(StrEnum):
    NEW = "new"  # it was written
    GREW = "grew"  # its beginning was there: the rest was written
    THERE = "there"  # the very same was there already
    OTHER = "other"  # another one is there: nothing was done
    NOWHERE = "nowhere"  # the agent has no place for it


class Placed(Record):
    """What came of it."""

    where: Where
    path: Path | None = None
    old_bytes: int = 0  # how long it was before it grew


def bears_out(view: SessionView, pin: Pin, turns: Sequence[Turn]) -> bool:
    """The session holds what the pin says, and was asked nothing that the pin does not know of.

    Its end is where we left it, when nothing is pending: a session that went on without us has another one.
    """
    if not ends_with(view, pin):
        return False
    ours = pin.mark if pin.pending is None else None
    if ours is not None and view.size_bytes != ours.size_bytes and view.last_entry != ours.last_entry:
        return False
    by_id = {str(turn.id): turn for turn in turns}
    pending = pin.pending.shown if pin.pending is not None else ()
    asked = sum(by_id[known.turn_id].role is Role.USER for known in (*pin.absorbed, *pending) if known.turn_id in by_id)
    if sum(entry.is_prompt for entry in view.entries) > asked:
        return False
    return _holds(view, pin.absorbed, by_id)


def ends_with(view: SessionView, pin: Pin) -> bool:
    """Nothing was said in it after what the pin borrows. Always so of a session of its own."""
    if pin.borrowed_at is None:
        return True
    return bool(pin.borrowed_at) and borrowed_in(view, pin.borrowed_at).beyond is False


def _holds(view: SessionView, absorbed: Sequence[Absorbed], by_id: dict[str, Turn]) -> bool:
    said = "\0".join(_squeezed(text) for text in _exchange(view))
    first_prompt_ends = said.find("\0") if "\0" in said else len(said)
    place = 0
    for known in absorbed:
        if known.digest is None:
            continue  # it was left out of a transcript that was too long
        turn = by_id.get(known.turn_id)
        if turn is None or digest(turn) != known.digest:
            return False
        found = _find(said, turn, place)
        if found is not None:
            place = found
        elif turn.role is not Role.USER or place > first_prompt_ends:
            return False  # only the first prompt may be worded otherwise: a host's full form of it
    return True


def _find(said: str, turn: Turn, start: int) -> int | None:
    """Where the turn ends in what was said: as it was given, or as a transcript words it."""
    for text in (turn.text, prompts.turns_section([turn], NO_LIMIT).text):
        wanted = _squeezed(text)
        at = said.find(wanted, start)
        if at >= 0:
            return at + len(wanted)
    return None


def _exchange(view: SessionView) -> Iterator[str]:
    """Each prompt, and all that was said until the next."""
    answer: list[str] = []
    for entry in view.entries:
        if entry.role is Role.ASSISTANT:
            answer.append(entry.text)
        elif entry.is_prompt:
            if answer:
                yield joined(answer)
            answer = []
            yield entry.text
    if answer:
        yield joined(answer)


def _squeezed(text: str) -> str:
    """Agents differ in how they keep blanks, and in what they make of half a character."""
    return " ".join(text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8").split())


def look(
    adapter: Adapter, config_dir: str, work_dir: str, session_id: str, content: bytes, *, may_grow: bool = False
) -> Placed:
    """What `place` would do. Reads the disk."""
    path = adapter.session_place(config_dir, work_dir, session_id)
    if path is None:
        return Placed(Where.NOWHERE)
    there = path if os.path.lexists(path) else adapter.session_file(config_dir, work_dir, session_id)
    if there is None or not _in_the_way(adapter, config_dir, work_dir, session_id, path, there):
        return Placed(Where.NEW, path)
    try:
        found = there.read_bytes()
    except OSError:
        return Placed(Where.OTHER, there)
    if may_grow and found != content and content.startswith(found) and not there.is_symlink():
        return Placed(Where.GREW, there, len(found))
    return Placed(Where.THERE if found == content else Where.OTHER, there)


def _in_the_way(adapter: Adapter, config_dir: str, work_dir: str, session_id: str, path: Path, there: Path) -> bool:
    """Another directory's session of that id is not, for an agent that keeps them apart by directory."""
    if there == path:
        return True
    elsewhere = adapter.session_place(config_dir, f"{work_dir}{os.sep}elsewhere", session_id)
    return elsewhere == path  # one place for all directories


def place(
    adapter: Adapter, config_dir: str, work_dir: str, session_id: str, content: bytes, *, may_grow: bool = False
) -> Placed:
    """Writes it, unless something is there. Raises OSError."""
    seen = look(adapter, config_dir, work_dir, session_id, content, may_grow=may_grow)
    if seen.where is Where.GREW and seen.path is not None:
        _append(seen.path, content[seen.old_bytes :])
        return seen
    if seen.where is not Where.NEW or seen.path is None:
        return seen
    path = seen.path
    _make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, not over one that has come meanwhile
    except FileExistsError:
        return look(adapter, config_dir, work_dir, session_id, content)
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


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
