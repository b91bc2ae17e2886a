"""One task a daemon that learns what changed in the store, by whichever process, and tells all who listen.

A write of this process wakes it at once; those of others (the command line, a second daemon) are seen at the next look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

from clew.client import Client
from clew.errors import ClewError, StoreError
from clew.server.problems import log
from clew.store.records import Changes

LOOK_S = 0.25
AFTER_TROUBLE_S = 1.0
NOW = 2**62  # a version that nothing comes after: asks for the present one alone


class Listener(Protocol):
    def changed(self, changes: Changes) -> None: ...


class Hub:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._listeners: set[Listener] = set()
        self._somebody = asyncio.Event()
        self._version: int | None = None  # up to which every listener has been told; None: not known

    @contextlib.contextmanager
    def telling(self, listener: Listener) -> Iterator[None]:
        self._listeners.add(listener)
        self._somebody.set()
        try:
            yield
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._somebody.clear()

    def knows(self, version: int) -> None:
        """A listener has read the store itself, up to this version. Whatever came later is still to be told."""
        if self._version is None or version < self._version:
            self._version = version

    async def run(self) -> None:
        """Until it is cancelled. Looks only while somebody listens; each who comes asks for what it lacks itself."""
        while True:
            if not self._listeners:
                self._version = None
                await self._somebody.wait()
            asked = self._version
            try:
                changes = await self._client.changes(NOW if asked is None else asked)
            except ClewError as error:  # busy or full: the listeners get it at a later look
                if isinstance(error, StoreError) and error.kind == "lost":
                    return  # it is said elsewhere, and there is nothing more to come
                log.warning("what changed could not be read: %s", error.code)
                await asyncio.sleep(AFTER_TROUBLE_S)
                continue
            if self._version != asked:
                continue  # meanwhile a listener came that knows less than this look would tell
            if asked is not None and changes.version != asked:
                for listener in list(self._listeners):
                    listener.changed(changes)
            self._version = changes.version
            await self._woken()

    async def _woken(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._client.written()
