"""The store as a run uses it: a call that fails because the store is unavailable is retried.

A database server that is restarted is available again within seconds, and the agent keeps working meanwhile. So for
some time a run retries every call that certainly wrote nothing. The time counts from the first failure after a success.
When it is used up, every call fails at once, and the run is left to recovery, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from clew.engine.storage.async_store import StoreAccess
from clew.errors import StoreError
from clew.store.store import Store

T = TypeVar("T")
log = logging.getLogger("clew.engine.storage.store_retry")

RETRY_EVERY_S = 0.25


class RetryingStore(StoreAccess):
    def __init__(self, access: StoreAccess, store_retry_s: float) -> None:
        self._access = access
        self._retry_s = store_retry_s
        self._failing_since: float | None = None

    async def call(self, work: Callable[[Store], T]) -> T:
        while True:
            try:
                return await self._once(work)
            except StoreError as error:
                if not self._may_retry(error):
                    raise
                await asyncio.sleep(RETRY_EVERY_S)

    async def call_once(self, work: Callable[[Store], T], default: T) -> T:
        """One try, for a caller that polls. While the store is unavailable, the result is `default`."""
        try:
            return await self._once(work)
        except StoreError as error:
            if not self._may_retry(error):
                raise
            return default

    async def _once(self, work: Callable[[Store], T]) -> T:
        found = await self._access.call(work)
        self._failing_since = None
        return found

    def _may_retry(self, error: StoreError) -> bool:
        if not error.passing:
            return False
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("the store: %s It is tried again for %.0f s.", error.message, self._retry_s)
        return now - self._failing_since < self._retry_s
