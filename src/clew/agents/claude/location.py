"""Where Claude keeps its sessions. Apart from reading them: a turn needs no more than this before its spawn."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

_SESSION_ID = re.compile(r"[A-Za-z0-9-]+\Z")


def config_dir(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return chosen or str(Path(environ.get("HOME") or "~").expanduser() / ".claude")


def session_file(config_dir: str, work_dir: str, session_id: str) -> Path | None:
    """By the folder's name as the CLI makes it; then anywhere below, since names of long paths are cut."""
    if not _SESSION_ID.match(session_id):
        return None
    projects = Path(config_dir) / "projects"
    slug = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(work_dir))
    path = projects / slug / f"{session_id}.jsonl"
    with contextlib.suppress(OSError):  # the name of a long path is too long for a file's
        if path.is_file():
            return path
    return next((found for found in projects.glob(f"*/{session_id}.jsonl") if found.is_file()), None)
