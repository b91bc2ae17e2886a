"""Sessions by key: `boss:charles/peon:4` leads to a thread, and the thread to the session that its next event resumes.

This is a small public API on the store. Any number of workers may use it at the same time.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clew.core.hooks.hook import KIND, HookAgent, session_key, split_key
from clew.core.hooks.settings import HookRepo, HookSettings
from clew.core.ids import ThreadId
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.thread import Thread, Trust
from clew.engine.engine import Engine
from clew.errors import NotFound, UsageError
from clew.git.worktrees.worktrees import WorkTrees
from clew.hosts.hooks.preview import next_sessions, stored_session
from clew.store.rows.hooks import HookKey
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.sessions.adoption import FoundSession


class HookSession(Record):
    """A key and the session that it leads to, for a list."""

    key: HookKey
    session_id: str | None
    state: str  # running, resumable or fresh: what the next event would find


class HookSessions:
    def __init__(self, engine: Engine, settings: HookSettings, trees: WorkTrees) -> None:
        self._engine = engine
        self._settings = settings
        self._trees = trees

    async def get(self, key: str) -> str | None:
        """The id of the session that the key's next event would resume."""
        name = self._normalized(key)
        known = await self._engine.store.call(lambda store: store.hooks.key(name))
        return None if known is None else (await self._next([known]))[name]

    async def set(self, key: str, session_id: str) -> bool:
        """Adopts a session that was started without Clew. False: it has no file here, so there is nothing to resume."""
        key = self._normalized(key)
        agent_name, repo_name, _ = split_key(key)
        agent, repo = self._settings.agent(agent_name), self._settings.repo(repo_name)
        if agent is None or repo is None:
            missing = agent_name if agent is None else repo_name
            raise NotFound(f"The settings have no {missing}.", hint="See clew hooks check.")
        work_dir = await self._trees.path_of(repo.path, key)
        found = await self._engine.find_session(agent.agent, work_dir, session_id)
        if found is None:
            return False
        return await self._engine.store.atomically(
            lambda store: self._adopt(store, key, agent, repo, work_dir, session_id, found)
        )

    def _adopt(
        self, store: Store, key: str, agent: HookAgent, repo: HookRepo, cwd: str, session_id: str, found: FoundSession
    ) -> bool:
        from clew.engine.sessions import adoption

        now = self._engine.context.clock()
        _, _, number = split_key(key)
        self.forget(store, key)
        thread = self.new_thread(store, key, agent, cwd, now)
        adopted = adoption.adopt(store, thread, found, session_id, agent.model, self._engine.context)
        store.hooks.save_key(HookKey(key, agent.name, repo.name, number, None, thread.id, None, now, now))
        return adopted.pin is not None

    def new_thread(self, store: Store, key: str, agent: HookAgent, cwd: str, now: float) -> Thread:
        """Creates a thread for the key, with the agent's current settings.

        Its trust is `user`: the repository's own agent settings are not loaded in it.
        """
        return store.threads.create(
            Thread(
                id=ThreadId(self._engine.context.new_id()),
                name=thread_name(key),
                cwd=cwd,
                agent=agent.agent,
                model=agent.model,
                permissions=agent.permissions,
                trust=Trust.USER,
                kind=KIND,
                created_at=now,
                updated_at=now,
            )
        )

    async def drop(self, key: str) -> bool:
        """Drops the key's session, so that its next event starts a fresh one. True: there was a session."""
        key = self._normalized(key)
        return await self._engine.store.atomically(lambda store: self.forget(store, key))

    async def drop_issue(self, repo: str, number: int) -> builtins.list[str]:
        """Drops every agent's session of that issue or pull request; returns their keys."""
        name = found.name if (found := self._settings.repo(repo)) is not None else repo

        def drop(store: Store) -> builtins.list[str]:
            keys = [key.key for key in store.hooks.keys(repo=name, issue=number)]
            return [key for key in keys if self.forget(store, key)]

        return await self._engine.store.atomically(drop)

    def forget(self, store: Store, key: str) -> bool:
        """Drops the key's session in the caller's transaction. False: the key leads to no session."""
        known = store.hooks.key(key)
        if known is None:
            return False
        if not self._engine.is_held(store, ThreadId(known.thread_id)):
            for pin in store.pins.of_thread(known.thread_id, retired=False):
                if pin.state is not PinState.POISONED:
                    store.pins.save(pin.replace(state=PinState.RETIRED))
        return store.hooks.delete_key(key)

    async def keys(self) -> builtins.list[HookKey]:
        """Every key that leads to a thread, by repository, number and agent."""
        return await self._engine.store.call(lambda store: store.hooks.keys())

    async def list(self) -> builtins.list[HookSession]:
        """All sessions. Those that are not running are checked as their next event would check them."""

        def read(store: Store) -> tuple[builtins.list[HookKey], dict[str, str | None]]:
            keys = store.hooks.keys()
            busy = [key for key in keys if self._engine.is_held(store, ThreadId(key.thread_id))]
            return keys, {key.key: stored_session(store, key) for key in busy}

        keys, running = await self._engine.store.call(read)
        found = await self._next([key for key in keys if key.key not in running])
        return [
            HookSession(key, running[key.key], "running")
            if key.key in running
            else HookSession(key, found[key.key], "fresh" if found[key.key] is None else "resumable")
            for key in keys
        ]

    async def counts(self) -> dict[tuple[str, str, str], int]:
        """Sessions by repository, agent and state."""
        return Counter((each.key.repo, each.key.agent, each.state) for each in await self.list())

    async def _next(self, keys: Sequence[HookKey]) -> dict[str, str | None]:
        return await next_sessions(self._engine, self._settings, self._trees, keys)

    def _normalized(self, key: str) -> str:
        """The key with the repository's name as the settings spell it: on a forge, case does not matter."""
        try:
            agent, name, number = split_key(key)
        except ValueError as error:
            raise UsageError(f"{error}.") from error
        repo = self._settings.repo(name)
        return session_key(agent, repo.name, number) if repo is not None else key


def thread_name(key: str) -> str:
    agent, repo, number = split_key(key)
    return f"{agent}-{repo.replace('/', '-')}-{number}"[:70].lstrip(".-_")


def sessions_in(old: Mapping[str, object]) -> dict[str, str]:
    """The session ids of an old sessions.json, by key. Entries that are not a key and an id are left out."""
    found = {}
    for key, value in old.items():
        session = value.get("sessionId") or value.get("id") if isinstance(value, dict) else value
        if isinstance(session, str) and session:
            try:
                split_key(key)
            except ValueError:
                continue
            found[key] = session
    return found
