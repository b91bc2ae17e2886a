"""Idempotent requests: each has a key, is carried out once, however often it is sent, and its first answer is stored.

Before a thread or a run is made, the key is stored with the id that it will get. So if the process dies in between,
the next request with that key either finds the thread or run, or makes it: there are never two.
"""

from __future__ import annotations

from clew.core.durations import DAY_S
from clew.engine.engine import Engine
from clew.store.records import StoredRequest as StoredRequest

KEPT_S = DAY_S


class IdempotentRequests:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def claim(self, key: str, sent: str) -> tuple[StoredRequest, bool]:
        """The request of that key, and whether it is new. `sent` is a digest of the request's content."""
        context = self._engine.context
        now, made_id = context.clock(), context.new_id()
        found = await self._engine.store.call(
            lambda store: store.key_values.claim_request(key, sent, made_id, at=now, since=now - KEPT_S)
        )
        return found, found.made_id == made_id

    async def finish(self, key: str, status: int, location: str | None, answer: str) -> None:
        await self._engine.store.call(lambda store: store.key_values.finish_request(key, status, location, answer))

    async def release(self, key: str) -> None:
        """For a request that was refused and made nothing: the next request with this key counts as the first."""
        await self._engine.store.call(lambda store: store.key_values.release_request(key))
