"""Where Codex keeps its sessions. Separate from the code that reads them: a turn does not need it before its spawn.

A session begins in its own file, `rollout-TIME-SESSION.jsonl`. When somebody goes back in the TUI, Codex continues in a
new file, `rollout-TIME-SESSION_FILE.jsonl`, whose first line names the file that it continues and where (`origins`).
The newest file is the one that `codex exec resume SESSION` reads and appends to.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clew.agents.adapter import UUID
from clew.core.durations import DAY_S

_LAST_S = 4_000_000_000  # the latest accepted time: a UUID that is not of version 7 may begin with any digits
_ID_CHARS = 36


def config_dir(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CODEX_HOME")
    return chosen or str(Path(environ.get("HOME") or "~").expanduser() / ".codex")


def is_session_id(session_id: str) -> bool:
    """Only a UUID is safe: with anything else, `codex exec resume` starts a new session and exits with 0."""
    return UUID.match(session_id) is not None


def session_file(config_dir: str, session_id: str) -> Path | None:
    """The session's newest file: Codex appends to that one."""
    files = session_files(config_dir, session_id)
    return files[-1] if files else None


def session_files(config_dir: str, session_id: str) -> list[Path]:
    """The session's own file, and those in which it continued after somebody went back. The oldest first."""
    own = file_named(config_dir, session_id)
    if own is None or session_of(own) != session_id:
        return []
    folders = _folders_from(Path(config_dir) / "sessions", _first_day(session_id))
    later = [path for folder in folders for path in folder.glob(f"rollout-*-{session_id}_*.jsonl")]
    return [own, *sorted((path for path in later if session_of(path) == session_id), key=_file_id)]


def earlier_files(path: Path) -> list[Path]:
    """The session's files before this one, the oldest first."""
    home, session_id = home_of(path), session_of(path)
    if home is None or session_id in (None, _file_id(path)):
        return []
    return [each for each in session_files(str(home), str(session_id)) if _order(each) < _order(path)]


def file_named(config_dir: str, file_id: str) -> Path | None:
    """The file with that id: a session's own, or one in which it continued. It is in the folder of the day that the id
    contains, or in any folder: Codex also finds a file that was copied."""
    if not is_session_id(file_id):
        return None
    sessions = Path(config_dir) / "sessions"
    for folder in (*_days(sessions, file_id), sessions):
        pattern = f"**/rollout-*[-_]{file_id}.jsonl" if folder is sessions else f"rollout-*[-_]{file_id}.jsonl"
        found = next((path for path in folder.glob(pattern) if path.is_file()), None)
        if found is not None:
            return found
    return None


def session_of(path: Path) -> str | None:
    """The id of the session that the file belongs to. None: it has another name than Codex's files."""
    name = path.stem
    is_later = name[-_ID_CHARS - 1 : -_ID_CHARS] == "_"
    session_id = name[-2 * _ID_CHARS - 1 : -_ID_CHARS - 1] if is_later else _file_id(path)
    return session_id if is_session_id(session_id) and is_session_id(_file_id(path)) else None


def home_of(path: Path) -> Path | None:
    """Codex's folder, in whose `sessions` the file is."""
    return next((folder.parent for folder in path.parents if folder.name == "sessions"), None)


def expected_session_path(config_dir: str, session_id: str) -> Path | None:
    """Named by the time that the id contains, as Codex itself would have named it (except for the time zone)."""
    if not is_session_id(session_id):
        return None
    made = time.gmtime(min(_made_s(session_id), _LAST_S))
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', made)}-{session_id}.jsonl"
    return Path(config_dir) / "sessions" / time.strftime("%Y/%m/%d", made) / name


def session_paths(config_dir: str) -> Iterator[Path]:
    """The newest file of each session."""
    newest: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for path in (Path(config_dir) / "sessions").glob("**/rollout-*.jsonl"):
            session_id = session_of(path)
            if session_id is not None and (session_id not in newest or _order(newest[session_id]) < _order(path)):
                newest[session_id] = path
    yield from newest.values()


def _file_id(path: Path) -> str:
    return path.stem[-_ID_CHARS:]


def _order(path: Path) -> tuple[bool, str]:
    """A session's own file comes first. The ids of the others begin with their time."""
    return session_of(path) != _file_id(path), _file_id(path)


def _made_s(session_id: str) -> float:
    return int(session_id[:8] + session_id[9:13], 16) / 1000


def _days(sessions: Path, session_id: str) -> Iterator[Path]:
    """The folders of the day on which a UUID of version 7 was made, in any time zone."""
    made_s = _made_s(session_id)
    for offset_s in (0, -DAY_S, DAY_S):
        try:
            yield sessions / time.strftime("%Y/%m/%d", time.gmtime(made_s + offset_s))
        except (OverflowError, ValueError, OSError):  # a UUID of another version: its first digits are not a time
            return


def _first_day(session_id: str) -> Sequence[str]:
    """The names of the folders of the first day on which the session may have a file."""
    if session_id[14] != "7":
        return ("", "", "")
    return time.strftime("%Y/%m/%d", time.gmtime(min(max(_made_s(session_id) - DAY_S, 0), _LAST_S))).split("/")


def _folders_from(folder: Path, first: Sequence[str]) -> Iterator[Path]:
    """The folders of that day and of all later days. There may be hundreds of earlier ones."""
    if not first:
        yield folder
        return
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - only the names are needed
            if name >= first[0]:
                yield from _folders_from(folder / name, first[1:] if name == first[0] else ("",) * (len(first) - 1))
