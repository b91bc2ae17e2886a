"""Where Codex keeps its sessions. Separate from the code that reads them: a turn does not need it before its spawn."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import UUID
from clew.core.durations import DAY_S

_LAST_S = 4_000_000_000  # the latest accepted time: a UUID that is not of version 7 may begin with any digits


def config_dir(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CODEX_HOME")
    return chosen or str(Path(environ.get("HOME") or "~").expanduser() / ".codex")


def is_session_id(session_id: str) -> bool:
    """Only a UUID is safe: with anything else, `codex exec resume` starts a new session and exits with 0."""
    return UUID.match(session_id) is not None


def session_file(config_dir: str, session_id: str) -> Path | None:
    """In the folder of the day that the id contains, then in any folder: Codex also finds a file that was copied."""
    if not is_session_id(session_id):
        return None
    sessions = Path(config_dir) / "sessions"
    for folder in (*_days(sessions, session_id), sessions):
        pattern = f"**/rollout-*-{session_id}.jsonl" if folder is sessions else f"rollout-*-{session_id}.jsonl"
        found = next((path for path in folder.glob(pattern) if path.is_file()), None)
        if found is not None:
            return found
    return None


def expected_session_path(config_dir: str, session_id: str) -> Path | None:
    """Named by the time that the id contains, as Codex itself would have named it (except for the time zone)."""
    if not is_session_id(session_id):
        return None
    made = time.gmtime(min(_made_s(session_id), _LAST_S))
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', made)}-{session_id}.jsonl"
    return Path(config_dir) / "sessions" / time.strftime("%Y/%m/%d", made) / name


def session_paths(config_dir: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in (Path(config_dir) / "sessions").glob("**/rollout-*.jsonl"):
            if is_session_id(path.stem[-36:]):
                yield path


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
