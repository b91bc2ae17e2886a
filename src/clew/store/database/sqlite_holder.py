"""Which process holds the write lock of an SQLite database, and whether that process is stopped. Linux only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

WRITE_LOCK_BYTE = 120  # of the -shm file, by SQLite's file format: a writer locks it


class Holder(NamedTuple):
    """The process that is inside a write transaction."""

    pid: int
    command: str  # empty: it cannot be read
    is_stopped: bool

    def __str__(self) -> str:
        command = f" ({self.command})" if self.command else ""
        return f"process {self.pid}{command}{', which is stopped' if self.is_stopped else ''}"

    @property
    def hint(self) -> str:
        if self.is_stopped:
            return f"Continue it (kill -CONT {self.pid}), or end it (kill -KILL {self.pid}): its transaction is undone."
        return f"Wait for it, or see what it does: ps -o pid,stat,args -p {self.pid}."


def write_lock_holder(path: Path) -> Holder | None:
    """The process that has the write lock of that database. None: no process, or the system does not say.

    It is read from /proc/locks: opening and closing the file would release this process's own locks on it.
    """
    try:
        status = os.stat(f"{path}-shm")  # noqa: PTH116
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        fields = line.split()
        # 7: POSIX  ADVISORY  WRITE 4651 fe:00:1449994 120 120; a waiting process has an arrow before its kind
        if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE" or fields[5] != file:
            continue
        last = float("inf") if fields[7] == "EOF" else int(fields[7])
        if int(fields[6]) <= WRITE_LOCK_BYTE <= last:
            return _holder(int(fields[4]))
    return None


def _holder(pid: int) -> Holder | None:
    if pid <= 0:  # the process is in another pid namespace
        return None
    process = Path("/proc", str(pid))
    try:
        state = process.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        command = process.joinpath("cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").strip()
    except (OSError, IndexError):
        return Holder(pid, "", is_stopped=False)
    shown = "".join(char if char.isprintable() else "?" for char in command)
    return Holder(pid, shown if len(shown) <= 80 else f"{shown[:79]}…", is_stopped=state in ("T", "t"))
