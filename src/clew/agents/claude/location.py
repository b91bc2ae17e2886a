"""Where Claude keeps its sessions. Apart from reading them: a turn needs no more than this before its spawn."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

SLUG_MOST = 200  # the CLI cuts what is longer, and adds a sum of its own

_SESSION_ID = re.compile(r"[A-Za-z0-9-]+\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def config_dir(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return chosen or str(Path(environ.get("HOME") or "~").expanduser() / ".claude")


def session_file(config_dir: str, work_dir: str, session_id: str) -> Path | None:
    """By the folder's name as the CLI makes it; then anywhere below, since names of long paths are cut."""
    if not _SESSION_ID.match(session_id):
        return None
    projects = Path(config_dir) / "projects"
    path = projects / _slug(work_dir) / f"{session_id}.jsonl"
    with contextlib.suppress(OSError):  # the name of a long path is too long for a file's
        if path.is_file():
            return path
    return next((found for found in projects.glob(f"*/{session_id}.jsonl") if found.is_file()), None)


def session_place(config_dir: str, work_dir: str, session_id: str) -> Path | None:
    slug = _slug(work_dir)
    if not _UUID.match(session_id) or len(slug) > SLUG_MOST:
        return None
    return Path(config_dir) / "projects" / slug / f"{session_id}.jsonl"


def session_paths(config_dir: str) -> Iterator[Path]:
    """A subagent's file is called otherwise, or lies in a folder of its own."""
    with contextlib.suppress(OSError):
        for path in (Path(config_dir) / "projects").glob("*/*.jsonl"):
            if _UUID.match(path.stem):
                yield path


def _slug(work_dir: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(work_dir))
