"""Ends a daemon that nobody has used for a time, if it was started in the background.

Used is: a request, a client that follows events, a run of the store in progress, a command that is carried out for the
command line. A daemon that runs jobs never ends by itself: nothing else would carry out the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clew.api.client import Client
from clew.core.runs.run import LIVE
from clew.errors import ClewError

CHECKS = 20  # in the time after which it ends
MAX_PAUSE_S = 60.0


class IdleEnd:
    """`uses` are a number that grows with each use, and whether there is one in progress."""

    def __init__(
        self,
        client: Client,
        limit_s: float,
        uses: Callable[[], tuple[int, bool]],
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._limit_s = limit_s
        self._uses = uses
        self._clock = clock or asyncio.get_running_loop().time
        self._seen = -1
        self._used_at = self._clock()

    async def run(self, end: Callable[[], None]) -> None:
        """Calls `end` when the time has come."""
        pause_s = min(MAX_PAUSE_S, self._limit_s / CHECKS)
        while True:
            if await self.is_due():
                return end()
            await asyncio.sleep(pause_s)

    async def is_due(self) -> bool:
        """Whether nobody has used the daemon for the time. What was used since the last call counts as used now."""
        count, is_used = self._uses()
        if is_used or count != self._seen or await self._has_runs():
            self._seen, self._used_at = count, self._clock()
        return self._clock() - self._used_at >= self._limit_s

    async def _has_runs(self) -> bool:
        try:
            return bool(await self._client.runs(statuses=LIVE, limit=1))
        except ClewError:
            return True  # the store is away: not known
