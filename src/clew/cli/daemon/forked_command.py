"""A process that the fork server forked for a command: it becomes what the caller is, and runs `clew`.

Everything that a command can see of its process is the caller's: arguments, environment, descriptors, directory, umask,
limits, ignored signals, the terminal. If it cannot be, the process declines, and the caller does its work itself.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

import clew
from clew import __version__
from clew.cli import main as command_line
from clew.cli.client_runner import load_asyncio_quickly
from clew.cli.daemon import caller
from clew.cli.ui.terminal_input import Lent, lend
from clew.core.record import Record
from clew.errors import Cancelled, ClewError
from clew.resident import location
from clew.resident.client import PASSED_ON
from clew.resident.request import (
    FOLDER,
    GO,
    LENGTH_BYTES,
    MAX_BYTES,
    STREAMS,
    TERMINAL,
    Request,
    decode,
    flags_of_interpreter,
    install_of,
)

LOADED = (
    *("clew.cli.ask", "clew.cli.chat.chat", "clew.cli.chat.loop", "clew.cli.commands", "clew.cli.continuing"),
    *("clew.cli.error_report", "clew.cli.foreground_run", "clew.cli.pairs.pair", "clew.cli.pairs.pair_display"),
    *("clew.cli.reviews.review", "clew.cli.reviews.round", "clew.cli.threads.session"),
    *("clew.cli.ui.agent_questions", "clew.cli.ui.explanation", "clew.cli.ui.markdown.printer"),
    *("clew.cli.pairs.sessions", "concurrent.futures.thread", "resource"),
    *("clew.cli.ui.permission_prompts", "clew.cli.ui.safe_stream", "clew.cli.ui.status_line"),
)
READ_S = 10.0  # a caller that does not send its request in this time is dropped; it has done its work itself by then
MAX_FILES = 8
FOR_PYTHON = b"PYTHON"  # variables that configure the interpreter


class Resident(Record):
    """What this installation of Clew is, and which store its daemon serves."""

    package: str
    socket: str
    home: str
    store: str | None
    install: str
    flags: str
    variables: Mapping[bytes, bytes]  # PYTHON…


def load() -> Resident:
    """Imports what the commands need, and says what was loaded."""
    package = os.path.dirname(clew.__file__)  # noqa: PTH120 - as in __main__.py
    install = install_of(package)  # before the imports, so that an upgrade while they run is noticed
    load_asyncio_quickly()
    from clew.api import preloading, settings

    preloading.load()
    for name in LOADED:
        importlib.import_module(name)
    home = str(settings.home(os.environ))
    return Resident(
        package=package,
        socket=location.socket_path(os.environ, __version__, package, home),
        home=home,
        store=settings.load(os.environ).of("store"),
        install=install,
        flags=flags_of_interpreter(),
        variables=_for_python(os.environb),
    )


def user_of(connection: socket.socket) -> int:
    """The user of the process at the other end."""
    return caller.credentials(connection)[1]


def run(connection: socket.socket, resident: Resident, others: Sequence[int]) -> NoReturn:
    """Carries out the command that the connection brings. `others` are the processes of other commands."""
    status = 1
    try:
        _restore_signals()
        os.setpgid(0, 0)  # in a group of its own, which can be suspended
        accepted = _accepted(connection, resident, others)
        if accepted is None:
            os._exit(0)
        _become(*accepted, connection)
        status = command_line.run_to_end()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except KeyboardInterrupt:
        status = Cancelled.exit_code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(OSError):
            connection.send(f"exiting {status}\n".encode(), socket.MSG_DONTWAIT)
        os._exit(status)


def _accepted(
    connection: socket.socket, resident: Resident, others: Sequence[int]
) -> tuple[Request, dict[str, int]] | None:
    """The command, which is this process's from now on. None: it is not, and nothing was done."""
    try:
        connection.settimeout(READ_S)
        request = _receive(connection)
        if request is None:
            connection.sendall(" ".join(["status", str(os.getppid()), *map(str, others)]).encode() + b"\n")
            return None
        why_not = _why_not(request, resident, connection)
        if why_not is not None:
            connection.sendall(f"declined {why_not}\n".encode())
            return None
        connection.sendall(f"ready {os.getpid()} {__version__}\n".encode())
        connection.settimeout(None)
        said, descriptors, _, _ = socket.recv_fds(connection, len(GO), MAX_FILES)
        if said != GO:
            return None  # the caller did not wait, and does its work itself
        if len(descriptors) != len(request.files):  # the caller's limit of open files is too low for them
            connection.sendall(b"failed\n")
            return None
    except (OSError, ValueError):  # the caller is gone, or is none of ours
        return None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return request, dict(zip(request.files, descriptors, strict=True))


def _restore_signals() -> None:
    """As in a new process. The fork server's own are those of a daemon."""
    for number in (*PASSED_ON, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _receive(connection: socket.socket) -> Request | None:
    """The request. None: there is none; somebody asks how the resident is."""
    length = int.from_bytes(_exactly(connection, LENGTH_BYTES), "big")
    if length == 0:
        return None
    if length > MAX_BYTES:
        raise ValueError("too long")
    return decode(_exactly(connection, length))


def _exactly(connection: socket.socket, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        piece = connection.recv(min(length - len(content), 1 << 20))
        if not piece:
            raise OSError("the connection was closed")
        content += piece
    return bytes(content)


def _why_not(request: Request, resident: Resident, connection: socket.socket) -> str | None:
    """Why this process may not stand for the caller; None: it may. The words are for whoever debugs this."""
    if request.version != __version__ or request.install != resident.install:
        return "version"
    if install_of(resident.package) != resident.install:
        return "upgraded"
    if request.flags != resident.flags or _for_python(request.environ) != resident.variables:
        return "interpreter"
    if (request.user, request.group) != (os.getuid(), os.getgid()) or {*request.groups} != {*os.getgroups()}:
        return "user"
    try:
        caller.take_limits(caller.credentials(connection)[0])
    except caller.NotTheSame as error:
        return str(error)
    return _other_store(request, resident)


def _other_store(request: Request, resident: Resident) -> str | None:
    from clew.api import settings

    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in request.environ.items()}
    try:
        found = settings.load(environ)
        if location.socket_path(environ, __version__, resident.package, location.home(environ)) != resident.socket:
            return "home"
    except (ClewError, OSError, RuntimeError):
        return "settings"  # the caller reports what is wrong with them
    if found.of("store") != resident.store:
        return "store"
    return "off" if found.of("resident") == "off" else None


def _for_python(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in environ.items() if name.startswith(FOR_PYTHON)}


def _become(request: Request, files: Mapping[str, int], connection: socket.socket) -> None:
    """Makes this process what the caller is. The descriptors of the caller are above those that it replaces here."""
    os.fchdir(files[FOLDER])
    os.umask(request.mask)
    for place, name in enumerate(STREAMS):
        if name in files:
            os.dup2(files[name], place)
            os.close(files[name])
        else:
            with contextlib.suppress(OSError):
                os.close(place)
    os.close(files[FOLDER])
    os.environ.clear()
    os.environb.update(request.environ)
    time.tzset()
    sys.argv = list(request.arguments)
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    _open_streams(request.streams)
    _lend_terminal(files.get(TERMINAL), connection)


def _open_streams(described: Sequence[str]) -> None:
    sys.stdin = sys.stdout = sys.stderr = None  # as the interpreter does for closed ones
    for each in described:
        place, encoding, errors = each.split(":")
        options = {"encoding": encoding, "errors": errors, "closefd": False}
        if place == "0":
            sys.stdin = open(0, **options)  # type: ignore[call-overload]  # noqa: SIM115 - open to the end
        elif place == "1":
            sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, **options)  # type: ignore[call-overload]  # noqa: SIM115
        else:
            sys.stderr = open(2, "w", buffering=1, **options)  # type: ignore[call-overload]  # noqa: SIM115
    if os.environ.get("PYTHONUNBUFFERED"):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.reconfigure(write_through=True)


def _lend_terminal(terminal: int | None, connection: socket.socket) -> None:
    def ask_to_read() -> None:
        """The caller's job may be in the background: then the caller stops, as a process that reads there does."""
        with contextlib.suppress(OSError):
            connection.send(b"typing\n")
            connection.recv(16)

    lend(Lent(terminal, ask_to_read))
