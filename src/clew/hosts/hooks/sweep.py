"""What hooks leave behind: sessions whose issue is closed, work trees whose session is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from clew.core.hook import CLEAN_UP, Forge, split_key
from clew.core.hook_settings import HookSettings
from clew.core.ids import ThreadId
from clew.core.job import UNDER_WAY
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.engine.worktrees import Listed
from clew.errors import ClewError
from clew.hosts.forge_api import ForgeApi
from clew.hosts.hook_sessions import HookSessions
from clew.store.hook_rows import HookKey
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks")

UNUSED, CLOSED = "unused for too long", "it is closed"
KEPT_S = 30 * 86_400.0  # an event that was dealt with: a forge may send it again


class Swept(Record):
    key: str
    why: str
    tree: str | None  # what became of its work tree
    session: bool  # False: there was only a work tree left of one


class HookSweep(HookSessions):
    def __init__(
        self, engine: Engine, settings: HookSettings, home: Path, api_of: Callable[[Forge], ForgeApi | None]
    ) -> None:
        """`api_of`: the forge's API, where the environment has a token for it."""
        super().__init__(engine, settings, home)
        self._api_of = api_of

    async def sweep(self, *, dry_run: bool = False) -> list[Swept]:
        """Drops sessions whose clean-up event was missed: too long unused, or closed as the forge says."""
        now = self._engine.around.clock()
        swept = []
        for key in await self.keys():
            if await self._call(lambda store, key=key: self._engine.is_held(store, ThreadId(key.thread_id))):  # type: ignore[misc]
                continue
            why = UNUSED if self._is_old(now, key.used_at) else await self._closed(key.key, key.forge)
            if why is None or not await self._call(lambda store, key=key: _is_idle(store, key)):  # type: ignore[misc]
                continue  # or it was used while the forge was asked
            tree = None if dry_run else await self.drop(key.key)
            swept.append(Swept(key.key, why, tree, session=True))
        swept += await self._orphans(now, dry_run=dry_run)
        if not dry_run:
            await self._call(lambda store: store.forget_hook_events(now - KEPT_S))
        return swept

    async def _orphans(self, now: float, *, dry_run: bool) -> list[Swept]:
        """Work trees without a session: they were in use when it was dropped, or it was reset. Those of a reset stay
        for the next event, as long as one may come."""
        known = {key.key for key in await self.keys()}
        found = []
        for tree in await self.trees.list():
            why = await self._left_over(tree, now) if tree.key not in known else None
            if why is not None:
                note = None if dry_run else (await self.trees.close(tree.repository, tree.key)).why
                found.append(Swept(tree.key, why, note, session=False))
        return found

    async def _left_over(self, tree: Listed, now: float) -> str | None:
        """Why nobody needs it any more; None: somebody may."""
        if await self._call(lambda store: _has_work(store, tree.key)):
            return None
        if not tree.there:
            return "its folder is gone"
        _, name, number = split_key(tree.key)
        used_at, forge = await self._call(lambda store: store.hook_key_last_used(tree.key))
        if used_at is None or self._is_old(now, used_at):
            return UNUSED
        if await self._call(lambda store: store.hook_issue_last(name, number)) in CLEAN_UP:
            return CLOSED
        return await self._closed(tree.key, forge)

    def _is_old(self, now: float, used_at: float) -> bool:
        return now - used_at > self.settings.sweep_age_s

    async def _closed(self, key: str, forge: str | None) -> str | None:
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

    async def clean_up(self, hook_id: str, keys: Sequence[str]) -> None:
        """Trees, then sessions together with the event's end: what was dropped before is no other worker's to drop."""
        notes = [await self.close_tree(key) for key in keys]

        def drop(store: Store) -> None:
            if not is_open(store, hook_id):
                return  # another worker was quicker, and these may be sessions of what came after
            for key in keys:
                self._forget(store, key)
            now, why = self._engine.around.clock(), " ".join(dict.fromkeys(filter(None, notes))) or None
            store.update_hook_event(hook_id, state="dispatched", why=why, done_at=now)

        await self._engine.database.atomically(drop)

    async def drop(self, key: str) -> str | None:
        """Its session and its work tree; or why the tree is left."""
        await self.drop_session(key)
        return await self.close_tree(key)

    async def close_tree(self, key: str) -> str | None:
        """What became of it, or why it is left."""
        _, name, _ = split_key(key)
        repo = self.settings.repo(name)
        if repo is None:
            return None
        if await self._call(lambda store: _has_work(store, key)):
            return "The work tree is left: a job of it is under way."  # and swept when that is over
        try:
            return (await self.trees.close(repo.path, key)).why
        except ClewError as error:
            log.warning("%s: %s", key, error.message)
            return error.message


def is_open(store: Store, hook_id: str) -> bool:
    """Nobody has dealt with the event yet."""
    known = store.hook_event(hook_id)
    return known is not None and known.state == "received"


def _is_idle(store: Store, seen: HookKey) -> bool:
    """Nothing has happened to the key since it was seen."""
    known = store.hook_key(seen.key)
    return known is not None and known.used_at == seen.used_at and not _has_work(store, seen.key)


def _has_work(store: Store, key: str) -> bool:
    return bool(store.jobs(statuses=UNDER_WAY, key=key, limit=1))
