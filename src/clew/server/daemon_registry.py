"""Which daemons serve a home: a file for each, named by its process and locked as long as that one lives.

The lock goes with the process, however it ends, so nothing here is ever stale. Only for telling people: the store
itself sees to it that several daemons on it do each other no harm.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from clew.core.record import Record
from clew.private_folder import make_private

FOLDER = "serving"


class Daemon(Record):
    """One that is alive."""

    pid: int
    port: int | None  # None: its file does not tell


@contextlib.contextmanager
def announced(home: Path, port: int) -> Iterator[None]:
    """This process serves that home on that port. A home that cannot be written is nobody's trouble here."""
    try:
        handle = _locked(home / FOLDER / str(os.getpid()), port)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (home / FOLDER / str(os.getpid())).unlink()
        os.close(handle)


def _locked(path: Path, port: int) -> int:
    """Locked before it has its name: whoever finds it unlocked may take it away."""
    import fcntl

    make_private(path.parent)
    made = path.with_name(f".{path.name}")
    handle = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, f"{port}\n".encode())
        made.replace(path)
    except OSError:
        os.close(handle)
        raise
    return handle


def serving(home: Path) -> list[Daemon]:
    """The daemons of that home on this machine, without this process."""
    try:
        names = sorted(int(each.name) for each in (home / FOLDER).iterdir() if each.name.isdecimal())
    except OSError:
        return []
    return [found for pid in names if pid != os.getpid() and (found := _alive(home / FOLDER / str(pid), pid))]


def _alive(path: Path, pid: int) -> Daemon | None:
    """Whoever left a file without a lock is gone, and its file goes too."""
    import fcntl

    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(handle, 16).decode("ascii", "replace").strip()
        return Daemon(pid, int(text) if text.isdecimal() else None)
    except OSError:
        return None
    else:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    finally:
        os.close(handle)
