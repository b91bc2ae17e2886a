"""One task per daemon that reads what changed in the store, whichever process wrote it, and notifies all subscribers.

A write by this process wakes the task at once. Writes by other processes (the command line, a second daemon) are seen
at the next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

from clew.api.client import Client
from clew.api.views import Changes
from clew.errors import ClewError, StoreError
from clew.server.models.problems import log

POLL_S = 0.25
RETRY_S = 1.0
LATEST = 2**62  # higher than any version: no changes come after it, so only the current version is returned


class Subscriber(Protocol):
    def changed(self, changes: Changes) -> None: ...


class Hub:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._subscribers: set[Subscriber] = set()
        self._has_subscribers = asyncio.Event()
        self._version: int | None = None  # all subscribers were notified up to this version; None: not known

    @contextlib.contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        self._subscribers.add(subscriber)
        self._has_subscribers.set()
        try:
            yield
        finally:
            self._subscribers.discard(subscriber)
            if not self._subscribers:
                self._has_subscribers.clear()

    def has_read(self, version: int) -> None:
        """A subscriber has read the store itself up to this version. It must still be notified about later ones."""
        if self._version is None or version < self._version:
            self._version = version

    async def run(self) -> None:
        """Runs until it is cancelled. Polls only while there are subscribers: a new one reads the store by itself."""
        while True:
            if not self._subscribers:
                self._version = None
                await self._has_subscribers.wait()
            asked = self._version
            try:
                changes = await self._client.views.changes(LATEST if asked is None else asked)
            except ClewError as error:  # busy or full: the subscribers are notified after a later poll
                if isinstance(error, StoreError) and error.kind == "lost":
                    return  # health.py logs that the store is lost; no more changes will come
                log.warning("the changes could not be read: %s", error.code)
                await asyncio.sleep(RETRY_S)
                continue
            if self._version != asked:
                continue  # meanwhile a new subscriber has set the version (`has_read`)
            if asked is not None and changes.version != asked:
                for subscriber in list(self._subscribers):
                    subscriber.changed(changes)
            self._version = changes.version
            await self._written_or_due()

    async def _written_or_due(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._client.views.written()
