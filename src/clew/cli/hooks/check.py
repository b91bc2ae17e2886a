"""`clew hooks check`: finds what would otherwise fail when an event arrives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import agent_words, one_line, plural
from clew.cli.ui.printing import print_json, say
from clew.core.hooks.hook import CLEAN_UP, KINDS, Forge, HookAgent
from clew.errors import ClewError, ConfigError, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.views import AgentHealth
    from clew.core.hooks.settings import HookRepo, HookSettings

LINE_CHARS = 400
NOT_SET_UP = "Hooks are not set up: {} has no [hooks] with agents, repositories and rules."


class CheckFindings:
    """What is fine, what may be a mistake, and what would fail."""

    def __init__(self) -> None:
        self.good: list[dict[str, str]] = []
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def fine(self, what: str, words: str) -> None:
        self.good.append({"what": what, "words": words})

    def error(self, error: ClewError) -> None:
        self.problems.append(" ".join(part for part in (error.message, error.hint) if part))


@click.command()
@AS_JSON
@client_command(reads=True)
async def check(client: Client, as_json: bool) -> int:
    """Check the settings of hooks, every template in both forms, and this machine.

    Of secrets and tokens it prints only whether they are set. Exit code 0: nothing would fail when an event arrives,
    but there may be warnings; 2: something would fail.

    \b
      clew hooks check
      clew hooks check --json | jq -r '.problems[]'
    """
    findings = CheckFindings()
    try:
        settings = client.hooks.settings
    except ConfigError as error:
        findings.error(error)
    else:
        await _check(client, settings, findings)
    if as_json:
        print_json({"ok": not findings.problems, **vars(findings)})
    else:
        _show(findings)
    return UsageError.exit_code if findings.problems else 0


async def _check(client: Client, settings: HookSettings, findings: CheckFindings) -> None:
    from clew import config

    path = config.user_file(os.environ)
    if path is not None:
        findings.fine("file", str(path))
    if not settings.rules:
        findings.warnings.append(NOT_SET_UP.format(path or "your clew.toml"))
    healths = {health.name: health for health in await client.views.agents()}
    for agent in settings.agents:
        _check_agent(agent, healths.get(agent.agent), settings, findings)
    findings.problems += client.hooks.skills.check()
    for repo in settings.repos:
        await _check_repo(client, repo, findings)
    for number, rule in enumerate(settings.rules, 1):
        words = f"{rule.agent}: {', '.join(rule.events)}"
        findings.fine(f"rule {number}", f"{words}{'; for anyone' if rule.anyone else ''}")
    _check_forges(settings, findings)
    _check_writers(settings, findings)


def _check_agent(agent: HookAgent, health: AgentHealth | None, settings: HookSettings, findings: CheckFindings) -> None:
    from clew.hosts.hooks.skills import kinds_of

    where = f"hooks.agents.{agent.name}"
    kinds = dict.fromkeys(kind for rule in settings.rules if rule.agent == agent.name for kind in kinds_of(rule))
    if health is None:
        findings.problems.append(f"{where}: there is no agent {agent.agent!r}.")
    elif health.problem is not None:
        findings.problems.append(f"{where}: {health.problem} {health.hint or ''}".rstrip())
    else:
        words = f"{agent_words(agent.agent, agent.model)}, {agent.permissions}, {plural(len(kinds), 'event')}"
        findings.fine(f"agent {agent.name}", f"{words}; {health.path}")
        if agent.allowed_tools and not health.asks:
            findings.warnings.append(
                f"{where}: {agent.agent} does not ask, so allowed_tools has no effect; only its permissions count."
            )
        if agent.permissions == "ask" and not agent.allowed_tools:
            findings.warnings.append(f"{where}: nobody can answer, so everything that it would ask for is declined.")
        if agent.permissions == "all":
            findings.warnings.append(f"{where}: permissions are all, so text on the forge may make it do anything.")
    if not kinds:
        findings.warnings.append(f"{where}: no rule wakes it.")
    findings.warnings += _misnamed(agent)


def _misnamed(agent: HookAgent) -> list[str]:
    """Warnings about files that look like templates and are never read."""
    names = {f"{kind}.{form}.md" for kind in (*KINDS, "default") if kind not in CLEAN_UP for form in ("full", "delta")}
    folder = Path(agent.skills)
    found = sorted(path.name for path in folder.glob("*.md")) if folder.is_dir() else []
    return [
        f"{folder / name} is never read: no event that wakes an agent has this name."
        for name in found
        if name not in names
    ]


async def _check_repo(client: Client, repo: HookRepo, findings: CheckFindings) -> None:
    from clew.git.worktrees.source import SourceRepository

    where = f'hooks.repos."{repo.name}"'
    try:
        source = await SourceRepository.find(repo.path, client.engine.context.environ)
        has_remote = await source.has_remote(repo.remote)
        start = await source.commit(f"{repo.remote}/{repo.branch}") if repo.branch else None
        has_commit = await source.commit("HEAD") is not None
    except ClewError as error:
        findings.problems.append(f"{where}: {error.message}")
        return
    if repo.branch and start is None and not has_remote:
        findings.problems.append(f"{where}: it has no remote {repo.remote}, so new work cannot start at {repo.branch}.")
    elif not has_remote and not has_commit:
        findings.problems.append(
            f"{where}: it has neither a commit nor a remote {repo.remote}: no work tree can be created."
        )
    else:
        findings.fine(f"repo {repo.name}", f"{repo.path}{f', remote {repo.remote}' if has_remote else ''}")
        if not has_remote:
            findings.warnings.append(f"{where}: it has no remote {repo.remote}; work trees are never updated.")
        elif repo.branch and start is None:
            findings.warnings.append(
                f"{where}: {repo.remote}/{repo.branch} is not known here yet; it must be fetched first."
            )


def _check_forges(settings: HookSettings, findings: CheckFindings) -> None:
    """Checks the environment of this command. The daemon and the workers each have their own."""
    from clew.config import hooks as hooks_config
    from clew.hosts.hooks.forge.api import ForgeApi

    tokens, secrets, used = set(), set(), _forges_used(settings)
    for forge in Forge:
        keys = hooks_config.keys_of(forge, os.environ)
        if keys.secret:
            secrets.add(forge)
        if keys.token:
            tokens.add(forge)
            try:
                ForgeApi(forge, settings.url(forge), keys.token)
            except ConfigError as error:
                findings.problems.append(f"{forge}: {error.message}. Set hooks.forges.{forge}.url, and the token.")
        if forge in used:
            there = [("secret", keys.secret), ("token", keys.token)]
            findings.fine(
                f"forge {forge}", ", ".join(f"{what} {'present' if value else 'absent'}" for what, value in there)
            )
    if settings.rules and not secrets & used:
        names = " or ".join(hooks_config.SECRET.format(forge.upper()) for forge in Forge if forge in used)
        findings.warnings.append(f"No secret is set here: clew serve accepts no events without {names}.")
    if any(rule.comment for rule in settings.rules) and not tokens & used:
        names = " or ".join(hooks_config.TOKEN.format(forge.upper()) for forge in Forge if forge in used)
        findings.problems.append(f"A rule posts comments, but there is no token for it: set {names}.")


def _forges_used(settings: HookSettings) -> set[Forge]:
    """The forges that a repository may be on."""
    if not settings.repos or any(repo.forge is None for repo in settings.repos):
        return set(Forge)
    return {repo.forge for repo in settings.repos if repo.forge is not None}


def _check_writers(settings: HookSettings, findings: CheckFindings) -> None:
    """Warns about rules and repositories that can never start an agent."""
    from fnmatch import fnmatchcase

    from clew.config import hooks as hooks_config

    for number, rule in enumerate(settings.rules, 1):
        if rule.repos and not any(fnmatchcase(repo.name, each) for repo in settings.repos for each in rule.repos):
            findings.warnings.append(f"rule {number}: the settings have no repository named {', '.join(rule.repos)}.")
    if not settings.rules or all(rule.anyone for rule in settings.rules):
        return
    for repo in settings.repos:
        forges = [repo.forge] if repo.forge is not None else []
        silent = [forge for forge in forges if forge is not Forge.GITHUB]  # only GitHub's events say who may write
        if silent and not repo.writers and not hooks_config.keys_of(silent[0], os.environ).token:
            findings.warnings.append(
                f'hooks.repos."{repo.name}": nobody is known to have write access, so no event wakes an agent: '
                f"name writers, or set {hooks_config.TOKEN.format(silent[0].upper())}."
            )


def _show(findings: CheckFindings) -> None:
    for good in findings.good:
        say(f"ok       {one_line(': '.join(good.values()), LINE_CHARS)}")
    for words in findings.warnings:
        say(f"warning  {one_line(words, LINE_CHARS)}")
    for words in findings.problems:
        say(f"problem  {one_line(words, LINE_CHARS)}")
    count = len(findings.problems)
    say(plural(count, "problem") if count else "nothing would fail")
