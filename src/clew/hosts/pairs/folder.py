"""Where the state files of pairs lie: `.clew/sessions/` of the work directory, for the owner's eyes, and not for git.

A repository may have put something there before us, to have us write elsewhere: nothing that leads out is followed.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from clew.core.history import text_digest
from clew.system.files import write_whole

FOLDER = Path(".clew", "sessions")
CURRENT = "current.json"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


def pair_id(at: float, mark: str) -> str:
    """For a pair that begins then: a person reads it."""
    return f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.localtime(at))}-{mark[:4]}"


def path_of(cwd: str, pair_id: str) -> Path:
    """Never outside that folder: an id that leads elsewhere is not believed."""
    name = pair_id if ID.match(pair_id) else text_digest(pair_id)
    return Path(cwd, FOLDER, f"session-{name}.json")


def write(cwd: str, pair_id: str, text: str) -> Path:
    """Whole or not at all. Raises OSError."""
    path = path_of(cwd, pair_id)
    folder = path.parent
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        if each.is_symlink() or not each.is_dir():  # a repository may have put it there, to have us write elsewhere
            raise OSError(0, "it leads elsewhere", str(each))
        if stat.S_IMODE(each.stat().st_mode) != 0o700:
            each.chmod(0o700)
    ignore = folder / ".gitignore"
    if ignore.is_symlink() or not ignore.exists():  # a link may come with a repository, and git follows none
        _replace(ignore, "*\n")
    _replace(path, text)
    return path


def _replace(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "backslashreplace"))


def point_at(path: Path) -> Path:
    """`current.json`: a link; where there are none, a small file that names it. Raises OSError."""
    current = path.with_name(CURRENT)
    beside = path.with_name(f".{CURRENT}.{os.getpid()}.tmp")
    try:
        beside.unlink(missing_ok=True)
        beside.symlink_to(path.name)
        beside.replace(current)
    except OSError:
        _replace(current, _pointer(path))
    return current


def remove(cwd: str, pair_id: str, others: Iterable[str] = ()) -> bool:
    """The file of a pair that is gone. False: there was none. `others`: the pairs that are left, the latest first.

    What pointed at it points at the file of the latest of them, or is gone as well.
    """
    path = path_of(cwd, pair_id)
    try:
        if path.parent.is_symlink() or path.parent.parent.is_symlink():
            return False
        path.unlink()
        if _is_current(path):
            latest = next((each for each in (path_of(cwd, other) for other in others) if each.is_file()), None)
            if latest is None:
                path.with_name(CURRENT).unlink()
            else:
                point_at(latest)
    except OSError:
        return False
    return True


def _is_current(path: Path) -> bool:
    current = path.with_name(CURRENT)
    if current.is_symlink():
        return str(current.readlink()) == path.name
    return current.is_file() and current.read_text(encoding="utf-8", errors="replace") == _pointer(path)


def _pointer(path: Path) -> str:
    return json.dumps({"current": path.name}) + "\n"
