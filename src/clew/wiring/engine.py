"""Builds the engine with its store, its adapters and its settings."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from clew import config
from clew.core.decision import ModelSwitch, Policy
from clew.core.history import Visibility
from clew.core.runs.run import Owner
from clew.core.secrets.variables import is_own_secret
from clew.engine import faults
from clew.engine.engine import Engine
from clew.engine.process.family import started_at
from clew.engine.settings import AgentSettings, EngineSettings, RuntimeContext
from clew.errors import UsageError
from clew.git.command import agent_environment
from clew.store.store import open_store
from clew.wiring import agents

if TYPE_CHECKING:
    from clew.agents.adapter import Adapter
    from clew.core.rules.rules import FileTree, RulesSource
    from clew.engine.warm.pool import WarmAgents

STORE_FILE = "clew.db"
RULES_DIR = "rules"  # not in the store's folder, which is hidden from agents
ARCHIVE_DIR = "archive"
IMAGES_DIR = "images"


class Adapters(Mapping[str, "Adapter"]):
    """Every known agent by name. An adapter is loaded when it is first asked for."""

    def __init__(self, more: Iterable[Adapter] = ()) -> None:
        self._made: dict[str, Adapter] = {adapter.name: adapter for adapter in more}

    def __getitem__(self, name: str) -> Adapter:
        if name not in self._made:
            self._made[name] = MAKERS[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MAKERS | self._made)

    def __len__(self) -> int:
        return len(MAKERS | self._made)


def _claude() -> Adapter:
    from clew.agents.claude import Claude

    return Claude()


def _codex() -> Adapter:
    from clew.agents.codex import Codex

    return Codex()


MAKERS: dict[str, Callable[[], Adapter]] = {"claude": _claude, "codex": _codex}


def open_engine(
    settings: config.Settings,
    environ: Mapping[str, str],
    home: Path,
    more_adapters: Iterable[Adapter] = (),
    *,
    keep_agents: bool = False,
    use_daemon: bool = False,
) -> Engine:
    """An engine on the store under `home`. The caller closes it.

    `keep_agents`: it keeps agents between two turns. `use_daemon`: the daemon keeps them, if one runs.
    """
    _install_fault(environ.get("CLEW_FAULT"))
    known = Adapters(more_adapters)
    engine_settings = EngineSettings(
        policy=Policy(
            enable_resume=settings.of("enable_resume"),
            rewind=settings.of("rewind"),
            follow_moves=settings.of("follow_moves"),
            model_switch=ModelSwitch(settings.of("model_switch")),
            max_age_s=settings.of("max_age"),
            max_resumes=settings.of("max_resumes"),
            visibility=Visibility(settings.of("visibility")),
            limit_chars=settings.of("transcript_limit"),
        ),
        agents={
            name: AgentSettings(settings.of(f"agents.{name}.path"), settings.of(f"agents.{name}.model"))
            for name in known
            if f"agents.{name}.path" in settings
        },
        max_agents=settings.of("max_agents"),
        timeout_s=settings.of("timeout"),
        idle_s=settings.of("idle_timeout"),
        hidden=hidden(environ, home) if settings.of("hide_home") else (),
        images=images_folder(settings.of("store"), home),
        rules=settings.of("rules"),
        rules_dir=str(config.cache(environ) / RULES_DIR),
        warm_ahead=settings.of("warm.ahead"),
        warm_keys=settings.of("warm.keys"),
    )
    context = runtime_context(environ)
    store = open_store(settings.of("store") or home / STORE_FILE)
    warm: WarmAgents | None = agents.daemons_pool(settings, environ, home, context) if use_daemon else None
    if warm is None and keep_agents:
        warm = agents.own_pool(settings, context)
    return Engine(store, known, engine_settings, context, warm)


def images_folder(store: str | None, home: Path) -> Path:
    """Each store has a folder of its own: the images of a thread that is deleted in one store may be another's, too."""
    if store is None:
        return home / IMAGES_DIR
    place = re.sub(r"//[^/]*@", "//", store)  # without the password, which may be changed
    import hashlib  # here, because it takes 2 ms to load and few turns need it

    return home / IMAGES_DIR / hashlib.sha256(place.encode()).hexdigest()[:16]


def hidden(environ: Mapping[str, str], home: Path) -> tuple[str, ...]:
    """Paths that agents' tools must not read: the store's folder and the user's settings, which may hold a password."""
    file = config.user_file(environ)
    paths = [os.path.realpath(path) for path in (home, file) if path is not None]
    return tuple(path for path in paths if path == paths[0] or not Path(path).is_relative_to(paths[0]))


def runtime_context(environ: Mapping[str, str]) -> RuntimeContext:
    pid = os.getpid()
    environ = {name: value for name, value in environ.items() if not _is_secret(name)}  # agents do not get secrets
    return RuntimeContext(
        environ=environ,
        owner=Owner(_machine(), pid, started_at(pid) or 0.0),
        guard=agent_environment,
        commit_files=lambda source: _commit_files(source, environ),
    )


def _commit_files(source: RulesSource, environ: Mapping[str, str]) -> FileTree:
    from clew.git.commit_files import CommitFiles

    return CommitFiles(source, environ)


def _is_secret(name: str) -> bool:
    return name == "CLEW_STORE" or is_own_secret(name)  # the store's address may contain a password


def _machine() -> str:
    """Names the scope in which a pid means the same process: this host, since its last boot, in this pid namespace.

    The host's name is not enough: containers share names and volumes, and pids and start times repeat after a reboot.
    A process in another scope is judged by its heartbeat alone.
    """
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return name
    return f"{name}/{boot}/{namespace}"


def _install_fault(point: str | None) -> None:
    """For tests of crashes: makes this process die, as by kill -9, at the named point (see clew.engine.faults)."""
    if not point:
        return
    known = (*faults.POINTS, *faults.WARM_POINTS, *faults.COPY_POINTS)
    if point not in known:
        raise UsageError(f"CLEW_FAULT={point} is not a fault point.", hint=f"Known: {', '.join(known)}.")

    def die(passed: str) -> None:
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.install(die)
