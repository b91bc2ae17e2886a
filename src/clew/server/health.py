"""Whether the daemon is healthy: its store answers, and is still the one that the daemon opened.

A query that is queued behind much work is answered late. As long as the store answers other queries, the daemon is busy
and not broken: a restart would only add to the work.

A store whose files were deleted, replaced or truncated does not recover while the process runs. The daemon then accepts
nothing more (the store itself refuses every write). It says so once in its log and always on /healthz, and saves a copy
of everything that was stored, which only this process can still read. The daemon must be restarted.
"""

from __future__ import annotations

import asyncio

from clew.api.client import Client
from clew.core.record import Record
from clew.errors import ClewError, StoreError
from clew.server.models.problems import log

POLL_S = 1.0
ANSWER_S = 3.0  # how long the store may take to answer
LOST = "The store was deleted, replaced or truncated while the daemon was running: nothing more is accepted."


class HealthStatus(Record):
    problem: str | None = None  # a sentence that contains nothing private; None: healthy
    is_busy: bool = False


class HealthCheck:
    def __init__(self, client: Client, answer_s: float = ANSWER_S) -> None:
        self._client = client
        self._answer_s = answer_s
        self._asking: asyncio.Task[None] | None = None
        self.is_lost = False

    async def status(self) -> HealthStatus:
        """Takes at most `answer_s`."""
        if self.is_lost:
            return HealthStatus(LOST)
        answered = self._client.store_answered
        if self._asking is None:  # one query at a time, however many clients ask
            self._asking = asyncio.create_task(self._client.ping())
        asking = self._asking
        await asyncio.wait({asking}, timeout=self._answer_s)
        if not asking.done():
            is_busy = self._client.store_answered > answered
            return HealthStatus(is_busy=True) if is_busy else HealthStatus("The store does not answer.")
        self._asking = None
        error = asking.exception()
        if isinstance(error, StoreError):
            return HealthStatus(LOST if error.kind == "lost" else f"The store cannot be used: it is {error.kind}.")
        return HealthStatus() if error is None else HealthStatus("The store cannot be used.")

    async def watch(self) -> None:
        """When the store is lost: saves a copy of its content, logs the loss and returns."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                lost = await self._client.store_lost()
            except ClewError:
                continue
            if lost is not None:
                self.is_lost = True
                log.error("%s %s Start the daemon again.", lost.message, await self._client.rescue())
                return
