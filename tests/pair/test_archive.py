"""A pair that is at work is not put away, also between two of its runs."""

from __future__ import annotations

import pytest

from clew.errors import Busy
from clew.store.store import Store
from clew.testing.stage import Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread


async def test_a_pair_at_work_is_not_archived(scripted: Stage) -> None:
    async with scripted.open() as client:
        around = client.engine.around

        def make(store: Store) -> None:
            for number in (1, 2):
                store.create_thread(a_thread(f"thread-{number}", f"part-{number}", kind="pair"))
            store.create_pair(a_pair())
            now = around.clock()
            store.acquire_lease("pair/pair-1", token="t", owner=around.owner, run_id=None, now=now, ttl_s=60.0)

        await client.engine.database.call(make)
        with pytest.raises(Busy, match="its pair is at work"):
            await client.archives.archive("part-2")
        await client.engine.database.call(lambda store: store.release_lease("t"))
        assert (await client.archives.archive("part-2")).path is not None
        assert await client.threads() == [], "both of them are in the file"
