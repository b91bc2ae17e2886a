"""Decides what an event starts: which agents act on it, with which prompts, or why none does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clew.core.hooks.hook import CLEAN_UP, Forge, HookAgent, HookEvent, Match, needs_writer, route, session_key
from clew.core.hooks.settings import HookRepo, HookSettings
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import ConfigError
from clew.git.worktrees.worktrees import WorkTrees
from clew.hosts.hooks.forge.api import ForgeApi, is_ours
from clew.hosts.hooks.skills import SkillForm, Skills
from clew.store.rows.hooks import HookKey
from clew.store.store import Store

WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})  # GitHub's associations that mean write access


class PlannedJob(Record):
    """One agent's part in an event."""

    key: str
    agent: HookAgent
    repo: HookRepo
    match: Match
    cwd: str  # the key's work tree
    full: str  # the prompt of a fresh session
    delta: str  # the prompt of a resumed one


class EventPlan(Record):
    """What an event starts: jobs, or the end of sessions, or nothing."""

    jobs: tuple[PlannedJob, ...] = ()
    dropped: tuple[str, ...] = ()  # the session keys that a clean-up event ends
    ignored: str | None = None  # why nothing is done


class HookPlanner:
    def __init__(
        self,
        engine: Engine,
        settings: HookSettings,
        trees: WorkTrees,
        skills: Skills,
        api_of: Callable[[Forge], ForgeApi | None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._trees = trees
        self._skills = skills
        self._api_of = api_of

    async def plan(self, event: HookEvent) -> EventPlan:
        """Plans the event, and stores nothing. If needed, asks the forge whether the actor has write access."""
        repo = self._settings.repo(event.repo)
        if repo is None or repo.forge not in (None, event.forge):
            return EventPlan(ignored=f"the settings have no repository {event.repo}")
        if event.kind in CLEAN_UP:
            keys = await self._engine.store.call(lambda store: _keys_of(store, repo, event))
            return EventPlan(dropped=tuple(key.key for key in keys), ignored="it has no session")
        if is_ours(event.text or event.body):
            return EventPlan(ignored="it is Clew's own comment")
        matches = route(self._settings.rules, event)
        woken = [(match, event.number) for match in matches if event.number is not None]
        if event.number is None:  # a push names only a branch, and wakes only the agents that work on that branch
            keys = await self._engine.store.call(lambda store: _keys_of(store, repo, event))
            if not keys:
                return EventPlan(ignored=f"no session works on the branch {event.branch}")
            woken = [(match, key.issue) for key in keys for match in matches if match.rule.agent == key.agent]
        if not woken:
            return EventPlan(ignored="no rule applies")
        may = any(needs_writer(match, event) for match, _ in woken) and await self._has_write_access(repo, event)
        allowed = [(match.replace(by_writer=may), number) for match, number in woken if may or match.rule.anyone]
        if not allowed:
            return EventPlan(ignored=f"{event.actor} is not known to have write access")
        return EventPlan(tuple([await self._job(repo, event, number, match) for match, number in allowed]))

    async def _job(self, repo: HookRepo, event: HookEvent, number: int, match: Match) -> PlannedJob:
        agent = self._settings.agent(match.rule.agent)
        if agent is None:
            raise ConfigError(f"There is no hooks.agents.{match.rule.agent}.")
        key = session_key(agent.name, repo.name, number)
        return PlannedJob(
            key=key,
            agent=agent,
            repo=repo,
            match=match,
            cwd=await self._trees.path_of(repo.path, key),
            full=await self._render(agent, event.replace(number=number), match, SkillForm.FULL),
            delta=await self._render(agent, event.replace(number=number), match, SkillForm.DELTA),
        )

    async def _render(self, agent: HookAgent, event: HookEvent, match: Match, form: SkillForm) -> str:
        """Renders in an OS thread, because a slow template must not block the event loop."""
        return await asyncio.to_thread(self._skills.render, agent, event, match, form)

    async def _has_write_access(self, repo: HookRepo, event: HookEvent) -> bool:
        """Checks the settings, then the forge's API. Without access to the API, the event's association decides."""
        if event.actor.lower() in {name.lower() for name in repo.writers}:
            return True
        api = self._api_of(event.forge)
        if api is None:
            return event.association in WRITERS
        return await api.can_write(repo.name, event.actor) is True


def _keys_of(store: Store, repo: HookRepo, event: HookEvent) -> list[HookKey]:
    """The sessions of the event's issue; for an event of a branch, those that work on the branch."""
    if event.number is not None:
        return store.hooks.keys(repo=repo.name, issue=event.number)
    return [key for key in store.hooks.keys(repo=repo.name) if key.branch is not None and key.branch == event.branch]
