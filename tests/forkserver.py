"""`clew` in a process of its own, forked from a server that has the modules loaded, which saves the start of Python.

    done = forkserver.run("threads", "list", env=…, cwd=…)            # like subprocess.run
    process = forkserver.start(["serve"], env=…, cwd=…, stdout=PIPE)    # like subprocess.Popen

The process has its own working directory, descriptors, environment and signals: everything that a test of the command
line looks at. It does not show how the interpreter starts and which modules it loads. For that,
`tests/cli/test_start.py` and `tests/cli/test_shell.py` start a real interpreter, and `tests/cli/test_forkserver.py`
compares the two. There is one server for each pytest worker, started when it is first needed. It ends with the worker,
and so do all processes that it forked.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import residents

STANDARD_STREAMS = 3  # stdin, stdout, stderr
MAX_REQUEST_BYTES = 1 << 20


class Command(subprocess.Popen[Any]):
    """`clew ARGS`, or the program at `script` with ARGS. Takes the options of Popen, except `preexec_fn` and the like.

    `terminal`: its stdin becomes its controlling terminal.
    """

    def __init__(self, args: Sequence[str], *, script: Path | None = None, terminal: bool = False, **options: Any):
        self._script = script
        self.program = ["clew" if script is None else str(script)]  # its name in the report of a failed test
        self._terminal = terminal
        self._report: socket.socket | None = None
        options["start_new_session"] = options.get("start_new_session", False) or terminal
        super().__init__([str(word) for word in args], **options)

    def _execute_child(  # type: ignore[override]
        self,
        args: list[str],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: Path | str | None,
        env: Mapping[str, str] | None,
        startupinfo: object,
        creationflags: object,
        shell: object,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: object,
        gid: object,
        gids: object,
        uid: object,
        umask: object,
        start_new_session: bool,
        process_group: object = -1,
    ) -> None:
        assert preexec_fn is None and not pass_fds and executable is None, "options that only a real process supports"
        request = {
            "args": args,
            "script": None if self._script is None else str(self._script),
            "cwd": str(Path.cwd() if cwd is None else cwd),
            "environ": dict(os.environ if env is None else env),
            "session": start_new_session,
            "terminal": self._terminal,
        }
        given = [own if fd == -1 else fd for own, fd in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid, self._report = ForkServer.ready().fork(request, given)
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        self._child_created = True

    def __del__(self) -> None:
        """No warning if nobody waits for the process: the server does."""
        if getattr(self, "_report", None) is not None:
            self._report.close()

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        """Like Popen's own. The status can be read only once, so a thread that already waits reads it."""
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    self._try_wait(os.WNOHANG)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Like `os.waitpid`, which cannot be used, because the process is the server's child."""
        if self._report is None:
            return self.pid, 0
        if wait_flags & os.WNOHANG and not select.select([self._report], [], [], 0)[0]:
            return 0, 0
        status = int(self._report.recv(64) or str(signal.SIGKILL))  # empty: the server has ended and killed it
        self._report.close()
        self._report = None
        self.returncode = os.waitstatus_to_exitcode(status)
        return self.pid, status


def start(args: Sequence[object], *, script: Path | None = None, env: Mapping[str, str], **options: Any) -> Any:
    """`clew ARGS`, or the program at `script`. If the environment configures the interpreter, a new one is started."""
    words = [str(word) for word in args]
    if script is None and (handed := residents.environ_for(words, env)) is not None:
        return subprocess.Popen([*residents.COMMAND, *words], env=handed, preexec_fn=restore_sigint, **options)
    if not any(name.startswith("PYTHON") for name in env) and env.get("LANG") == "C.UTF-8":
        return Command(words, script=script, env=env, **options)
    program = ["-m", "clew"] if script is None else [str(script)]
    return subprocess.Popen([sys.executable, *program, *words], env=env, preexec_fn=restore_sigint, **options)


def on_terminal(args: Sequence[object], *, env: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    """`clew ARGS` on the terminal that is its stdin."""
    words = [str(word) for word in args]
    if (handed := residents.environ_for(words, env)) is None:
        return Command(words, terminal=True, env=env, **options)
    return subprocess.Popen(
        [*residents.COMMAND, *words], env=handed, preexec_fn=own_terminal, start_new_session=True, **options
    )


def own_terminal() -> None:
    restore_sigint()
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def restore_sigint() -> None:
    """As for a foreground command of a shell: the process that started the tests may ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(
    *args: str, input: bytes | str | None = None, timeout: float = 90, text: bool = True, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Runs `clew ARGS` to its end, and returns its output."""
    options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
    with start(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(["clew", *args], process.returncode, out, err)


class AsyncProcess:
    """A started process in an event loop, with the interface of asyncio.subprocess."""

    def __init__(self, process: Any, stdout: asyncio.StreamReader | None) -> None:
        self._process = process
        self.pid: int = process.pid
        self.stdout = stdout
        self.send_signal = process.send_signal
        self.terminate = process.terminate
        self.kill = process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.poll()  # type: ignore[no-any-return]

    async def wait(self) -> int:
        """Polls, because a thread that waits would delay the end of the loop for as long as the process runs."""
        while (status := self._process.poll()) is None:
            await asyncio.sleep(0.02)
        return int(status)

    async def communicate(self) -> tuple[bytes, None]:
        out = await self.stdout.read() if self.stdout is not None else b""
        await self.wait()
        return out, None


async def start_in_loop(args: Sequence[object], **options: Any) -> AsyncProcess:
    """Like `start`; its output, if that is a pipe, is read by the event loop."""
    process = await asyncio.to_thread(start, args, **options)
    if process.stdout is None:
        return AsyncProcess(process, None)
    import process_record  # imported here, because the server does not need it

    reader = asyncio.StreamReader()
    process_record.follow(reader, process_record.record_of(process), "stdout")
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    return AsyncProcess(process, reader)


class ForkServer:
    """The fork server of this process, seen from the client's side."""

    _one: ClassVar[ForkServer | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST_BYTES)
        self._owner = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        atexit.register(self.end)

    @classmethod
    def ready(cls) -> ForkServer:
        with cls._lock:
            if cls._one is None or cls._one._owner != os.getpid():
                cls._one = cls()
            return cls._one

    def fork(self, request: Mapping[str, Any], std: Sequence[int]) -> tuple[int, socket.socket]:
        """The pid of the new process, and the socket on which its status will be reported."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(
                self._socket, [json.dumps(request).encode("utf-8", "surrogateescape")], [*std, theirs.fileno()]
            )
        said = ours.recv(64)
        assert said, "the fork server has ended"
        return int(said), ours

    def end(self) -> None:
        self._socket.close()
        if self._owner == os.getpid():
            self._process.wait()


# The server's side. It stays single-threaded, and only forks.


def serve(requests: socket.socket) -> None:
    _load()
    wakes, wake = socket.socketpair()
    for end in (wakes, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, wakes], [], [])
        if wakes in ready:
            with contextlib.suppress(BlockingIOError):
                wakes.recv(4096)
            _report_ended(running)
        if requests in ready:
            words, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, STANDARD_STREAMS + 1)
            if not words:
                break
            report = socket.socket(fileno=descriptors.pop())
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for end in (requests, wakes, wake, report, *running.values()):
                    end.close()
                _become(json.loads(words.decode("utf-8", "surrogateescape")), descriptors)
            running[pid] = report
            for descriptor in descriptors:
                os.close(descriptor)
            with contextlib.suppress(BrokenPipeError):  # the client was interrupted
                report.send(str(pid).encode())
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _report_ended(running: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        report = running.pop(pid)
        with contextlib.suppress(BrokenPipeError), report:
            report.send(str(status).encode())


def _load() -> None:
    """Imports what `clew` and the daemon would import."""
    import gc

    import clew.api.client
    import clew.cli.commands
    import clew.server.app  # noqa: F401

    gc.collect()
    gc.freeze()


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """In the new process: sets up everything as for a new interpreter, and runs the program. Does not return."""
    code: object = 70
    try:
        if request["session"]:
            os.setsid()
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
        for descriptor in descriptors:
            os.close(descriptor)
        if request["terminal"]:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        _renew_streams()
        code = _run_program(request)
    except SystemExit as left:
        code = left.code
    except BaseException as error:  # noqa: BLE001 - like the interpreter
        import traceback

        traceback.print_exc()
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # as at the end of any program: wait for its threads
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _renew_streams() -> None:
    import time

    time.tzset()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115 - open to the end
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115 - open to the end


def _run_program(request: Mapping[str, Any]) -> object:
    if request["script"] is None:
        from clew.cli.main import entry

        sys.argv = ["clew", *request["args"]]
        entry()
    import runpy

    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = str(Path(request["script"]).parent)
    runpy.run_path(request["script"], run_name="__main__")
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
