"""All that the settings say about hooks."""

from __future__ import annotations

from clew.core.hook import Forge, HookAgent, Rule
from clew.core.record import Record


class HookRepo(Record):
    """A repository that agents work in: where it is on this machine."""

    name: str  # owner/name, as the forge has it
    path: str
    forge: Forge | None = None  # None: whichever sends it
    branch: str | None = None  # where new work begins; None: the remote's own default
    remote: str = "origin"
    writers: tuple[str, ...] = ()  # people with write access, where the forge does not say


class HookSettings(Record):
    """Named agents, repositories, rules."""

    agents: tuple[HookAgent, ...] = ()
    repos: tuple[HookRepo, ...] = ()
    rules: tuple[Rule, ...] = ()
    urls: tuple[tuple[Forge, str], ...] = ()  # of the forges' APIs
    text_limit: int = 20_000  # characters of one text from a forge
    sweep_age_s: float = 30 * 86_400.0  # a session that was not used for so long is dropped

    def agent(self, name: str) -> HookAgent | None:
        return next((agent for agent in self.agents if agent.name == name), None)

    def repo(self, name: str) -> HookRepo | None:
        """Forges do not tell upper case from lower."""
        return next((repo for repo in self.repos if repo.name.lower() == name.lower()), None)

    def url(self, forge: Forge) -> str | None:
        return dict(self.urls).get(forge)
