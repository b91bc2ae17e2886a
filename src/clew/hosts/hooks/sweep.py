"""Removes what clean-up events missed: sessions whose issue is closed, and work trees without a session."""

from __future__ import annotations

import logging
from collections.abc import Callable

from clew.core.durations import DAY_S
from clew.core.hooks.hook import CLEAN_UP, Forge, split_key
from clew.core.hooks.settings import HookSettings
from clew.core.ids import ThreadId
from clew.core.jobs.job import ACTIVE
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.git.worktrees.worktrees import ListedTree, WorkTrees
from clew.hosts.hooks.forge.api import ForgeApi
from clew.hosts.hooks.sessions import HookSessions
from clew.store.rows.hooks import HookKey
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks.sweep")

UNUSED, CLOSED = "unused for too long", "it is closed"
Progress = Callable[[str, int, int], None]  # the key that is next, how many are done, and how many there are
EVENTS_KEPT_S = 30 * DAY_S  # how long an event is kept after its end: a forge may send it again


class Swept(Record):
    key: str
    why: str
    tree: str | None  # what became of its work tree
    session: bool  # False: the session was gone before, and only its work tree was left


class HookSweep:
    def __init__(
        self,
        engine: Engine,
        settings: HookSettings,
        trees: WorkTrees,
        sessions: HookSessions,
        api_of: Callable[[Forge], ForgeApi | None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._trees = trees
        self._sessions = sessions
        self._api_of = api_of

    async def run(self, *, dry_run: bool = False, progress: Progress = lambda *_: None) -> list[Swept]:
        """Drops the sessions that were unused for too long, or whose issue is closed according to the forge.

        Then it closes the work trees that have no session, and deletes old events. `progress` is called before each
        key; if it raises, the sweep ends there, with no key half done.
        """
        now = self._engine.context.clock()
        swept = []
        keys = await self._sessions.keys()
        for done, key in enumerate(keys):
            progress(key.key, done, len(keys))
            thread_id = ThreadId(key.thread_id)
            if await self._engine.store.call(lambda store, id_=thread_id: self._engine.is_held(store, id_)):  # type: ignore[misc]
                continue  # a run is in progress
            why = UNUSED if self._is_old(now, key.used_at) else await self._closed(key.key, key.forge)
            if why is None or not await self._engine.store.call(lambda store, key=key: _is_unchanged(store, key)):  # type: ignore[misc]
                continue  # the session is still needed, or was used while the forge was asked
            tree = None
            if not dry_run:
                await self._sessions.drop(key.key)
                tree = await self.close_tree(key.key)
            swept.append(Swept(key.key, why, tree, session=True))
        swept += await self._orphans(now, progress, dry_run=dry_run)
        if not dry_run:
            await self._engine.store.call(lambda store: store.hooks.forget_events(now - EVENTS_KEPT_S))
        return swept

    async def close_tree(self, key: str) -> str | None:
        """Closes the key's work tree. Returns a note about that, or about why it was left."""
        _, name, _ = split_key(key)
        repo = self._settings.repo(name)
        if repo is None:
            return None
        if await self._engine.store.call(lambda store: _has_work(store, key)):
            return "The work tree is left: a job needs it."  # a later sweep closes it
        try:
            return (await self._trees.close(repo.path, key)).why
        except ClewError as error:
            log.warning("%s: %s", key, error.message)
            return error.message

    async def _orphans(self, now: float, progress: Progress, *, dry_run: bool) -> list[Swept]:
        """Closes work trees without a session: they were in use when their session was dropped, or it was reset.

        The work tree of a reset session is kept as long as another event of its issue may come.
        """
        known = {key.key for key in await self._sessions.keys()}
        found = []
        listed = await self._trees.list()
        for done, tree in enumerate(listed):
            progress(tree.key, done, len(listed))
            why = await self._why_unneeded(tree, now) if tree.key not in known else None
            if why is not None:
                note = None if dry_run else (await self._trees.close(tree.repository, tree.key)).why
                found.append(Swept(tree.key, why, note, session=False))
        return found

    async def _why_unneeded(self, tree: ListedTree, now: float) -> str | None:
        """Why the work tree can be closed. None: a job or a later event may still need it."""
        if await self._engine.store.call(lambda store: _has_work(store, tree.key)):
            return None
        if not tree.there:
            return "its folder is gone"
        _, name, number = split_key(tree.key)
        used_at, forge = await self._engine.store.call(lambda store: store.hooks.key_last_used(tree.key))
        if used_at is None or self._is_old(now, used_at):
            return UNUSED
        if await self._engine.store.call(lambda store: store.hooks.issue_last(name, number)) in CLEAN_UP:
            return CLOSED
        return await self._closed(tree.key, forge)

    def _is_old(self, now: float, used_at: float) -> bool:
        return now - used_at > self._settings.sweep_age_s

    async def _closed(self, key: str, forge: str | None) -> str | None:
        """`CLOSED` if the forge says that the issue is closed. None: it is open, or the forge cannot be asked."""
        api = self._api_of(Forge(forge)) if forge is not None else None
        if api is None:
            return None
        _, repo, number = split_key(key)
        try:
            state = await api.state(repo, number)
        except ClewError as error:
            log.warning("%s: %s", key, error.message)
            return None
        return CLOSED if state == "closed" else None


def _is_unchanged(store: Store, seen: HookKey) -> bool:
    """Whether nothing has used the key since it was read."""
    known = store.hooks.key(seen.key)
    return known is not None and known.used_at == seen.used_at and not _has_work(store, seen.key)


def _has_work(store: Store, key: str) -> bool:
    return bool(store.jobs.newest(statuses=ACTIVE, key=key, limit=1))
