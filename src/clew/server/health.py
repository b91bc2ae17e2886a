"""Whether the daemon can do what it is there for: its store answers, and is still the one that it opened.

A question that stands behind much work is answered late. As long as the store answers others, the daemon is busy and
not ill: whoever restarted it then would only add to the work.

A store whose files were deleted, replaced or cut short does not come back under a running process. The daemon then
accepts nothing more (every write is refused by the store itself), says so once in its log and for ever on /healthz, and
keeps a copy of all that it had stored and nobody else can see. Whoever started it starts it again.
"""

from __future__ import annotations

import asyncio

from clew.client import Client
from clew.core.record import Record
from clew.errors import ClewError, StoreError
from clew.server.problems import log

LOOK_S = 1.0
ANSWER_S = 3.0  # that the store may take
LOST = "The store was deleted, replaced or cut short under the daemon: nothing more is accepted."


class Condition(Record):
    """How the daemon is."""

    trouble: str | None = None  # in words that tell a stranger nothing; None: all is well
    is_busy: bool = False


class Health:
    def __init__(self, client: Client, answer_s: float = ANSWER_S) -> None:
        self._client = client
        self._answer_s = answer_s
        self._asking: asyncio.Task[None] | None = None
        self.is_lost = False

    async def condition(self) -> Condition:
        """Takes ANSWER_S at most."""
        if self.is_lost:
            return Condition(LOST)
        answered = self._client.store_answered
        if self._asking is None:  # one question at a time, however many ask
            self._asking = asyncio.create_task(self._client.ping())
        asking = self._asking
        await asyncio.wait({asking}, timeout=self._answer_s)
        if not asking.done():
            is_busy = self._client.store_answered > answered
            return Condition(is_busy=True) if is_busy else Condition("The store does not answer.")
        self._asking = None
        error = asking.exception()
        if isinstance(error, StoreError):
            return Condition(LOST if error.kind == "lost" else f"The store cannot be used: it is {error.kind}.")
        return Condition() if error is None else Condition("The store cannot be used.")

    async def watch(self) -> None:
        """Returns when the store is lost."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                lost = await self._client.store_lost()
            except ClewError:
                continue
            if lost is not None:
                self.is_lost = True
                log.error("%s %s Start the daemon again.", lost.message, await self._client.rescue())
                return
