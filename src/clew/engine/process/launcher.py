"""The launcher, a program between Clew and its agents on Linux: all descendants of an agent stay below one process.

When a parent process ends, its children are given to their nearest ancestor that is a subreaper, or else to the
machine's first process, where nothing tells to whom they belonged. So the launcher gives each agent a parent that is a
subreaper. The parent starts the agent in a session of its own, reports the agent's process id and later its exit
status, and stays until everything below it has ended. So even a process that cleared its environment and lost its
parents is found, by Clew or by the next Clew after a crash. The parent is recognised by its name, which is derived from
the attempt's mark (`family.launcher_name`).

The launcher is started once for each process of Clew, and forks a parent for every agent: a fork takes a millisecond, a
start of Python twenty. The launcher ends with the process that started it; the parents do not.

It runs as a script, with the number of a socket as its argument. It imports nothing of Clew, because the first agent
cannot start before it is ready. A request is one byte on the socket with five file descriptors: the agent's stdin,
stdout and stderr; where to write reports; and a file. The file holds the parent's name, the directory, the number of
words of the command line, these words, and the environment.
"""

import ctypes
import gc
import os
import sys
from _signal import (  # type: ignore[import-not-found]  # `signal` makes enumerations of them, which costs time
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    signal,
)
from _socket import AF_UNIX, CMSG_SPACE, MSG_CMSG_CLOEXEC, SOCK_SEQPACKET, socket

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
PRCTL = ctypes.CDLL(None).prctl
DESCRIPTORS, BYTES = 5, 4


def serve(control: socket) -> None:
    signal(SIGPIPE, SIG_IGN)
    signal(SIGCHLD, SIG_IGN)  # so that the kernel reaps a parent that has ended
    gc.disable()
    while True:
        asked, ancillary, _, _ = control.recvmsg(1, CMSG_SPACE(DESCRIPTORS * BYTES), MSG_CMSG_CLOEXEC)
        if not asked:
            os._exit(0)
        [(_, _, packed)] = ancillary
        given = [int.from_bytes(packed[n : n + BYTES], sys.byteorder) for n in range(0, len(packed), BYTES)]
        try:
            is_parent_of_agent = os.fork() == 0
        except OSError as error:
            is_parent_of_agent = False
            say(given[3], f"failed {error.errno}")
        if is_parent_of_agent:
            control.close()
            try:
                launch(*given)
            finally:
                os._exit(0)
        for descriptor in given:
            os.close(descriptor)


def launch(stdin: int, stdout: int, stderr: int, report: int, request: int) -> None:
    os.setsid()
    signal(SIGCHLD, SIG_DFL)
    PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(request, "rb") as file:
        name, cwd, count, *words = file.read().split(b"\0")
    PRCTL(PR_SET_NAME, name, 0, 0, 0)
    argv, environ = words[: int(count)], words[int(count) :]
    if not say(report, "launching"):  # from here on this process can be found by its name
        return
    parent = os.getpid()
    read, write = os.pipe()  # closed when the agent's program starts
    agent = os.fork()
    if agent == 0:
        os.setsid()
        PRCTL(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)  # dies with its parent, which is needed to find its descendants
        if os.getppid() == parent:
            for number, descriptor in enumerate((stdin, stdout, stderr)):
                os.dup2(descriptor, number)
            become(argv, cwd, environ, write)
        os._exit(127)
    for descriptor in (write, stdin, stdout, stderr):  # else the agent's output would not end when the agent does
        os.close(descriptor)
    for number in (SIGHUP, SIGINT, SIGTERM):  # a signal must not end this process before everything below it has ended
        signal(number, SIG_IGN)
    failed = os.read(read, 100)
    say(report, f"failed {failed.decode()}" if failed else f"started {agent} {parent}")
    status = wait_for(agent)
    say(report, f"ended {status} {'alone' if is_alone() else 'with others left'}")
    while not is_alone(wait=True):
        pass


def become(argv: list[bytes], cwd: bytes, environ: list[bytes], write: int) -> None:
    signal(SIGPIPE, SIG_DFL)  # else the agent would inherit that the signal is ignored
    signal(SIGXFSZ, SIG_DFL)
    try:
        os.chdir(cwd)
        os.execve(argv[0], argv, dict(pair.split(b"=", 1) for pair in environ if pair))
    except OSError as error:
        os.write(write, str(error.errno).encode())
    finally:
        os._exit(127)


def wait_for(agent: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == agent:
            return os.waitstatus_to_exitcode(status)


def is_alone(*, wait: bool = False) -> bool:
    """Whether no child process is left. Reaps those that have ended; `wait`: waits until one more has ended."""
    try:
        pid, _ = os.waitpid(-1, 0 if wait else os.WNOHANG)
        while pid:
            pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def say(report: int, words: str) -> bool:
    """Writes a report. False: nobody reads it, because Clew gave up or died; the next Clew then ends the agent."""
    try:
        os.write(report, f"{words}\n".encode())
    except OSError:
        return False
    return True


if __name__ == "__main__":
    serve(socket(AF_UNIX, SOCK_SEQPACKET, 0, int(sys.argv[1])))
