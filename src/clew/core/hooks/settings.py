"""The settings of hooks."""

from __future__ import annotations

from clew.core.durations import DAY_S
from clew.core.hooks.hook import Forge, HookAgent, Rule
from clew.core.record import Record


class HookRepo(Record):
    """A repository that agents work in."""

    name: str  # owner/name, as the forge has it
    path: str  # on this machine
    forge: Forge | None = None  # None: any forge
    branch: str | None = None  # where new work starts; None: the remote's default branch
    remote: str = "origin"
    writers: tuple[str, ...] = ()  # people with write access, for forges that do not say


class HookSettings(Record):
    """The named agents, the repositories and the rules."""

    agents: tuple[HookAgent, ...] = ()
    repos: tuple[HookRepo, ...] = ()
    rules: tuple[Rule, ...] = ()
    urls: tuple[tuple[Forge, str], ...] = ()  # of the forges' APIs
    text_limit: int = 20_000  # characters of one text from a forge
    sweep_age_s: float = 30 * DAY_S  # a session that was unused for longer is dropped

    def agent(self, name: str) -> HookAgent | None:
        return next((agent for agent in self.agents if agent.name == name), None)

    def repo(self, name: str) -> HookRepo | None:
        """The repository of that name. Case is ignored, as on a forge."""
        return next((repo for repo in self.repos if repo.name.lower() == name.lower()), None)

    def url(self, forge: Forge) -> str | None:
        return dict(self.urls).get(forge)
