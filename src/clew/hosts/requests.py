"""Requests that are carried out once, however often they are sent: each has a key, and the first answer is kept.

Before anything is made, the key is stored with the id that it will be made under. So a process that dies between the
two leaves either nothing, and the next try makes it, or the thing itself, and the next try finds it: never two of them.
"""

from __future__ import annotations

from clew.engine.engine import Engine
from clew.store.records import Request

KEPT_S = 24 * 3600.0


class Requests:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def claim(self, key: str, sent: str) -> tuple[Request, bool]:
        """The request of that key, and whether it is new. `sent` is a digest of what was sent."""
        around = self._engine.around
        now, made_id = around.clock(), around.new_id()
        found = await self._engine.database.call(
            lambda store: store.claim_request(key, sent, made_id, at=now, since=now - KEPT_S)
        )
        return found, found.made_id == made_id

    async def finish(self, key: str, status: int, location: str | None, answer: str) -> None:
        await self._engine.database.call(lambda store: store.finish_request(key, status, location, answer))

    async def release(self, key: str) -> None:
        """It was refused, so nothing was made: the next one with this key is a first one."""
        await self._engine.database.call(lambda store: store.release_request(key))
