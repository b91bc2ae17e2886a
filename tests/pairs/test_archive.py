"""Pairs that are archived, restored and copied: both threads, by every name that a user knows."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from clew.errors import Busy, Conflict, NotFound
from clew.hosts.pairs.folder import path_of
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.store.store import Store
from clew.testing.stage import Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread
from pairs.couple import Couple, carried_out

# Deleting a thread violates a deferred constraint, which only the commit checks.
COMMIT_FAILS = """
CREATE TABLE promised (id TEXT PRIMARY KEY);
CREATE TABLE promises (id TEXT REFERENCES promised (id) DEFERRABLE INITIALLY DEFERRED);
CREATE TRIGGER promise AFTER DELETE ON threads BEGIN INSERT INTO promises VALUES (OLD.id); END;
"""


async def test_a_running_pair_is_not_archived(scripted: Stage) -> None:
    async with scripted.open() as client:
        context = client.engine.context

        def make(store: Store) -> None:
            for number in (1, 2):
                store.threads.create(a_thread(f"thread-{number}", f"part-{number}", kind="pair"))
            store.pairs.create(a_pair())
            now = context.clock()
            store.leases.acquire("pair/pair-1", token="t", owner=context.owner, run_id=None, now=now, ttl_s=60.0)

        await client.engine.store.call(make)
        with pytest.raises(Busy, match="its pair is at work"):
            await client.archives.archive("part-2")
        await client.engine.store.call(lambda store: store.leases.release("t"))
        assert (await client.archives.archive("part-2")).path is not None
        assert await client.threads() == [], "both of them are in the file"


async def test_an_archived_pair_is_restored_by_its_name_or_by_that_of_either_thread(scripted: Stage) -> None:
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


async def test_a_pair_whose_archiving_fails_keeps_its_files(scripted: Stage) -> None:
    Couple(scripted, rounds=0)
    async with scripted.open() as client:
        state = await carried_out(client, scripted, name="build")
        file = path_of(state.pair.cwd, state.pair.id)
        with closing(sqlite3.connect(scripted.clew_home / "clew.db")) as database:
            database.executescript(COMMIT_FAILS)
        with pytest.raises(NotFound):
            await client.archives.archive("build")
        assert (await client.pairs.find("build")).pair.id == state.pair.id
        assert file.is_file() and file.with_name("current.json").is_file()


@pytest.mark.parametrize("as_link", [True, False])
async def test_current_json_points_at_the_latest_remaining_file(scripted: Stage, as_link: bool) -> None:
    Couple(scripted, rounds=0)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, name="first")
        last = await carried_out(client, scripted, name="last")
        current = path_of(last.pair.cwd, last.pair.id).with_name("current.json")
        if not as_link:  # as on a file system without links
            current.unlink()
            current.write_text(json.dumps({"current": f"session-{last.pair.id}.json"}) + "\n")
        await client.archives.archive("last")
        assert current.resolve() == path_of(first.pair.cwd, first.pair.id)
        await client.archives.clean(-1.0)
        assert await client.pairs.list() == []
        assert not current.is_symlink() and not current.exists()


async def test_an_imported_pair_has_the_given_name(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, name="two")
        content = (await export_thread(client.engine, "pair-two-worker", {})).content
        made = await import_thread(client.engine, read_export(content), cwd=str(scripted.work), name="two2")
        assert {thread.name for thread in made.threads} == {"pair-two2-instructor", "pair-two2-worker"}
        copy = (await client.pairs.find("two2")).pair
        assert (await client.find("pair-two2-worker")).record.id == copy.worker_thread_id
        assert copy.id != first.pair.id
        assert re.fullmatch(r"\d{4}(-\d\d){5}-[0-9a-f]{4}", copy.id), "a person reads it"
        with pytest.raises(Conflict, match="a pair named two2"):
            await import_thread(client.engine, read_export(content), cwd=str(scripted.work), name="two2")
