"""The program between Clew and an agent on Linux: all that the agent ever starts stays below it.

A process whose parent ends goes to the nearest ancestor that asked for it, or else to the machine's first process,
where nothing tells any more whose it was. This one asks for it. It starts the agent in a session of its own, reports
its process id and later its exit status, and stays as long as anything is left below it: so a tool's child that
scrubbed its environment and left its parents is still found, by Clew or by the next Clew after a crash.

It is run as a script, with the descriptor to report to and the agent's command line, and imports nothing of Clew's: an
agent's start waits for it.
"""

import ctypes
import os
import sys
from _signal import (  # type: ignore[import-not-found]  # `signal` makes enumerations of them, which takes longer
    SIG_DFL,
    SIG_IGN,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    signal,
)

PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
PRCTL = ctypes.CDLL(None).prctl


def main(report: int, argv: list[str]) -> None:
    PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launcher = os.getpid()
    read, write = os.pipe()  # closed by the agent's start
    agent = os.fork()
    if agent == 0:
        os.close(report)
        os.setsid()
        PRCTL(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)  # without the launcher, what it starts could be lost
        if os.getppid() == launcher:
            become(argv, write)
        os._exit(127)
    os.close(write)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # or the agent's end of its output would not be the end
        os.dup2(nowhere, descriptor)
    for number in (SIGHUP, SIGINT, SIGTERM):  # it ends when all below it has
        signal(number, SIG_IGN)
    failed = os.read(read, 100)
    say(report, f"failed {failed.decode()}" if failed else f"started {agent}")
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == agent:
            say(report, f"ended {os.waitstatus_to_exitcode(status)}")


def become(argv: list[str], write: int) -> None:
    signal(SIGPIPE, SIG_DFL)  # Python ignores these two, and a program would start so
    signal(SIGXFSZ, SIG_DFL)
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - as it was given: Python may have set LC_CTYPE
            given = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)
        os.execve(argv[0], argv, given)
    except OSError as error:
        os.write(write, str(error.errno).encode())
    finally:
        os._exit(127)


def say(report: int, words: str) -> None:
    try:  # noqa: SIM105 - an import that an agent's start would wait for
        os.write(report, f"{words}\n".encode())
    except OSError:
        pass  # Clew has died; the agent goes on until the next one ends it


if __name__ == "__main__":
    signal(SIGPIPE, SIG_IGN)
    main(int(sys.argv[1]), sys.argv[2:])
