"""Which daemons serve a home directory: each has a file, named by its process id and locked while that process lives.

The operating system releases the lock when the process ends, however it ends, so the file of a dead daemon is
recognised. The list is only information: the store itself makes sure that several daemons can use it at the same time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from clew.core.record import Record
from clew.system.folders import make_private

FOLDER = "serving"
PORT_BYTES = 16  # older versions read these alone


class RunningDaemon(Record):
    pid: int
    port: int | None  # None: its file cannot be read
    version: str | None = None  # None: an older one, which did not say
    started_at: float | None = None


@contextlib.contextmanager
def registered(home: Path, port: int, version: str = "") -> Iterator[None]:
    """While this is open, the process is listed as a daemon. A home that cannot be written to is not an error here."""
    try:
        handle = _locked(home / FOLDER / str(os.getpid()), f"{port:<{PORT_BYTES - 1}}\n{version}\n{time.time()}\n")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (home / FOLDER / str(os.getpid())).unlink()
        os.close(handle)


def _locked(path: Path, content: str) -> int:
    """The file is locked before it gets its name: another process would remove an unlocked file."""
    import fcntl

    make_private(path.parent)
    draft = path.with_name(f".{path.name}")
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, content.encode())
        draft.replace(path)
    except OSError:
        os.close(handle)
        raise
    return handle


def running_daemons(home: Path) -> list[RunningDaemon]:
    """The other daemons of that home on this machine."""
    try:
        names = sorted(int(each.name) for each in (home / FOLDER).iterdir() if each.name.isdecimal())
    except OSError:
        return []
    return [found for pid in names if pid != os.getpid() and (found := _alive(home / FOLDER / str(pid), pid))]


def send_signal(home: Path, daemon: RunningDaemon, number: int) -> bool:
    """Sends a signal to the daemon. False: it has ended. Another process that has its id by now is left alone."""
    import signal

    process = None
    try:
        process = os.pidfd_open(daemon.pid) if hasattr(os, "pidfd_open") else None
        if _alive(home / FOLDER / str(daemon.pid), daemon.pid) is None:
            return False
        if process is not None:
            signal.pidfd_send_signal(process, number)
        else:
            os.kill(daemon.pid, number)
    except ProcessLookupError:
        return False
    finally:
        if process is not None:
            os.close(process)
    return True


def _alive(path: Path, pid: int) -> RunningDaemon | None:
    """None if the file is not locked: its process has ended, so the file is removed."""
    import fcntl

    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _described(pid, os.read(handle, 200).decode("utf-8", "replace"))
    except OSError:
        return None
    else:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    finally:
        os.close(handle)


def _described(pid: int, content: str) -> RunningDaemon:
    port, version, started = (each.strip() for each in f"{content}\n\n\n".split("\n")[:3])
    try:
        started_at = float(started)
    except ValueError:
        started_at = None
    return RunningDaemon(pid, int(port) if port.isdecimal() else None, version or None, started_at)
