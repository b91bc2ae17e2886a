"""The caller's side: hands the command over, and stands for it until it ends.

Rules
1. Before `go` was sent, every failure means that this process does the work itself.
2. From then on it does nothing but wait and pass signals on. It ends as the process ended: with its exit status, or by
   the same signal.
3. Nothing here may wait for a resident that does not answer, except for the process that has the command.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal and socket would load enum
import _socket
import os
import sys
from time import monotonic

from clew.resident.request import FOLDER, GO, TERMINAL, Request, flags_of_interpreter, install_of

TYPE_CHECKING = False  # typing would take longer to load than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

INTERRUPTED = 1  # the exit status of a run whose process died, as docs/errors.md says
CANCELLED = 7
LINE_BYTES = 4096
PASSED_ON = tuple(
    getattr(_signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGWINCH", "SIGTSTP", "SIGCONT", "SIGUSR1", "SIGUSR2")
)
INTERACTIVE = ("chat",)  # draws on the terminal at any time, so it may not run in the background


def carried_out(path: str, version: str, package: str, wait_s: float) -> int | None:
    """The exit status of the command. None: nothing was done."""
    try:
        handed = _hand_over(path, version, package, monotonic() + wait_s)
    except (OSError, ValueError):
        return None
    except KeyboardInterrupt:
        return CANCELLED
    return None if handed is None else handed.wait()


def _hand_over(path: str, version: str, package: str, until: float) -> _Handed | None:
    terminal = _terminal()
    opened = [] if terminal is None else [terminal]
    connection = None
    try:
        if terminal is not None and os.tcgetpgrp(terminal) != os.getpgrp():
            return None  # a background job: only its own process is stopped when it reads from the terminal
        folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        opened.append(folder)
        request, files = _described(version, package, folder, terminal)
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        _limit(connection, until)
        connection.connect(path)
        if _peer(connection) != os.geteuid():
            return None
        _send(connection, request.encode(), until)
        said, _, rest = _line(connection, until).partition(b"\n")
        words = os.fsdecode(said).split()
        if rest or len(words) != 3 or words[0] != "ready" or words[2] != version:
            return None
        handed = _Handed(connection, int(words[1]), terminal)
        if not handed.begin(files):
            return None
        opened.remove(folder)
        os.close(folder)
        opened.clear()
        connection = None
        return handed
    finally:
        for descriptor in opened:
            os.close(descriptor)
        if connection is not None:
            connection.close()


def _terminal() -> int | None:
    """The terminal that controls this process, if there is one."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _described(version: str, package: str, folder: int, terminal: int | None) -> tuple[Request, list[int]]:
    """The request, and the descriptors that its `files` name."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    given = {str(number): number for number, stream in enumerate(streams) if stream is not None}
    given[FOLDER] = folder
    if terminal is not None:
        given[TERMINAL] = terminal
    os.umask(mask := os.umask(0o077))
    request = Request(
        version=version,
        install=install_of(package),
        user=os.getuid(),
        group=os.getgid(),
        groups=os.getgroups(),
        mask=mask,
        flags=flags_of_interpreter(),
        ignored=[number for number in PASSED_ON if _signal.getsignal(number) == _signal.SIG_IGN],
        streams=[
            f"{number}:{stream.encoding}:{stream.errors}" for number, stream in enumerate(streams) if stream is not None
        ],
        files=list(given),
        arguments=sys.argv,
        environ=os.environb,
    )
    return request, list(given.values())


def _limit(connection: _socket.socket, until: float) -> None:
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


def _peer(connection: _socket.socket) -> int:
    """The user of the process that listens."""
    if sys.platform == "darwin":
        return int.from_bytes(connection.getsockopt(0, 1, 8)[4:], sys.byteorder)  # LOCAL_PEERCRED
    return int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)


def _send(connection: _socket.socket, content: bytes, until: float) -> None:
    while content:
        _limit(connection, until)
        content = content[connection.send(content) :]


def _line(connection: _socket.socket, until: float) -> bytes:
    said = b""
    while b"\n" not in said:
        _limit(connection, until)
        piece = connection.recv(LINE_BYTES)
        if not piece:
            raise OSError("the connection was closed")
        said += piece
    return said


class _Handed:
    """A command that another process is ready to carry out, or carries out."""

    def __init__(self, connection: _socket.socket, pid: int, terminal: int | None) -> None:
        self._connection = connection
        self._pid = pid
        self._terminal = terminal
        self._process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        self._wakes, wake = _socket_pair()
        self._wake = wake
        self._said = b""
        self._exiting: int | None = None
        self._handlers: dict[int, Any] = {}
        self._is_job_stopping = False

    def begin(self, files: Sequence[int]) -> bool:
        """Says `go`, and gives the open files. False: the process is gone, and has done nothing."""
        for number in PASSED_ON:
            before = _signal.getsignal(number)
            # What the caller ignores stays ignored; but not SIGINT, which shells ignore for `clew … &` in a script.
            if before != _signal.SIG_IGN or number == _signal.SIGINT:
                self._handlers[number] = before
                _signal.signal(number, _noticed)
        _signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._connection.settimeout(None)
        try:
            rights = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in files)
            self._connection.sendmsg([GO], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        except OSError:
            self._restore()
            return False
        return True

    def _restore(self) -> None:
        _signal.set_wakeup_fd(-1)
        for number, before in self._handlers.items():
            _signal.signal(number, before)

    def wait(self) -> int:
        """The exit status. Does not return if a signal ended the process."""
        from select import select

        while True:
            awaited: list[Any] = [self._connection, self._wakes]
            if self._exiting is not None and self._process is not None:
                awaited.append(self._process)  # its end is enough: the fork server may be stopped, and say nothing
            ready, _, _ = select(awaited, [], [])
            if self._wakes in ready:
                for number in self._wakes.recv(LINE_BYTES):
                    self._pass_on(number)
            if self._connection in ready:
                piece = self._received()
                if not piece:
                    return self._vanished()
                *lines, self._said = (self._said + piece).split(b"\n")
                for line in lines:
                    status = self._heard(*line.decode("ascii", "replace").split())
                    if status is not None:
                        return status
            elif self._process in ready:
                return self._exiting or 0

    def _received(self) -> bytes:
        try:
            return self._connection.recv(LINE_BYTES)
        except OSError:
            return b""

    def _heard(self, word: str, argument: str = "0") -> int | None:
        number = int(argument)
        if word == "exit":
            return number
        if word == "killed":
            _end_by(number)
            return 128 + number
        if word == "failed":
            return self._vanished()
        if word == "exiting":
            self._exiting = number
        elif word == "stopped":
            self._suspend(_signal.SIGSTOP if number == _signal.SIGSTOP else _signal.SIGTSTP)
        elif word == "typing":
            while not self._is_in_foreground():
                self._suspend(_signal.SIGTTIN)
            try:
                self._connection.send(b"yes\n")
            except OSError:
                pass
        return None

    def _vanished(self) -> int:
        if self._exiting is not None:
            return self._exiting
        try:
            os.write(
                2,
                b"clew: the process that carried this command out is gone.\n"
                b"  What was answered so far is kept: clew runs list shows the run, and you can ask again.\n",
            )
        except OSError:
            pass
        return INTERRUPTED

    def _is_in_foreground(self) -> bool:
        try:
            return self._terminal is None or os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return True  # the terminal is gone, and reading from it fails

    def _suspend(self, number: int) -> None:
        """Stops this job as the process was stopped, so that the shell sees it. Continues after `fg` or `bg`."""
        while True:
            if number != _signal.SIGSTOP:
                _signal.signal(number, _signal.SIG_DFL)
            # The terminal sends SIGTSTP to each process of a job itself.
            os.kill(os.getpid() if self._is_job_stopping or number == _signal.SIGSTOP else 0, number)
            self._is_job_stopping = False
            if number in self._handlers:
                _signal.signal(number, _noticed)
            if self._is_in_foreground() or not {*sys.argv[1:2]} & {*INTERACTIVE}:
                break
            number = _signal.SIGTTIN
        self._pass_on(_signal.SIGCONT)

    def _pass_on(self, number: int) -> None:
        self._is_job_stopping = number == _signal.SIGTSTP
        try:
            if self._process is not None:
                _signal.pidfd_send_signal(self._process, number)
            else:
                os.kill(self._pid, number)
        except OSError:
            pass  # it has just ended


def _noticed(*_: object) -> None:
    """The number of the signal is in the wake-up socket."""


def _socket_pair() -> tuple[_socket.socket, _socket.socket]:
    pair = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    for end in pair:
        end.setblocking(False)
    return pair


def _end_by(number: int) -> None:
    """Ends this process by the signal, so that its parent sees what it would have seen."""
    if number != _signal.SIGKILL:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
