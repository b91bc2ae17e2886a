"""Finds what would fail when an event of a forge arrives: the settings of hooks, templates, repositories, agents."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from clew.api.client import Client
from clew.api.views import AgentHealth
from clew.api.wire import hook_preview as wire
from clew.config.hooks import SECRET, TOKEN
from clew.core.hooks.hook import CLEAN_UP, KINDS, Forge, HookAgent
from clew.core.hooks.settings import HookRepo, HookSettings
from clew.errors import ClewError, ConfigError
from clew.git.worktrees.source import SourceRepository
from clew.hosts.hooks.forge.api import ForgeApi
from clew.hosts.hooks.skills import kinds_of

NOT_SET_UP = "Hooks are not set up: {} has no [hooks] with agents, repositories and rules."


async def check(client: Client) -> wire.HookCheck:
    """Checks the settings of hooks, each template in both forms, and this machine.

    Of secrets and tokens it says only whether this process has them; a daemon and each worker have their own.
    """
    found = _Findings()
    try:
        settings = client.hooks.settings
    except ConfigError as error:
        found.problems.append(" ".join(part for part in (error.message, error.hint) if part))
    else:
        await _check(client, settings, found)
    return wire.HookCheck.of(found, ok=not found.problems)


class _Findings:
    """What is fine, what may be a mistake, and what would fail."""

    def __init__(self) -> None:
        self.good: list[wire.HookCheckItem] = []
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def fine(self, what: str, words: str) -> None:
        self.good.append(wire.HookCheckItem(what=what, words=words))


async def _check(client: Client, settings: HookSettings, found: _Findings) -> None:
    path = client.user_file
    if path is not None:
        found.fine("file", str(path))
    if not settings.rules:
        found.warnings.append(NOT_SET_UP.format(path or "your clew.toml"))
    healths = {health.name: health for health in await client.views.agents()}
    for agent in settings.agents:
        _check_agent(agent, healths.get(agent.agent), settings, found)
    found.problems += client.hooks.skills.check()
    for repo in settings.repos:
        await _check_repo(client, repo, found)
    for number, rule in enumerate(settings.rules, 1):
        words = f"{rule.agent}: {', '.join(rule.events)}"
        found.fine(f"rule {number}", f"{words}{'; for anyone' if rule.anyone else ''}")
    _check_forges(client, settings, found)
    _check_writers(client, settings, found)


def _check_agent(agent: HookAgent, health: AgentHealth | None, settings: HookSettings, found: _Findings) -> None:
    where = f"hooks.agents.{agent.name}"
    kinds = dict.fromkeys(kind for rule in settings.rules if rule.agent == agent.name for kind in kinds_of(rule))
    if health is None:
        found.problems.append(f"{where}: there is no agent {agent.agent!r}.")
    elif health.problem is not None:
        found.problems.append(f"{where}: {health.problem} {health.hint or ''}".rstrip())
    else:
        cli = f"{agent.agent} {agent.model}" if agent.model else agent.agent
        events = f"{len(kinds)} event{'' if len(kinds) == 1 else 's'}"
        found.fine(f"agent {agent.name}", f"{cli}, {agent.permissions}, {events}; {health.path}")
        if agent.allowed_tools and not health.asks:
            found.warnings.append(
                f"{where}: {agent.agent} does not ask, so allowed_tools has no effect; only its permissions count."
            )
        if agent.permissions == "ask" and not agent.allowed_tools:
            found.warnings.append(f"{where}: nobody can answer, so everything that it would ask for is declined.")
        if agent.permissions == "all":
            found.warnings.append(f"{where}: permissions are all, so text on the forge may make it do anything.")
    if not kinds:
        found.warnings.append(f"{where}: no rule wakes it.")
    found.warnings += _misnamed(agent)


def _misnamed(agent: HookAgent) -> list[str]:
    """Warnings about files that look like templates and are never read."""
    names = {f"{kind}.{form}.md" for kind in (*KINDS, "default") if kind not in CLEAN_UP for form in ("full", "delta")}
    folder = Path(agent.skills)
    present = sorted(path.name for path in folder.glob("*.md")) if folder.is_dir() else []
    return [
        f"{folder / name} is never read: no event that wakes an agent has this name."
        for name in present
        if name not in names
    ]


async def _check_repo(client: Client, repo: HookRepo, found: _Findings) -> None:
    where = f'hooks.repos."{repo.name}"'
    try:
        source = await SourceRepository.find(repo.path, client.engine.context.environ)
        has_remote = await source.has_remote(repo.remote)
        start = await source.commit(f"{repo.remote}/{repo.branch}") if repo.branch else None
        has_commit = await source.commit("HEAD") is not None
    except ClewError as error:
        found.problems.append(f"{where}: {error.message}")
        return
    if repo.branch and start is None and not has_remote:
        found.problems.append(f"{where}: it has no remote {repo.remote}, so new work cannot start at {repo.branch}.")
    elif not has_remote and not has_commit:
        found.problems.append(
            f"{where}: it has neither a commit nor a remote {repo.remote}: no work tree can be created."
        )
    else:
        found.fine(f"repo {repo.name}", f"{repo.path}{f', remote {repo.remote}' if has_remote else ''}")
        if not has_remote:
            found.warnings.append(f"{where}: it has no remote {repo.remote}; work trees are never updated.")
        elif repo.branch and start is None:
            found.warnings.append(
                f"{where}: {repo.remote}/{repo.branch} is not known here yet; it must be fetched first."
            )


def _check_forges(client: Client, settings: HookSettings, found: _Findings) -> None:
    tokens, secrets, used = set(), set(), _forges_used(settings)
    for forge in Forge:
        keys = client.hook_keys(forge)
        if keys.secret:
            secrets.add(forge)
        if keys.token:
            tokens.add(forge)
            try:
                ForgeApi(forge, settings.url(forge), keys.token)
            except ConfigError as error:
                found.problems.append(f"{forge}: {error.message}. Set hooks.forges.{forge}.url, and the token.")
        if forge in used:
            present = [("secret", keys.secret), ("token", keys.token)]
            words = ", ".join(f"{what} {'present' if value else 'absent'}" for what, value in present)
            found.fine(f"forge {forge}", words)
    if settings.rules and not secrets & used:
        names = " or ".join(SECRET.format(forge.upper()) for forge in Forge if forge in used)
        found.warnings.append(f"No secret is set here: clew serve accepts no events without {names}.")
    if any(rule.comment for rule in settings.rules) and not tokens & used:
        names = " or ".join(TOKEN.format(forge.upper()) for forge in Forge if forge in used)
        found.problems.append(f"A rule posts comments, but there is no token for it: set {names}.")


def _forges_used(settings: HookSettings) -> set[Forge]:
    """The forges that a repository may be on."""
    if not settings.repos or any(repo.forge is None for repo in settings.repos):
        return set(Forge)
    return {repo.forge for repo in settings.repos if repo.forge is not None}


def _check_writers(client: Client, settings: HookSettings, found: _Findings) -> None:
    """Warns about rules and repositories that can never start an agent."""
    for number, rule in enumerate(settings.rules, 1):
        if rule.repos and not any(fnmatchcase(repo.name, each) for repo in settings.repos for each in rule.repos):
            found.warnings.append(f"rule {number}: the settings have no repository named {', '.join(rule.repos)}.")
    if not settings.rules or all(rule.anyone for rule in settings.rules):
        return
    for repo in settings.repos:
        forges = [repo.forge] if repo.forge is not None else []
        silent = [forge for forge in forges if forge is not Forge.GITHUB]  # only GitHub's events say who may write
        if silent and not repo.writers and not client.hook_keys(silent[0]).token:
            found.warnings.append(
                f'hooks.repos."{repo.name}": nobody is known to have write access, so no event wakes an agent: '
                f"name writers, or set {TOKEN.format(silent[0].upper())}."
            )
