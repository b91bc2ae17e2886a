"""Pairs that are put away, brought back and copied: both threads, under every name that a user knows."""

from __future__ import annotations

import re

import pytest

from clew.errors import Busy, Conflict
from clew.hosts.pair_folder import path_of
from clew.hosts.portable import export_thread
from clew.hosts.portable_file import unpack
from clew.hosts.portable_import import import_thread
from clew.store.store import Store
from clew.testing.stage import Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread
from pair.house import Couple, carried_out


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


async def test_an_archived_pair_comes_back_by_its_name_and_by_either_threads(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        state = await carried_out(client, scripted, name="build")
        file = path_of(state.pair.cwd, state.pair.id)
        assert file.is_file()
        for put_away, name in (("worker", "build"), ("worker", "pair-build-instructor"), ("instructor", "build")):
            await client.archives.archive(f"pair-build-{put_away}")
            assert not file.exists(), "it would look as if it were of another store"
            assert await client.pairs.list() == []
            await client.archives.restore(name)
            back = await client.pairs.find("build")
            assert (back.pair.id, len(back.rounds)) == (state.pair.id, 2)


async def test_an_imported_pair_bears_the_name_that_it_is_given(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, name="two")
        content = (await export_thread(client.engine, "pair-two-worker", {})).content
        made = await import_thread(client.engine, unpack(content), cwd=str(scripted.work), name="two2")
        assert {thread.name for thread in made.threads} == {"pair-two2-instructor", "pair-two2-worker"}
        copy = (await client.pairs.find("two2")).pair
        assert (await client.find("pair-two2-worker")).record.id == copy.worker_thread_id
        assert copy.id != first.pair.id
        assert re.fullmatch(r"\d{4}(-\d\d){5}-[0-9a-f]{4}", copy.id), "a person reads it"
        with pytest.raises(Conflict, match="a pair named two2"):
            await import_thread(client.engine, unpack(content), cwd=str(scripted.work), name="two2")
