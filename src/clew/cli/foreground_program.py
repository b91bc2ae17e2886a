"""Runs a program in the foreground of the terminal, as a shell does: it gets the keys, and the terminal is given back.

The program has a process group of its own, which is the terminal's foreground group while it runs. So Ctrl-C and the
like reach it alone. When it is suspended, Clew's own group is suspended too, and the shell takes over; `fg` continues
both. A SIGTERM or SIGHUP that this process receives is passed on; a second one of them kills the program's group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from clew.cli.ui.safe_stream import unguarded
from clew.errors import AgentFailed, AgentMissing, UsageError

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
IGNORED = (signal.SIGINT, signal.SIGQUIT)  # Ctrl-C belongs to the program

# Leaves the alternate screen, and switches mouse reports, bracketed paste and key modes off: a program that was killed
# could not do it.
RESET = (
    "\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"
    "\x1b[?2031l\x1b[?1007h\x1b[<u\x1b[>4;0m\x1b[0m\r\n\x1b[J"
)


def check_terminal() -> None:
    try:
        os.tcgetpgrp(sys.stdin.fileno())
    except OSError:
        raise UsageError("stdin is not the terminal that controls this command.") from None


async def run_in_foreground(
    argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], began: Callable[[int], Awaitable[None]]
) -> int:
    """The exit status of the program; negative: the signal that killed it. stdin must be a terminal.

    `began` is called with its pid. Raises AgentMissing and AgentFailed if it cannot be started.
    """
    check_terminal()
    terminal = sys.stdin.fileno()
    modes, ours = termios.tcgetattr(terminal), os.tcgetpgrp(terminal)
    with _signals() as pass_to:
        process = _started(argv, cwd, environ)
        pass_to(process.pid)
        # Else the kernel would stop us when we take the terminal back. The program must not inherit it.
        background = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(terminal, process.pid)
            _send(process.pid, signal.SIGCONT)  # it was stopped if it used the terminal before it was given to it
            await began(process.pid)
            status = await _ended(process, terminal, modes)
        except BaseException:
            _send(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(terminal, ours)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
            signal.signal(signal.SIGTTOU, background)
    if status < 0:
        unguarded(sys.stderr).write(RESET)
    return status


def _started(argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, cwd=cwd, env=dict(environ), process_group=0)
    except FileNotFoundError as error:
        raise AgentMissing(f"{argv[0]} is gone.", hint="Run clew doctor.") from error
    except OSError as error:
        raise AgentFailed(f"{argv[0]} cannot be started: {error.strerror}.", hint="Run clew doctor.") from error


async def _ended(process: subprocess.Popen[bytes], terminal: int, modes: list[Any]) -> int:
    """Waits for the end. While the program is suspended, so is this process."""
    loop = asyncio.get_running_loop()
    while True:
        _, status = await loop.run_in_executor(None, os.waitpid, process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode
        if os.WSTOPSIG(status) not in (signal.SIGTTIN, signal.SIGTTOU):
            theirs = termios.tcgetattr(terminal)
            os.tcsetpgrp(terminal, os.getpgrp())
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
            os.killpg(0, signal.SIGTSTP)  # continues here after `fg`; without a shell above, it does nothing
            while os.tcgetpgrp(terminal) != os.getpgrp():
                os.killpg(0, signal.SIGTTIN)  # continued with `bg`: the terminal is the shell's
            termios.tcsetattr(terminal, termios.TCSADRAIN, theirs)
        os.tcsetpgrp(terminal, process.pid)
        _send(process.pid, signal.SIGCONT)


def _send(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[int], None]]:
    """Yields a function that names the group to which signals are passed on. One that came before is passed on then."""
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []
    groups: list[int] = []

    def pass_on(number: signal.Signals) -> None:
        received.append(number)
        for group in groups:
            _send(group, number if len(received) == 1 else signal.SIGKILL)
            _send(group, signal.SIGCONT)  # a suspended program takes no signal

    def pass_to(group: int) -> None:
        groups.append(group)
        for number in received:
            _send(group, number)

    before = {number: signal.getsignal(number) for number in (*PASSED_ON, *IGNORED)}
    for number in PASSED_ON:
        loop.add_signal_handler(number, pass_on, number)
    for number in IGNORED:
        loop.add_signal_handler(number, lambda: None)
    try:
        yield pass_to
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
