"""A program in the background, with a session of its own and a private log that does not grow for ever."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.system.folders import make_private

MAX_LOG_BYTES = 1_000_000
KEPT_BYTES = 200_000  # of a log that was too long
TAIL_BYTES = 4000


def start(command: Sequence[str], environ: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts the program in `/`. Its stderr is the log, and its stdout is a pipe. Raises OSError."""
    make_private(log.parent)
    shorten(log)
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as writing:
        return subprocess.Popen(
            command,
            env=dict(environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writing,
            start_new_session=True,
        )


def shorten(log: Path) -> None:
    """Keeps the end of a log that is too long. Whoever has it open appends to it, and need not open it again."""
    with contextlib.suppress(OSError):
        if log.stat().st_size <= MAX_LOG_BYTES:
            return
        with log.open("rb+") as file:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            kept = file.read().partition(b"\n")[2]
            file.seek(0)
            file.truncate()
            file.write(kept)


def end_of(log: Path, since: int) -> str:
    """What was written to the log after the first `since` bytes, or the end of that."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0
