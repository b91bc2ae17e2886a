"""The folder of the state files of pairs: `.clew/sessions/` in the work directory.

Only its owner can read it, and git ignores it. A repository may contain links of these names, to make Clew write
elsewhere. So no link is followed.
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


def new_pair_id(at: float, random_id: str) -> str:
    """A readable id, from the time when the pair was created."""
    return f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.localtime(at))}-{random_id[:4]}"


def path_of(cwd: str, pair_id: str) -> Path:
    """The path of a pair's state file. An id that is not a plain file name is replaced by its digest."""
    name = pair_id if ID.match(pair_id) else text_digest(pair_id)
    return Path(cwd, FOLDER, f"session-{name}.json")


def write(cwd: str, pair_id: str, text: str) -> Path:
    """Writes the state file atomically. Raises OSError."""
    path = path_of(cwd, pair_id)
    folder = path.parent
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        if each.is_symlink() or not each.is_dir():
            raise OSError(0, "it leads elsewhere", str(each))
        if stat.S_IMODE(each.stat().st_mode) != 0o700:
            each.chmod(0o700)
    ignore = folder / ".gitignore"
    if ignore.is_symlink() or not ignore.exists():  # git ignores a .gitignore that is a link
        _replace(ignore, "*\n")
    _replace(path, text)
    return path


def _replace(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "backslashreplace"))


def point_at(path: Path) -> Path:
    """Makes `current.json` a link to the file; without support for links, a file that names it. Raises OSError."""
    current = path.with_name(CURRENT)
    temporary = path.with_name(f".{CURRENT}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path.name)
        temporary.replace(current)
    except OSError:
        _replace(current, _pointer(path))
    return current


def remove(cwd: str, pair_id: str, others: Iterable[str] = ()) -> bool:
    """Removes the file of a pair that was deleted. Returns False if there is none.

    `others` are the remaining pairs, the latest first. If `current.json` pointed at the file, it then points at the
    file of the latest other pair, or is removed too.
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
