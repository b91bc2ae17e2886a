"""The store's one thread: the order of its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clew.engine.storage.async_store import LARGE_AT_ONCE, AsyncStore
from clew.store import open_store


async def test_a_short_call_does_not_wait_behind_all_large_reads(tmp_path: Path) -> None:
    """All calls are made before the first result: the event loop passes results on, and runs the callers first."""
    database = AsyncStore(open_store(tmp_path / "clew.db"))
    order: list[str] = []
    large = [database.read_large(lambda _, n=n: order.append(f"large {n}")) for n in range(50)]  # type: ignore[misc]
    await asyncio.gather(*large, database.call(lambda _: order.append("short")))
    assert order.index("short") == LARGE_AT_ONCE
    assert (len(order), database.answered) == (51, 51)
    database.close()
