"""Renaming a pair: the pair, its threads and the name in its state file change together, or not at all."""

from __future__ import annotations

import asyncio
import json

import pytest

from clew.errors import Busy, Conflict, UsageError
from clew.hosts.pairs.folder import path_of
from clew.hosts.pairs.naming import rename
from clew.testing.model.scripts import Fail, Hang
from clew.testing.stage import Stage
from pairs.couple import Couple, carried_out, start
from transfer.machines import clew

WAIT_S = 60


@pytest.mark.rest
async def test_pair_threads_and_file_are_renamed_together_and_the_pair_continues(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Fail(401, "authentication_error", "invalid x-api-key")
    async with scripted.open() as client:
        first = await carried_out(client, scripted, name="six")
        assert first.pair.hint is not None and "--session six continues it" in first.pair.hint
    done = clew(scripted, "threads", "rename", "six", "seven", "--json")
    assert done.code == 0, done.err
    assert (done.json["name"], done.json["id"]) == ("seven", first.pair.id)
    assert "pair-six-worker is now called pair-seven-worker" in done.err
    file = path_of(first.pair.cwd, first.pair.id)
    assert json.loads(file.read_text())["name"] == "seven"
    assert file.with_name("current.json").resolve() == file
    async with scripted.open() as client:
        now = await client.pairs.find("seven")
        assert now.pair.hint is not None and "--session seven continues it" in now.pair.hint
        assert now.pair.updated_at == first.pair.updated_at, "to rename is not to use"
        assert sorted(thread.name for thread in await client.together("seven")) == [
            "pair-seven-instructor",
            "pair-seven-worker",
        ]
    assert clew(scripted, "pair", "--session", "six").code == 2
    assert clew(scripted, "pair", "--session", "seven").code == 0


async def test_a_name_that_is_taken_or_cannot_be_one_changes_nothing(scripted: Stage) -> None:
    Couple(scripted, rounds=0)
    async with scripted.open() as client:
        for name in ("six", "eight"):
            await carried_out(client, scripted, name=name)
        await client.thread("pair-nine-worker", cwd=scripted.work)
        for new, error in (("eight", Conflict), ("nine", Conflict), ("a b", UsageError), ("n" * 61, UsageError)):
            with pytest.raises(error):
                await rename(client.engine, "six", new)
            assert {thread.name for thread in await client.together("six")} == {
                "pair-six-instructor",
                "pair-six-worker",
            }
        assert await rename(client.engine, "pair-six-worker", "mine") is None, "a thread's own name is another matter"


async def test_a_running_pair_is_not_renamed(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted, name="six")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        with pytest.raises(Busy):
            await rename(client.engine, "six", "seven")
        scripted.api.release()
        await live.finish()
        renamed = await rename(client.engine, "six", "seven")
        assert renamed is not None and renamed.pair.name == "seven"
