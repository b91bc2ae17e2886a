"""What is wrong with agents, store and settings, and how to fix it: `clew doctor`, and `GET /api/doctor`.

`diagnose` needs no open store, and works also when the settings are wrong or the store cannot be opened.
`diagnose_client` is for a daemon: it leaves out what would block the store, and what an open store makes certain.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from clew import config
from clew.api.client import Client
from clew.api.wire import setup as wire
from clew.config import hooks as hooks_config
from clew.core.hooks.settings import HookSettings
from clew.core.record import Record
from clew.core.runs.run import LIVE
from clew.engine.process import exposure
from clew.errors import AgentMissing, ClewError, ConfigError, StoreError
from clew.store.database.sqlite import Sqlite
from clew.system.daemon_registry import running_daemons
from clew.wiring.engine import STORE_FILE, Adapters, open_engine

PRODUCT_CHARS = 60
BODY_BYTES = 10_000  # of a daemon's answer
HEALTH_S = 5.0  # how long a daemon may take to answer
MAX_RUNS = 1000
NOT_CHECKED = "not checked"  # only a request to the model can check a login


class Diagnosis(Record):
    report: wire.DoctorReport
    agent_missing: bool  # the agent of the settings was not found


async def diagnose(environ: Mapping[str, str], work_dir: Path) -> Diagnosis:
    """Checks settings, files, daemons, store and agents. `work_dir`: its clew.toml is read too."""
    found = _Findings(config.home(environ))
    settings = _check_settings(found, environ, work_dir)
    hooks = _check_hooks(found, environ)
    _check_store_file(found, settings)
    await asyncio.to_thread(_check_daemons, found)
    try:
        if _may_open(found, settings):
            await _check_with_store(found, settings, environ, hooks)
        else:
            _find_agents(found, settings, environ)
    except StoreError as error:
        found.problem(error.message, error.hint)
        _find_agents(found, settings, environ)
    return found.diagnosis()


async def diagnose_client(client: Client) -> Diagnosis:
    """Checks what an open client uses. Raises StoreError if the store fails."""
    found = _Findings(client.home)
    hooks = HookSettings()
    try:
        user = client.user_file
        found.config = wire.DoctorConfig(user_file=str(user) if user else None, project_file=None)
        hooks = client.hooks.settings
    except ConfigError as error:
        found.problem(error.message, error.hint)
    _check_warnings(found, client.settings)
    _check_store_file(found, client.settings)
    await _check_runs(found, client)
    await _check_agents(found, client, hooks)
    return found.diagnosis()


class _Findings:
    """Collects what is found, and each problem once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.agents: list[wire.DoctorAgent] = []
        self.store = wire.DoctorStore(path="", only_owner_reads=True, problems=None)
        self.config = wire.DoctorConfig(user_file=None, project_file=None)
        self.runs: wire.DoctorRuns | None = None
        self.problems: dict[str, str] = {}
        self.notes: list[str] = []
        self.agent_missing = False

    def problem(self, what: str, fix: str | None) -> None:
        self.problems.setdefault(what, fix or "-")

    def missing(self, name: str, error: ClewError, settings: config.Settings) -> None:
        """A missing agent is a problem only if the settings name it."""
        if name != settings.of("agent") and not settings.of(f"agents.{name}.path"):
            self.notes.append(f"{error.message} It is not needed while agent is {settings.of('agent')}.")
            return
        self.agent_missing |= isinstance(error, AgentMissing) and name == settings.of("agent")
        self.problem(error.message, error.hint)

    def diagnosis(self) -> Diagnosis:
        report = wire.DoctorReport(
            ok=not self.problems,
            agents=self.agents,
            store=self.store,
            config=self.config,
            runs=self.runs,
            problems=[wire.DoctorProblem(problem=what, fix=fix) for what, fix in self.problems.items()],
            notes=self.notes,
        )
        return Diagnosis(report, self.agent_missing)


def _check_settings(found: _Findings, environ: Mapping[str, str], work_dir: Path) -> config.Settings:
    """The settings. If they are wrong: the defaults and the environment's values, so that other checks can continue."""
    project = work_dir / "clew.toml"
    project_file = str(project) if project.is_file() else None
    user_file = None
    try:
        user = config.user_file(environ)
        user_file = str(user) if user else None
        settings = config.load(environ, work_dir)
    except ClewError as error:
        found.problem(error.message, error.hint)
        settings = _defaults(environ)
        if project_file is not None and project_file != user_file:
            from clew.config import file as config_file

            settings.ignored = config_file.of_project(project)[1]
    found.config = wire.DoctorConfig(user_file=user_file, project_file=project_file)
    _check_warnings(found, settings)
    return settings


def _defaults(environ: Mapping[str, str]) -> config.Settings:
    """The defaults, and the valid values of the environment, which may say where the agent is."""
    settings = config.Settings()
    for setting in config.TABLE:
        settings[setting.name] = config.Value(setting.default, "default")
        variable = setting.variable_in(environ)
        try:
            if variable is not None:
                settings[setting.name] = config.Value(setting.parse(environ[variable]), "environment")
        except (ValueError, TypeError):
            continue
    settings.unknown = config.unknown_variables(environ)
    return settings


def _check_warnings(found: _Findings, settings: config.Settings) -> None:
    for words in settings.ignored:
        found.problem(words, "Remove it from that file, or ask its author to.")
    for words in settings.unknown:
        found.problem(words, "Correct the name of the variable, or unset it.")


def _check_hooks(found: _Findings, environ: Mapping[str, str]) -> HookSettings:
    """Reads the table [hooks] of the user's own file. `clew hooks check` checks what the table refers to."""
    try:
        return hooks_config.load(environ)
    except ClewError as error:
        found.problem(error.message, error.hint)
    return HookSettings()


def _check_store_file(found: _Findings, settings: config.Settings) -> None:
    """Checks who may read the database, and whether there are copies of a lost one."""
    address = settings.of("store")
    path = config.BY_NAME["store"].shown(address) if address else str(found.home / STORE_FILE)
    private = True
    for each in (found.home, *(found.home.glob(f"{STORE_FILE}*") if found.home.is_dir() else ())):
        try:
            mode = stat.S_IMODE(each.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            private = False
            right = "700" if each.is_dir() else "600"
            found.problem(f"Others may read {each} (mode {mode:o}).", f"chmod {right} {each}")
    found.store = wire.DoctorStore(path=path, only_owner_reads=private, problems=None)


def _may_open(found: _Findings, settings: config.Settings) -> bool:
    """Checks the files of an SQLite database, even one that cannot be opened. False: it should not be opened."""
    if settings.of("store"):
        return True
    files = Sqlite(found.home / STORE_FILE)
    obstacles = files.why_not_opened()
    for what, fix in (*obstacles, *files.rescued()):
        found.problem(what, fix)
    return not obstacles


async def _check_with_store(
    found: _Findings, settings: config.Settings, environ: Mapping[str, str], hooks: HookSettings
) -> None:
    """Does not use `clew.open()`, which reads the settings itself: they may be wrong."""
    engine = open_engine(settings, dict(environ), found.home)
    try:
        client = Client(engine, settings, found.home, [], dict(environ))
        broken = await engine.store.call(lambda store: store.check())
        found.store = found.store.replace(problems=broken)
        for line in broken:
            found.problem(f"The store: {line}", "Keep a copy of it, and restore it from a backup.")
        await _check_runs(found, client)
        await _check_agents(found, client, hooks)
    finally:
        await engine.close()


async def _check_runs(found: _Findings, client: Client) -> None:
    for what, fix in await client.engine.store.call(lambda store: store.obstacles()):
        found.problem(what, fix)
    live = await client.runs(statuses=LIVE, limit=MAX_RUNS)
    gone = await client.gone(live)
    found.runs = wire.DoctorRuns(
        active=len(live) - len(gone),
        left_by_a_crash=len(gone),
        free_slots=await client.free_slots(),
        max_agents=client.engine.settings.max_agents,
    )


async def _check_agents(found: _Findings, client: Client, hooks: HookSettings) -> None:
    """Also notes whether agents can read what only Clew should: not a problem, but something for the user to decide."""
    engine = client.engine
    for name in engine.settings.agents:
        await _check_agent(found, client, name)
    usable = [agent.name for agent in found.agents]
    for risk in await exposure.risks(engine, usable, client.settings.of("permissions"), hooks):
        found.notes.append(f"risk: {risk}")


async def _check_agent(found: _Findings, client: Client, name: str) -> None:
    engine = client.engine
    try:
        binary = engine.find(name)
        can = await engine.abilities(name, binary)
    except StoreError:
        raise  # the store failed, not the agent
    except ClewError as error:
        found.missing(name, error, client.settings)
        return
    sessions = engine.adapter(name).config_dir(engine.context.environ)
    found.agents.append(
        wire.DoctorAgent.of(
            can,
            name=name,
            path=binary.path,
            found_by=binary.source,
            product=_one_line(can.product),
            version=_one_line(can.version),
            login=NOT_CHECKED,
            sessions=sessions,
        )
    )
    if not can.resume:
        found.problem(f"{name} ({binary.path}) cannot resume sessions: every turn starts fresh.", "Update it.")
    if Path(sessions).exists() and not os.access(sessions, os.W_OK | os.X_OK):
        found.problem(f"{name} cannot save its sessions in {sessions}.", f"chmod u+rwx {sessions}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:PRODUCT_CHARS]


def _find_agents(found: _Findings, settings: config.Settings, environ: Mapping[str, str]) -> None:
    """Without a store, finds only where the agents are, not what they can do."""
    unknown = dict.fromkeys(("product", "version", "resume", "choose_id", "asks", "sessions"))
    for name, adapter in Adapters().items():
        try:
            binary = adapter.find(settings.of(f"agents.{name}.path"), environ)
        except AgentMissing as error:
            found.missing(name, error, settings)
        else:
            made = wire.DoctorAgent.of(
                name=name, path=binary.path, found_by=binary.source, login=NOT_CHECKED, **unknown
            )
            found.agents.append(made)


def _check_daemons(found: _Findings) -> None:
    """Asks each daemon of this home for its health."""
    for daemon in running_daemons(found.home):
        trouble = _unhealthy(daemon.port) if daemon.port is not None else None
        if trouble is not None:
            fix = f"See its log, and restart it. It is process {daemon.pid}; kill {daemon.pid} ends it."
            found.problem(f"clew serve on port {daemon.port}: {trouble}", fix)


def _unhealthy(port: int) -> str | None:
    """The problem that /healthz reports. None: it reports none, or nothing listens on 127.0.0.1 at this port."""
    import http.client
    import json

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HEALTH_S)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        body = answer.read(BODY_BYTES)
        return None if answer.status != 503 else str(json.loads(body).get("detail"))
    except TimeoutError:
        return f"It did not answer within {HEALTH_S:.0f} s."
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
