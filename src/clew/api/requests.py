"""Idempotent requests: each has a key, is carried out once, however often it is sent, and its first answer is kept.

Before anything is made, the key is stored with the id that the new thing will get. So when a process dies in between,
the next request with that key either finds the thing or makes it: there are never two.
"""

from __future__ import annotations

from clew.core.durations import DAY_S
from clew.engine.engine import Engine
from clew.store.records import StoredRequest

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
        """It was refused, so nothing was made: the next request with this key counts as the first."""
        await self._engine.store.call(lambda store: store.key_values.release_request(key))
