"""Sessions by key: `boss:charles/peon:4` leads to a thread, and that to the session which its next event goes on in.

Small, public and on the store: safe under any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clew.core.hook import HookAgent, session_key, split_key
from clew.core.hook_settings import HookRepo, HookSettings
from clew.core.ids import ThreadId
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.thread import Thread, Trust
from clew.engine.engine import Engine
from clew.engine.worktrees import WorkTrees
from clew.errors import NotFound, UsageError
from clew.hosts.hook_outlook import next_sessions, noted
from clew.store.hook_rows import HookKey
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.adoption import Found

T = TypeVar("T")
KIND = "hook"  # of a thread and of a job


class Session(Record):
    """A key and what it leads to, for a list."""

    key: HookKey
    session_id: str | None
    state: str  # running, resumable, fresh: what the next event would find


class HookSessions:
    def __init__(self, engine: Engine, settings: HookSettings, home: Path) -> None:
        self._engine = engine
        self.settings = settings
        self.trees = WorkTrees(home / "worktrees", engine.around.environ)

    async def get_session(self, key: str) -> str | None:
        """The id of the session that the key's next event would go on in."""
        named = self._named(key)
        known = await self._call(lambda store: store.hook_key(named))
        return None if known is None else (await self._next([known]))[named]

    async def set_session(self, key: str, session_id: str) -> bool:
        """Adopts a session that was begun elsewhere. False: it has no file here, so there is nothing to resume."""
        key = self._named(key)
        agent, repo, _ = split_key(key)
        known = self.settings.agent(agent)
        place = self.settings.repo(repo)
        if known is None or place is None:
            raise NotFound(f"The settings have no {agent if known is None else repo}.", hint="See clew hooks check.")
        work_dir = await self.trees.place(place.path, key)
        found = await self._engine.look_at(known.agent, work_dir, session_id)
        if found is None:
            return False
        return await self._engine.database.atomically(
            lambda store: self._adopt(store, key, known, place, work_dir, session_id, found)
        )

    def _adopt(
        self, store: Store, key: str, agent: HookAgent, repo: HookRepo, cwd: str, session_id: str, found: Found
    ) -> bool:
        from clew.engine import adoption

        now = self._engine.around.clock()
        _, _, number = split_key(key)
        self._forget(store, key)
        thread = self.new_thread(store, key, agent, cwd, now)
        adopted = adoption.adopt(store, thread, found, session_id, agent.model, self._engine.around)
        store.save_hook_key(HookKey(key, agent.name, repo.name, number, None, thread.id, None, now, now))
        return adopted.pin is not None

    def new_thread(self, store: Store, key: str, agent: HookAgent, cwd: str, now: float) -> Thread:
        """The key's, as its agent is set up now. None of the repository's own agent settings are loaded in it."""
        return store.create_thread(
            Thread(
                id=ThreadId(self._engine.around.new_id()),
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

    async def drop_session(self, key: str) -> bool:
        """True when something was removed: the key's next event is told the whole skill, in a fresh session."""
        key = self._named(key)
        return await self._engine.database.atomically(lambda store: self._forget(store, key))

    async def drop_all_for_issue(self, repo: str, number: int) -> list[str]:
        """Every agent's session of that issue or pull request. The keys that were dropped."""
        name = found.name if (found := self.settings.repo(repo)) is not None else repo

        def drop(store: Store) -> list[str]:
            keys = [key.key for key in store.hook_keys(repo=name, issue=number)]
            return [key for key in keys if self._forget(store, key)]

        return await self._engine.database.atomically(drop)

    def _forget(self, store: Store, key: str) -> bool:
        known = store.hook_key(key)
        if known is None:
            return False
        if not self._engine.is_held(store, ThreadId(known.thread_id)):
            for pin in store.pins(known.thread_id, retired=False):
                if pin.state is not PinState.POISONED:
                    store.save_pin(pin.replace(state=PinState.RETIRED))
        return store.delete_hook_key(key)

    async def keys(self) -> list[HookKey]:
        """Every key that leads somewhere, by repository, number and agent."""
        return await self._call(lambda store: store.hook_keys())

    async def sessions(self) -> list[Session]:
        """All of them, each looked at as its next event would do."""

        def held(store: Store) -> tuple[list[HookKey], dict[str, str | None]]:
            keys = store.hook_keys()
            busy = [key for key in keys if self._engine.is_held(store, ThreadId(key.thread_id))]
            return keys, {key.key: noted(store, key) for key in busy}

        keys, running = await self._call(held)
        found = await self._next([key for key in keys if key.key not in running])
        return [
            Session(key, running[key.key], "running")
            if key.key in running
            else Session(key, found[key.key], "fresh" if found[key.key] is None else "resumable")
            for key in keys
        ]

    async def _next(self, keys: Sequence[HookKey]) -> dict[str, str | None]:
        return await next_sessions(self._engine, self.settings, self.trees, keys)

    async def counts(self) -> dict[tuple[str, str, str], int]:
        """Sessions by repository, agent and state."""
        found: dict[tuple[str, str, str], int] = {}
        for session in await self.sessions():
            place = (session.key.repo, session.key.agent, session.state)
            found[place] = found.get(place, 0) + 1
        return found

    def _named(self, key: str) -> str:
        """The key with the repository as the settings spell it: forges do not tell upper case from lower."""
        agent, repo, number = _parts(key)
        place = self.settings.repo(repo)
        return session_key(agent, place.name, number) if place is not None else key

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.database.call(work)


def _parts(key: str) -> tuple[str, str, int]:
    try:
        return split_key(key)
    except ValueError as error:
        raise UsageError(f"{error}.") from error


def thread_name(key: str) -> str:
    agent, repo, number = split_key(key)
    return f"{agent}-{repo.replace('/', '-')}-{number}"[:70].lstrip(".-_")


def by_key(old: Mapping[str, object]) -> dict[str, str]:
    """An old sessions.json: keys and ids; what is neither is left out."""
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
