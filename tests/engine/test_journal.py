"""The journal of a run, on a slow store."""

from __future__ import annotations

import asyncio
from typing import Any

from clew.core.ids import RunId
from clew.core.runs.events import Event, TextStreamed
from clew.engine.journal import Journal


class SlowStore:
    """Stores a batch only when the test allows it."""

    def __init__(self) -> None:
        self.taken: list[Event] = []
        self.events = self
        self.writing = asyncio.Event()
        self.go_on = asyncio.Event()

    async def atomically(self, work: Any, *_: Any) -> None:
        self.writing.set()
        await self.go_on.wait()
        work(self)

    def append(self, _run_id: str, events: Any) -> None:
        self.taken += [event for _, _, event in events]


async def test_an_event_that_arrives_while_a_batch_is_written_is_stored_without_a_later_event() -> None:
    store = SlowStore()
    journal = Journal(store, RunId("r"), lambda: 0.0)  # type: ignore[arg-type]
    await journal.note(TextStreamed("first"))
    async with asyncio.timeout(60):
        await store.writing.wait()
        await journal.note(TextStreamed("second"))
        store.go_on.set()
        heard = journal.listen(stored=True)
        assert [(await anext(heard)).event for _ in range(2)] == [TextStreamed("first"), TextStreamed("second")]
    await journal.close()
    assert store.taken == [TextStreamed("first"), TextStreamed("second")]
