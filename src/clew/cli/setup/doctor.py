"""The command `clew doctor`."""

from __future__ import annotations

import os
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import current_directory, load_asyncio_quickly
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import harmless, joined, one_line, plural
from clew.cli.ui.printing import print_json, say
from clew.cli.ui.state_labels import WHO_RECOVERS
from clew.core.hooks.settings import HookSettings
from clew.core.runs.run import LIVE
from clew.errors import AgentMissing, ClewError, StoreError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.config import Settings

PRODUCT_CHARS = 60
LINE_CHARS = 1000
HEALTH_S = 5.0  # how long a daemon may take to answer


@dataclass(slots=True)
class DoctorReport:
    """What was checked, and the problems found, each with a way to fix it."""

    agents: list[dict[str, Any]] = field(default_factory=list)
    store: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # worth knowing, but not a problem
    agent_missing: bool = False

    def problem(self, what: str, fix: str | None) -> None:
        """Adds a problem, unless it is listed already."""
        if not any(one["problem"] == what for one in self.problems):
            self.problems.append({"problem": what, "fix": fix or "-"})

    def missing(self, name: str, error: ClewError, settings: Settings) -> None:
        """A missing agent is a problem only if the settings name it."""
        if name != settings.of("agent") and not settings.of(f"agents.{name}.path"):
            self.notes.append(f"{error.message} It is not needed while agent is {settings.of('agent')}.")
            return
        self.agent_missing |= isinstance(error, AgentMissing) and name == settings.of("agent")
        self.problem(error.message, error.hint)

    @property
    def exit_code(self) -> int:
        if self.agent_missing:
            return AgentMissing.exit_code
        return 1 if self.problems else 0


@click.command()
@AS_JSON
def doctor(as_json: bool) -> int:
    """Check agents, store and settings. Exit code 0: no problem; 3: the agent was not found; 1: another problem."""
    findings = DoctorReport()
    settings = _check_config(findings)
    hooks = _check_hooks(findings)
    _check_permissions(findings)
    _check_daemons(findings)
    try:
        if _check_files(findings, settings):
            load_asyncio_quickly()
            import asyncio

            asyncio.run(_check_with_client(findings, settings, hooks))
        else:
            _check_agent_paths(findings, settings)
    except StoreError as error:
        findings.problem(error.message, error.hint)
        _check_agent_paths(findings, settings)
    if as_json:
        content = asdict(findings)
        del content["agent_missing"]
        print_json({"ok": not findings.problems, **content})
    else:
        _show(findings)
    return findings.exit_code


def _check_config(findings: DoctorReport) -> Settings:
    """Returns the settings. If they are wrong, returns the defaults and the values from the environment instead, so
    that the other checks can continue."""
    from clew import config

    work_dir = current_directory()
    project = work_dir / "clew.toml"
    findings.config = {"user_file": None, "project_file": str(project) if project.is_file() else None}
    try:
        user = config.user_file(os.environ)
        findings.config["user_file"] = str(user) if user else None
        settings = config.load(os.environ, work_dir)
    except ClewError as error:
        findings.problem(error.message, error.hint)
        settings = _defaults()
        if project.is_file() and str(project) != findings.config["user_file"]:
            from clew.config import file as config_file

            settings.ignored = config_file.of_project(project)[1]
    for words in settings.ignored:
        findings.problem(words, "Remove it from that file, or ask its author to.")
    for words in config.unknown_variables(os.environ):
        findings.problem(words, "Correct the name of the variable, or unset it.")
    return settings


def _check_hooks(findings: DoctorReport) -> HookSettings:
    """Reads the table [hooks] of the user's own file. `clew hooks check` checks what the table refers to."""
    from clew.config import hooks as hooks_config

    try:
        return hooks_config.load(os.environ)
    except ClewError as error:
        findings.problem(error.message, error.hint)
    return HookSettings()


def _defaults() -> Settings:
    """The defaults, and the valid values of the environment, which may say where the agent is."""
    from clew import config

    settings = config.Settings()
    for setting in config.TABLE:
        settings[setting.name] = config.Value(setting.default, "default")
        variable = setting.variable_in(os.environ)
        try:
            if variable is not None:
                settings[setting.name] = config.Value(setting.parse(os.environ[variable]), "environment")
        except (ValueError, TypeError):
            continue
    return settings


def _check_permissions(findings: DoctorReport) -> None:
    from clew import config
    from clew.wiring.engine import STORE_FILE

    home = config.home(os.environ)
    address = os.environ.get(config.BY_NAME["store"].variable)
    shown = config.BY_NAME["store"].shown(address) if address else str(home / STORE_FILE)
    findings.store = {"path": shown, "only_owner_reads": True}
    for path in (home, *(home.glob(f"{STORE_FILE}*") if home.is_dir() else ())):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            findings.store["only_owner_reads"] = False
            right = "700" if path.is_dir() else "600"
            findings.problem(f"Others may read {path} (mode {mode:o}).", f"chmod {right} {path}")


def _check_files(findings: DoctorReport, settings: Settings) -> bool:
    """Checks the files of an SQLite database, even one that cannot be opened. False: it should not be opened."""
    from clew import config
    from clew.store.database.sqlite import Sqlite
    from clew.wiring.engine import STORE_FILE

    if settings.of("store"):
        return True
    files = Sqlite(config.home(os.environ) / STORE_FILE)
    obstacles = files.why_not_opened()
    for what, fix in (*obstacles, *files.rescued()):
        findings.problem(what, fix)
    return not obstacles


async def _check_with_client(findings: DoctorReport, settings: Settings, hooks: HookSettings) -> None:
    """Does not use `clew.open()`, which reads the settings itself: they may be wrong."""
    from clew import config
    from clew.api.client import Client
    from clew.wiring.engine import open_engine

    home = config.home(os.environ)
    engine = open_engine(settings, dict(os.environ), home)
    try:
        client = Client(engine, settings, home, [])
        await _check_store(findings, client)
        for name in engine.settings.agents:
            await _check_agent(findings, client, name, settings)
        await _check_risks(findings, client, settings, hooks)
    finally:
        await engine.close()


async def _check_store(findings: DoctorReport, client: Client) -> None:
    broken = await client.engine.store.call(lambda store: store.check())
    findings.store["problems"] = broken
    for line in broken:
        findings.problem(f"The store: {line}", "Keep a copy of it, and restore it from a backup.")
    for what, fix in await client.engine.store.call(lambda store: store.obstacles()):
        findings.problem(what, fix)
    live = [run for run in await client.runs(limit=1000) if run.status in LIVE]
    gone = await client.gone(live)
    findings.runs = {
        "active": len(live) - len(gone),
        "left_by_a_crash": len(gone),
        "free_slots": await client.free_slots(),
        "max_agents": client.engine.settings.max_agents,
    }


def _check_daemons(findings: DoctorReport) -> None:
    """Asks each daemon of this home for its health."""
    from clew import config
    from clew.server.daemon_registry import running_daemons

    for daemon in running_daemons(config.home(os.environ)):
        trouble = _unhealthy(daemon.port) if daemon.port is not None else None
        if trouble is not None:
            fix = f"See its log, and restart it. It is process {daemon.pid}; kill {daemon.pid} ends it."
            findings.problem(f"clew serve on port {daemon.port}: {trouble}", fix)


def _unhealthy(port: int) -> str | None:
    """The problem that /healthz reports. None: it reports none, or nothing listens on 127.0.0.1 at this port."""
    import http.client
    import json

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HEALTH_S)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        body = answer.read(LINE_CHARS * 10)
        return None if answer.status != 503 else str(json.loads(body).get("detail"))
    except TimeoutError:
        return f"It did not answer within {HEALTH_S:.0f} s."
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


async def _check_agent(findings: DoctorReport, client: Client, name: str, settings: Settings) -> None:
    engine = client.engine
    try:
        binary = engine.find(name)
        can = await engine.abilities(name, binary)
    except StoreError:
        raise  # the store failed, not the agent
    except ClewError as error:
        findings.missing(name, error, settings)
        return
    sessions = engine.adapter(name).config_dir(engine.context.environ)
    findings.agents.append(
        {
            "name": name,
            "path": binary.path,
            "found_by": binary.source,
            "product": one_line(can.product, PRODUCT_CHARS),
            "version": one_line(can.version, PRODUCT_CHARS),
            "login": "not checked",  # only a request to the model can check it
            "resume": can.resume,
            "choose_id": can.choose_id,
            "asks": can.asks,
            "sessions": sessions,
        }
    )
    if not can.resume:
        findings.problem(f"{name} ({binary.path}) cannot resume sessions: every turn starts fresh.", "Update it.")
    if Path(sessions).exists() and not os.access(sessions, os.W_OK | os.X_OK):
        findings.problem(f"{name} cannot save its sessions in {sessions}.", f"chmod u+rwx {sessions}")


async def _check_risks(findings: DoctorReport, client: Client, settings: Settings, hooks: HookSettings) -> None:
    """Notes whether agents can read what only Clew should: not a problem, but something for the user to decide."""
    from clew.engine.process import exposure

    agents = [agent["name"] for agent in findings.agents]
    for risk in await exposure.risks(client.engine, agents, settings.of("permissions"), hooks):
        findings.notes.append(f"risk: {risk}")


def _check_agent_paths(findings: DoctorReport, settings: Settings) -> None:
    """Without a store, finds only where the agents are, not what they can do."""
    from clew.wiring.engine import Adapters

    for name, adapter in Adapters().items():
        try:
            binary = adapter.find(settings.of(f"agents.{name}.path"), os.environ)
            findings.agents.append({"name": name, "path": binary.path, "found_by": binary.source})
        except AgentMissing as error:
            findings.missing(name, error, settings)


def _show(findings: DoctorReport) -> None:
    for agent in findings.agents:
        what = joined(agent.get("product"), agent.get("version"), by=" ")
        say(f"agent   {agent['name']}  {f'{what}  ' if what else ''}{harmless(agent['path'])} (by {agent['found_by']})")
        if "resume" in agent:
            say(f"        {_abilities(agent)}")
            say("        login: not checked (only a turn can check it)")
    say(f"store   {harmless(findings.store['path'])}")
    for name, path in (("yours", findings.config["user_file"]), ("this directory's", findings.config["project_file"])):
        say(f"config  {name}: {harmless(path) if path else 'none'}")
    if findings.runs:
        runs = findings.runs
        left = runs["left_by_a_crash"]
        say(
            f"runs    {runs['active']} active, {runs['free_slots']} of {runs['max_agents']} agent slots free"
            + (f", {left} left by a crash ({WHO_RECOVERS})" if left else "")
        )
    for note in findings.notes:
        say(f"note    {one_line(note, LINE_CHARS)}")
    if not findings.problems:
        say("no problems found")
        return
    say(f"\n{plural(len(findings.problems), 'problem')}")
    for one in findings.problems:
        say(f"  {one_line(one['problem'], LINE_CHARS)}\n    -> {one_line(one['fix'], LINE_CHARS)}")


def _abilities(agent: dict[str, Any]) -> str:
    words = {
        "resume": ("resumes sessions", "CANNOT resume sessions"),
        "choose_id": ("lets Clew choose a session's id", "names its sessions itself"),
        "asks": ("asks for permissions", "cannot ask for permissions: only its sandbox limits it"),
    }
    return ", ".join(able if agent[key] else unable for key, (able, unable) in words.items())
