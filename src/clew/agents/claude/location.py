"""Where Claude keeps its sessions. Separate from the code that reads them: a turn does not need it before its spawn."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import UUID

MAX_SLUG_CHARS = 200  # the CLI cuts a longer name, and appends a hash of its own

_SESSION_ID = re.compile(r"[A-Za-z0-9-]+\Z")


def config_dir(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return chosen or str(Path(environ.get("HOME") or "~").expanduser() / ".claude")


def session_file(config_dir: str, work_dir: str, session_id: str) -> Path | None:
    """In the folder that the CLI would use; then in any project's folder, because the names of long paths are cut."""
    if not _SESSION_ID.match(session_id):
        return None
    projects = Path(config_dir) / "projects"
    path = projects / _slug(work_dir) / f"{session_id}.jsonl"
    with contextlib.suppress(OSError):  # the slug of a long path is too long for a file name
        if path.is_file():
            return path
    return next((found for found in projects.glob(f"*/{session_id}.jsonl") if found.is_file()), None)


def expected_session_path(config_dir: str, work_dir: str, session_id: str) -> Path | None:
    slug = _slug(work_dir)
    if not UUID.match(session_id) or len(slug) > MAX_SLUG_CHARS:
        return None
    return Path(config_dir) / "projects" / slug / f"{session_id}.jsonl"


def session_paths(config_dir: str) -> Iterator[Path]:
    """Without the files of subagents, which have other names or are in folders of their own."""
    with contextlib.suppress(OSError):
        for path in (Path(config_dir) / "projects").glob("*/*.jsonl"):
            if UUID.match(path.stem):
                yield path


def _slug(work_dir: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(work_dir))
