"""The program that carries commands out for `clew` while a daemon runs: it has the modules loaded, and forks.

    python -m clew.cli.daemon.fork_server DESCRIPTOR

The descriptor is a socket to the daemon. The program ends when that is closed, so it cannot outlive the daemon, but for
commands in progress. It says what happens there, a line each: `listening`, `commands N`, `failed WHY`.

Rules
1. It has one thread, opens no store, and only forks. What a command does happens in a process of its own.
2. It forks for each connection of its own user, before anything is read from it, so a caller can harm only itself.
3. It alone knows how a process ended, and tells the caller. If the caller is gone, it ends the process gracefully.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.daemon import forked_command
from clew.resident import location

if TYPE_CHECKING:
    from clew.cli.daemon.forked_command import Resident

BACKLOG = 128
RETRY_S = 1.0  # how often it is tried to become the listener, while another daemon of this home is
LOOK_S = 30.0  # how often it is seen to it that the socket can be found
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | getattr(select, "POLLRDHUP", 0)


def main() -> None:
    import fcntl

    # Not among the standard streams: those of each process are replaced by the caller's.
    daemon = socket.socket(fileno=fcntl.fcntl(int(sys.argv[1]), fcntl.F_DUPFD_CLOEXEC, 3))
    daemon.setblocking(False)
    resident = forked_command.load()
    gc.collect()
    gc.freeze()  # else the garbage collection of each process would copy the memory that it shares with the others
    Listener(daemon, resident).run()


class Listener:
    def __init__(self, daemon: socket.socket, resident: Resident) -> None:
        self._daemon = daemon
        self._resident = resident
        self._path = Path(resident.socket)
        self._lock: int | None = None
        self._listening: socket.socket | None = None
        self._made: tuple[int, int] | None = None  # the file of the socket
        self._running: dict[int, socket.socket] = {}  # the connections of the processes
        self._wakes, self._wake = socket.socketpair()
        for end in (self._wakes, self._wake):
            end.setblocking(False)

    def run(self) -> None:
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon decides when it ends
        while self._is_daemon_there() or self._running:
            self._listen_if_possible()
            self._wait()
        self._stop_listening()

    def _is_daemon_there(self) -> bool:
        try:
            there = self._daemon.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            there = False
        if not there:
            self._stop_listening()
        return there

    def _listen_if_possible(self) -> None:
        """Only one daemon of a home listens. The lock says which; the socket of one that died is replaced, and so is
        one whose runtime folder was removed, because its user had logged out."""
        import fcntl

        if self._listening is not None and _file(self._path) != self._made:
            self._close_socket()
        if self._listening is not None or self._daemon.fileno() < 0:
            return
        try:
            location.make_private(str(self._path.parent))
            lock = os.open(
                self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            self._say(f"failed {error}")
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
            mask = os.umask(0o177)
            try:
                listening.bind(str(self._path))
            finally:
                os.umask(mask)
            listening.listen(BACKLOG)
            listening.setblocking(False)
        except BlockingIOError:
            os.close(lock)
            listening.close()
        except OSError as error:
            os.close(lock)
            listening.close()
            self._say(f"failed {error}")
        else:
            self._lock, self._listening, self._made = lock, listening, _file(self._path)
            self._say("listening")

    def _stop_listening(self) -> None:
        self._daemon.close()
        if self._listening is None:
            return
        if _file(self._path) == self._made:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._close_socket()

    def _close_socket(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._lock is not None:
            os.close(self._lock)
        self._listening = self._lock = self._made = None

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        callers = {connection.fileno(): pid for pid, connection in self._running.items() if connection.fileno() >= 0}
        for descriptor in callers:
            poll.register(descriptor, GONE)
        for awaited in (self._daemon, self._listening):
            if awaited is not None and awaited.fileno() >= 0:
                poll.register(awaited, select.POLLIN)
        wait_s = RETRY_S if self._listening is None else LOOK_S
        ready = dict(poll.poll(None if self._daemon.fileno() < 0 else wait_s * 1000))
        if self._wakes.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                self._wakes.recv(4096)
            self._report()
        for descriptor, pid in callers.items():
            if descriptor in ready and pid in self._running:
                self._running[pid].close()  # nobody is there to be told anything
                for number in (signal.SIGTERM, signal.SIGCONT):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
        if self._listening is not None and self._listening.fileno() in ready:
            self._accept(self._listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        if forked_command.user_of(connection) != os.geteuid():
            connection.close()
            return
        try:
            pid = os.fork()
        except OSError:  # too many processes: the caller does its work itself
            connection.close()
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            self._forget_all()
            forked_command.run(connection, self._resident, tuple(self._running))
        self._running[pid] = connection
        self._say(f"commands {len(self._running)}")

    def _forget_all(self) -> None:
        """In the new process: closes what belongs to this one."""
        for each in (self._daemon, self._listening, self._wakes, self._wake, *self._running.values()):
            if each is not None:
                each.close()
        if self._lock is not None:
            os.close(self._lock)

    def _report(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._tell(pid, f"stopped {os.WSTOPSIG(status)}")
                continue
            code = os.waitstatus_to_exitcode(status)
            self._tell(pid, f"killed {-code}" if code < 0 else f"exit {code}")
            self._running.pop(pid).close()
            self._say(f"commands {len(self._running)}")

    def _tell(self, pid: int, words: str) -> None:
        with contextlib.suppress(OSError):
            self._running[pid].send(f"{words}\n".encode(), socket.MSG_DONTWAIT)

    def _say(self, words: str) -> None:
        with contextlib.suppress(OSError):  # it is gone, or does not read
            self._daemon.send(f"{words}\n".encode())


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


if __name__ == "__main__":
    main()
