"""`clew doctor`"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import harmless, one_line, plural, print_json, say
from clew.cli.states import WHO_RECOVERS
from clew.core.hook_settings import HookSettings
from clew.errors import AgentMissing, ClewError, StoreError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.config import Settings

PRODUCT_CHARS = 60
LINE_CHARS = 1000
HEALTH_S = 5.0  # that a daemon may take to say how it is


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is wrong with it, each with how to mend it."""

    agents: list[dict[str, Any]] = field(default_factory=list)
    store: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # worth knowing, and nothing to mend
    agent_missing: bool = False

    def problem(self, what: str, mend: str | None) -> None:
        """Said once, however often it is met."""
        if not any(one["problem"] == what for one in self.problems):
            self.problems.append({"problem": what, "mend": mend or "-"})

    def missing(self, name: str, error: ClewError, settings: Settings) -> None:
        """An agent that nobody has chosen may be missing."""
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check agents, store and settings. Exit 0: all is well; 3: no agent was found; 1: something else is wrong."""
    findings = Findings()
    settings = _look_at_config(findings)
    hooks = _look_at_hooks(findings)
    _look_at_permissions(findings)
    _look_at_daemons(findings)
    try:
        if _look_at_files(findings, settings):
            _look_with_store(findings, settings, hooks)
        else:
            _look_at_agents_alone(findings, settings)
    except StoreError as error:
        findings.problem(error.message, error.hint)
        _look_at_agents_alone(findings, settings)
    if as_json:
        print_json(_object(findings))
    else:
        _show(findings)
    return findings.exit_code


def _look_at_config(findings: Findings) -> Settings:
    """The settings; when they are wrong, those that can be had without them, so that the rest is looked at all the
    same."""
    from clew import config

    project = Path.cwd() / "clew.toml"
    findings.config = {"user_file": None, "project_file": str(project) if project.is_file() else None}
    try:
        user = config.user_file(os.environ)
        findings.config["user_file"] = str(user) if user else None
        settings = config.load(os.environ, Path.cwd())
    except ClewError as error:
        findings.problem(error.message, error.hint)
        settings = _defaults()
        if project.is_file() and str(project) != findings.config["user_file"]:
            from clew import config_file

            settings.ignored = config_file.of_project(project)[1]
    for words in settings.ignored:
        findings.problem(words, "Take it out of that file, or ask whoever wrote it to.")
    for words in config.unknown_variables(os.environ):
        findings.problem(words, "Correct the name, or unset it.")
    return settings


def _look_at_hooks(findings: Findings) -> HookSettings:
    """The table [hooks] of the user's own file. `clew hooks check` looks at what it names."""
    from clew import hooks_config

    try:
        return hooks_config.load(os.environ)
    except ClewError as error:
        findings.problem(error.message, error.hint)
    return HookSettings()


def _defaults() -> Settings:
    """And of the environment what can be read: it may say where the agent is."""
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


def _look_at_permissions(findings: Findings) -> None:
    from clew import config
    from clew.wiring import STORE_FILE

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


def _look_at_files(findings: Findings, settings: Settings) -> bool:
    """What is beside a database that is a file, also when it cannot be opened. False: it is better not opened."""
    from clew import config
    from clew.store.sqlite import Sqlite
    from clew.wiring import STORE_FILE

    if settings.of("store"):
        return True
    files = Sqlite(config.home(os.environ) / STORE_FILE)
    obstacles = files.why_not_opened()
    for what, mend in (*obstacles, *files.rescued()):
        findings.problem(what, mend)
    return not obstacles


def _look_with_store(findings: Findings, settings: Settings, hooks: HookSettings) -> None:
    from clew.cli.session import load_asyncio_quickly

    load_asyncio_quickly()
    import asyncio

    asyncio.run(_look_inside(findings, settings, hooks))


async def _look_inside(findings: Findings, settings: Settings, hooks: HookSettings) -> None:
    """Not through `clew.open()`: that one reads the settings itself, and they may be what is wrong."""
    from clew import config
    from clew.client import Client
    from clew.wiring import open_engine

    home = config.home(os.environ)
    engine = open_engine(settings, dict(os.environ), home)
    try:
        client = Client(engine, settings, home, [])
        await _look_at_store(findings, client)
        for name in engine.settings.agents:
            await _look_at_agent(findings, client, name, settings)
        await _look_at_risks(findings, client, settings, hooks)
    finally:
        await engine.close()


async def _look_at_store(findings: Findings, client: Client) -> None:
    from clew.core.run import LIVE

    broken = await client.engine.database.call(lambda store: store.check())
    findings.store["problems"] = broken
    for line in broken:
        findings.problem(f"The store: {line}", "Keep a copy of it, and restore it from a backup.")
    for what, mend in await client.engine.database.call(lambda store: store.obstacles()):
        findings.problem(what, mend)
    live = [run for run in await client.runs(limit=1000) if run.status in LIVE]
    gone = await client.gone(live)
    findings.runs = {
        "going_on": len(live) - len(gone),
        "left_by_a_crash": len(gone),
        "free_slots": await client.free_slots(),
        "max_agents": client.engine.settings.max_agents,
    }


def _look_at_daemons(findings: Findings) -> None:
    """Each that serves this home says itself whether it is well."""
    from clew import config
    from clew.server.presence import serving

    for daemon in serving(config.home(os.environ)):
        trouble = _said_by(daemon.port) if daemon.port is not None else None
        if trouble is not None:
            mend = f"See its log, and start it again. It is process {daemon.pid}; kill {daemon.pid} ends it."
            findings.problem(f"clew serve on port {daemon.port}: {trouble}", mend)


def _said_by(port: int) -> str | None:
    """What /healthz has to say; None: that all is well, or it does not listen on this address."""
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


async def _look_at_agent(findings: Findings, client: Client, name: str, settings: Settings) -> None:
    engine = client.engine
    try:
        binary = engine.find(name)
        can = await engine.abilities(name, binary)
    except StoreError:
        raise  # that is not about the agent
    except ClewError as error:
        findings.missing(name, error, settings)
        return
    sessions = engine.adapter(name).config_dir(engine.around.environ)
    findings.agents.append(
        {
            "name": name,
            "path": binary.path,
            "found_by": binary.source,
            "product": one_line(can.product, PRODUCT_CHARS),
            "version": one_line(can.version, PRODUCT_CHARS),
            "login": "not checked",  # only a request to the model would tell
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


async def _look_at_risks(findings: Findings, client: Client, settings: Settings, hooks: HookSettings) -> None:
    """Whether agents can read what only Clew should: nothing that is broken, and worth a decision."""
    from clew.engine import exposure

    agents = [agent["name"] for agent in findings.agents]
    for risk in await exposure.risks(client.engine, agents, settings.of("permissions"), hooks):
        findings.notes.append(f"risk: {risk}")


def _look_at_agents_alone(findings: Findings, settings: Settings) -> None:
    """Without a store: where the agents are, not what they can do."""
    from clew.wiring import Adapters

    for name, adapter in Adapters().items():
        try:
            binary = adapter.find(settings.of(f"agents.{name}.path"), os.environ)
            findings.agents.append({"name": name, "path": binary.path, "found_by": binary.source})
        except AgentMissing as error:
            findings.missing(name, error, settings)


def _object(findings: Findings) -> dict[str, Any]:
    return {
        "ok": not findings.problems,
        "agents": findings.agents,
        "store": findings.store,
        "config": findings.config,
        "runs": findings.runs,
        "problems": findings.problems,
        "notes": findings.notes,
    }


def _show(findings: Findings) -> None:
    for agent in findings.agents:
        what = " ".join(part for part in (agent.get("product"), agent.get("version")) if part)
        say(f"agent   {agent['name']}  {f'{what}  ' if what else ''}{harmless(agent['path'])} (by {agent['found_by']})")
        if "resume" in agent:
            say(f"        {_abilities(agent)}")
            say("        login: not checked (only a turn can tell)")
    say(f"store   {harmless(findings.store['path'])}")
    for name, path in (("yours", findings.config["user_file"]), ("this directory's", findings.config["project_file"])):
        say(f"config  {name}: {harmless(path) if path else 'none'}")
    if findings.runs:
        runs = findings.runs
        left = runs["left_by_a_crash"]
        say(
            f"runs    {runs['going_on']} going on, {runs['free_slots']} of {runs['max_agents']} agent slots free"
            + (f", {left} left by a crash ({WHO_RECOVERS})" if left else "")
        )
    for note in findings.notes:
        say(f"note    {one_line(note, LINE_CHARS)}")
    if not findings.problems:
        say("all is well")
        return
    say(f"\n{plural(len(findings.problems), 'problem')}")
    for one in findings.problems:
        say(f"  {one_line(one['problem'], LINE_CHARS)}\n    -> {one_line(one['mend'], LINE_CHARS)}")


def _abilities(agent: dict[str, Any]) -> str:
    words = {
        "resume": ("resumes sessions", "CANNOT resume sessions"),
        "choose_id": ("lets Clew choose a session's id", "names its sessions itself"),
        "asks": ("asks before it acts", "cannot ask: its sandbox alone holds the permissions"),
    }
    return ", ".join(able if agent[key] else unable for key, (able, unable) in words.items())
