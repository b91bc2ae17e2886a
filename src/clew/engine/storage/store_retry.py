"""The store as a run under way sees it: one that is away for a moment costs no run.

A database server that is restarted is back within seconds, and meanwhile the agent works on. So a run tries again, for
as long as its patience lasts, whatever surely was not written. The clock of its patience starts with the first failure
after a success: when it is used up, every call fails at once, and the run is left to recovery, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from clew.engine.database import Access
from clew.errors import StoreError
from clew.store.store import Store

T = TypeVar("T")
log = logging.getLogger("clew.engine.patience")

AGAIN_S = 0.25


class Patient(Access):
    def __init__(self, access: Access, patience_s: float) -> None:
        self._access = access
        self._patience_s = patience_s
        self._away_since: float | None = None

    async def call(self, work: Callable[[Store], T]) -> T:
        while True:
            try:
                return await self._once(work)
            except StoreError as error:
                if not self._may_try_again(error):
                    raise
                await asyncio.sleep(AGAIN_S)

    async def glance(self, work: Callable[[Store], T], else_: T) -> T:
        """For what is looked at again and again: while the store is away, `else_` does, and nobody waits for it."""
        try:
            return await self._once(work)
        except StoreError as error:
            if not self._may_try_again(error):
                raise
            return else_

    async def _once(self, work: Callable[[Store], T]) -> T:
        found = await self._access.call(work)
        self._away_since = None
        return found

    def _may_try_again(self, error: StoreError) -> bool:
        if not error.passing:
            return False
        now = asyncio.get_running_loop().time()
        if self._away_since is None:
            self._away_since = now
            log.warning("the store: %s It is tried again for %.0f s.", error.message, self._patience_s)
        return now - self._away_since < self._patience_s
