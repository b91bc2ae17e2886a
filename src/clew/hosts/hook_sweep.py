"""What hooks leave behind: sessions whose issue is closed, work trees whose session is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from clew.core.hook import Forge, split_key
from clew.core.hook_settings import HookSettings
from clew.core.job import UNDER_WAY
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.hosts.forge_api import ForgeApi
from clew.hosts.hook_sessions import HookSessions
from clew.store.hook_rows import HookKey
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks")

KEPT_S = 30 * 86_400.0  # an event that was dealt with: a forge may send it again


class Swept(Record):
    key: str
    why: str
    tree: str | None  # what became of its work tree


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
        for session in await self.sessions():
            key = session.key
            if session.state == "running":
                continue
            why = "unused for too long" if now - key.used_at > self.settings.sweep_age_s else await self._closed(key)
            if why is None or not await self._call(lambda store, key=key: _is_idle(store, key)):  # type: ignore[misc]
                continue  # or it was used while the forge was asked
            tree = None if dry_run else await self.drop(key.key)
            swept.append(Swept(key.key, why, tree))
        swept += await self._orphans(dry_run=dry_run)
        if not dry_run:
            await self._call(lambda store: store.forget_hook_events(now - KEPT_S))
        return swept

    async def _orphans(self, *, dry_run: bool) -> list[Swept]:
        """Work trees that were in use when their key was dropped."""
        known = await self._call(lambda store: {key.key for key in store.hook_keys()})
        found = []
        for tree in await self.trees.list():
            if tree.key not in known and not await self._call(lambda store, key=tree.key: _has_work(store, key)):  # type: ignore[misc]
                why = None if dry_run else (await self.trees.close(tree.repository, tree.key)).why
                found.append(Swept(tree.key, "its session is gone", why))
        return found

    async def _closed(self, key: HookKey) -> str | None:
        api = self._api_of(Forge(key.forge)) if key.forge is not None else None
        if api is None:
            return None
        try:
            state = await api.state(key.repo, key.issue)
        except ClewError as error:
            log.warning("%s: %s", key.key, error.message)
            return None
        return "it is closed" if state == "closed" else None

    async def drop(self, key: str) -> str | None:
        """Its session and its work tree; or why the tree is left."""
        await self.drop_session(key)
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


def _is_idle(store: Store, seen: HookKey) -> bool:
    """Nothing has happened to the key since it was seen."""
    known = store.hook_key(seen.key)
    return known is not None and known.used_at == seen.used_at and not _has_work(store, seen.key)


def _has_work(store: Store, key: str) -> bool:
    return bool(store.jobs(statuses=UNDER_WAY, key=key, limit=1))
