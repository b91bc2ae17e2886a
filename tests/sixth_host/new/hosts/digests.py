"""The digests host: it asks an agent for a summary, and stores it."""

from __future__ import annotations

from clew.core.digests import KIND, PROMPT, Digest

from clew.core.ids import ThreadId
from clew.core.thread import Permissions, Thread
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest


class Digests:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def make(self, name: str) -> Digest:
        context, call = self._engine.context, self._engine.store.call
        about = await call(lambda store: store.threads.require(name))
        history = await call(lambda store: store.turns.history(about.id))
        thread = Thread(
            id=ThreadId(context.new_id()),
            name=f"digest-of-{about.name}",
            cwd=about.cwd,
            agent=about.agent,
            model=about.model,
            permissions=Permissions.READ_ONLY,
            kind=KIND,
            created_at=context.clock(),
            updated_at=context.clock(),
        )
        stored = await call(lambda store: store.threads.create(thread))
        text = PROMPT.format(text="\n".join(turn.text for turn in history))
        finished = await (await self._engine.start(TurnRequest(stored, text))).finish()
        digest = Digest(context.new_id(), stored.id, about.name, finished.text)
        await call(lambda store: store.digests.create(digest))
        return digest

    async def list(self) -> list[Digest]:
        return await self._engine.store.call(lambda store: store.digests.all())
