"""The daemons (`clew serve`) that serve a home: which run, and how one is started in the background and ended.

`registered` makes this process one. `status` needs no open store, and no daemon.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import clew
from clew.api.wire import daemons as wire
from clew.config import home as home_of
from clew.core.record import Record
from clew.errors import ClewError, UsageError
from clew.resident import location, request
from clew.system import background, service_files
from clew.system.daemon_registry import RunningDaemon as RunningDaemon
from clew.system.daemon_registry import registered as registered
from clew.system.daemon_registry import running_daemons as running_daemons
from clew.system.daemon_registry import send_signal
from clew.system.folders import make_private
from clew.system.memory import memory_of
from clew.system.service_files import ServiceFile as ServiceFile

LOG = "daemon.log"
STARTING = "daemon.lock"
IN_SERVICE = ("PATH", "CLEW_HOME", "CLEW_CONFIG")  # variables that an installed daemon gets, and those of Python
BACKGROUND = "--background"  # the option of `clew serve` with which `clew up` starts it
ANSWER_S = 2.0  # how long a resident may take to say how it is
RESIDENT_S = 20.0  # how long the resident of a new daemon may take until it listens
LOG_EVERY_S = 60.0
POLL_S = 0.05


class Resident(Record):
    """The process that carries out commands for `clew`."""

    socket: str
    pid: int
    commands: tuple[int, ...]  # the processes that carry out commands now


class Started(Record):
    """A daemon that `start` has started."""

    pid: int
    url: str


def socket_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where the resident of that home listens, if it runs."""
    package = os.path.dirname(clew.__file__)  # noqa: PTH120 - as in __main__.py
    return Path(location.socket_path(environ, clew.__version__, package, str(home)))


def resident(environ: Mapping[str, str], home: Path) -> Resident | None:
    """None: none listens for this version of Clew, or it does not answer."""
    path = socket_path(environ, home)
    try:
        location.check_private(str(path.parent))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(path))
            connection.sendall(bytes(request.LENGTH_BYTES))
            with connection.makefile("rb") as answer:
                word, pid, *commands = answer.readline().split()
    except (OSError, ValueError):
        return None
    return Resident(str(path), int(pid), tuple(map(int, commands))) if word == b"status" else None


def status(environ: Mapping[str, str]) -> wire.DaemonStatus:
    """What runs for the home that the environment names."""
    home = home_of(environ)
    daemons = running_daemons(home)
    found = resident(environ, home)
    kept = asyncio.run(_kept_agents(environ, home))
    pids = [each.pid for each in daemons] + ([found.pid, *found.commands] if found else []) + [a.pid for a in kept]
    return wire.DaemonStatus(
        daemons=[wire.Daemon.of(each, url=page_address(each), started_at=each.started_at) for each in daemons],
        resident=wire.Resident.of(found, commands=len(found.commands)) if found is not None else None,
        agents=kept,
        memory_bytes=memory_of(pids),
        log=str(home / LOG),
    )


async def _kept_agents(environ: Mapping[str, str], home: Path) -> list[wire.KeptAgent]:
    """The agents that the daemon keeps for the next prompt of their thread."""
    from clew import config
    from clew.wiring.agents import daemons_pool
    from clew.wiring.engine import runtime_context

    try:
        context = runtime_context(environ)
        pool = daemons_pool(config.load(environ), environ, home, context, connect_s=ANSWER_S)
    except ClewError:  # a mistake in the settings: every other command says so
        return []
    if pool is None:
        return []
    kept = await pool.kept()
    await pool.close()
    return [wire.KeptAgent(thread=each.thread_id, pid=each.pid, memory_bytes=each.rss_bytes) for each in kept]


def page_address(daemon: RunningDaemon) -> str | None:
    """Without the token, which the page asks for."""
    return f"http://127.0.0.1:{daemon.port}/" if daemon.port else None


def log_of(home: Path) -> Path:
    return home / LOG


@contextmanager
def starting(home: Path) -> Iterator[None]:
    """Only one process at a time starts a daemon of that home. The others wait, and find it running."""
    import fcntl

    make_private(home)
    handle = os.open(home / STARTING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


async def start(environ: Mapping[str, str], options: Sequence[str] = ()) -> Started:
    """Starts `clew serve OPTIONS` in the background, and waits until it answers requests. Raises ClewError.

    The caller makes sure that none runs yet.
    """
    home = home_of(environ)
    log = home / LOG
    before = background.size_of(log)
    process = background.start(command([BACKGROUND, *options]), in_background(environ), log)
    assert process.stdout is not None
    with process.stdout:
        line = await asyncio.to_thread(process.stdout.readline)
    if not line.startswith(b"http"):
        code = await asyncio.to_thread(process.wait)
        said = background.end_of(log, before).strip().removeprefix("clew: ")
        cause = UsageError if code == UsageError.exit_code else ClewError
        raise cause(
            f"The daemon did not start: {said or f'it ended with the exit code {code}.'}", hint=f"Its log is {log}."
        )
    process.returncode = 0  # it is not ours any more
    return Started(process.pid, line.decode().strip())


async def wait_for_resident(environ: Mapping[str, str], pid: int) -> bool:
    """Waits until the resident of that daemon takes commands. False: it does not in time, or the daemon has ended."""
    home = home_of(environ)
    loop = asyncio.get_running_loop()
    until = loop.time() + RESIDENT_S
    while await asyncio.to_thread(resident, environ, home) is None:
        if loop.time() > until or all(each.pid != pid for each in running_daemons(home)):
            return False
        await asyncio.sleep(POLL_S)
    return True


@asynccontextmanager
async def bounded_log(home: Path) -> AsyncIterator[None]:
    """While this is open, the log of a daemon in the background is kept short."""

    async def shorten() -> None:
        while True:
            await asyncio.to_thread(background.shorten, home / LOG)
            await asyncio.sleep(LOG_EVERY_S)

    task = asyncio.create_task(shorten())
    try:
        yield
    finally:
        task.cancel()


def service(environ: Mapping[str, str], options: Sequence[str] = (), *, kind: str | None = None) -> ServiceFile:
    """The file with which the user's session would start `clew serve OPTIONS`; `install` writes it.

    It gets the PATH of now, in which the agents are found. It does not end when it is idle: the user wants it there.
    """
    absolute = in_background(environ)
    settings: dict[str, str] = {
        name: value for name, value in absolute.items() if name in IN_SERVICE or name.startswith("PYTHON")
    }
    if kind is None:
        kind = service_files.platform_kind()
    if kind == service_files.LAUNCHD:
        return service_files.service_file(
            kind, command([BACKGROUND, *options]), environ, {**settings, "CLEW_RESIDENT_IDLE": "none"}
        )
    return service_files.service_file(kind, command(options), environ, settings)


def install(file: ServiceFile, *, force: bool = False) -> None:
    """Writes it. Raises Conflict if there is one that Clew did not write."""
    try:
        service_files.write(file, force=force)
    except OSError as error:
        raise UsageError(f"{file.path} cannot be written: {error.strerror}.") from error


def start_detached(environ: Mapping[str, str]) -> None:
    """Starts `clew up` and does not wait for it, if no daemon of this home runs. For the setting resident = "auto"."""
    if "CLEW_ATTEMPT" in environ or running_daemons(home_of(environ)):
        return
    with suppress(OSError):
        process = subprocess.Popen(
            _clew("up"),
            env=in_background(environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.returncode = 0  # nobody waits for it


def command(options: Sequence[str]) -> list[str]:
    return _clew("serve", *options)


def _clew(*words: str) -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-m", "clew", *words]


def in_background(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a daemon in another directory: the folders of Clew that it names are absolute."""
    given = {**environ, "CLEW_HOME": str(home_of(environ))}
    if chosen := environ.get("CLEW_CONFIG"):
        given["CLEW_CONFIG"] = str(Path(chosen).expanduser().absolute())
    return given


async def end(home: Path, daemons: Sequence[RunningDaemon], *, within_s: float) -> list[RunningDaemon]:
    """Ends the daemons gracefully, and waits for their end. Returns those that still run then."""
    asked = [each for each in daemons if send_signal(home, each, signal.SIGTERM)]
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while left := [each for each in asked if any(each.pid == other.pid for other in running_daemons(home))]:
        if loop.time() >= until:
            break
        await asyncio.sleep(POLL_S)
    return left
