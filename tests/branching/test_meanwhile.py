"""Writes during a fork or a merge: they do not wait for it, and changes to its threads are noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from branching.forks import rounds, texts, true_turn
from clew.agents.adapter import SessionView
from clew.agents.claude import Claude
from clew.api.client import Client
from clew.core.branching.edits import FileEdit
from clew.errors import Busy, Conflict
from clew.hosts.branching.fork import Forked, fork
from clew.hosts.branching.merge import Merged, MergeOptions, merge
from clew.testing.model.scripts import Text, ToolUse
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel
from pairs.couple import Couple, carried_out, resumed, turns
from transfer.machines import ask

Work = Callable[[Client], Awaitable[Any]]


class Slow(Claude):
    """An adapter whose sessions and edits take long to read, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_end = threading.Event(), threading.Event()

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        self._wait()
        return super().read_session(path, since)

    def edits(self, tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        self._wait()
        return super().edits(tool, given)

    def _wait(self) -> None:
        self.began.set()
        assert self.may_end.wait(60)


class Restless(Claude):
    """An adapter that triggers a change whenever something is read."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: Callable[[], object] = lambda: None

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        self.happens()
        return super().read_session(path, since)

    def edits(self, tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        self.happens()
        return super().edits(tool, given)


@asynccontextmanager
async def reading(stage: Stage, work: Work, **flags: str) -> AsyncIterator[tuple[asyncio.Task[Any], Client]]:
    """Runs `work`, which keeps reading while the context is open. Yields its client."""
    slow = Slow()
    async with stage.open(adapters=[slow], **flags) as client:
        working = asyncio.ensure_future(work(client))
        try:
            assert await asyncio.to_thread(slow.began.wait, 60)
            yield working, client
            assert not working.done()
        finally:
            slow.may_end.set()
            await asyncio.wait([working])


async def forking(client: Client) -> Forked:
    return await fork(client.engine, "t", "new")


async def merging(client: Client) -> Merged:
    return await merge(client.engine, "t", "other", MergeOptions(name="new"))


async def two_threads(client: Client, stage: Stage) -> None:
    for name in ("t", "other"):
        thread = await client.thread(name, cwd=stage.work, permissions="all")
        written = {"file_path": str(stage.work / name), "content": name}
        stage.api.script.extend([ToolUse("Write", written), Text(f"{name} is written")])
        await ask(thread, f"write {name}")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("work", [forking, merging])
async def test_other_writers_do_not_wait_for_a_fork_or_a_merge(
    scripted: Stage, postgres: PostgresServer, work: Work, store: str
) -> None:
    flags = {"store": postgres.new_store()} if store == "postgres" else {}
    async with scripted.open(**flags) as client:
        await two_threads(client, scripted)
        third = await client.thread("third", cwd=scripted.work)
        async with reading(scripted, work, **flags) as (working, itself):
            await third.change(name="renamed")
            assert (await ask(third, "not kept waiting")).status == "answered"
            if work is forking:  # also not in its own process, such as a daemon
                assert (await itself.find("renamed")).record.id == third.record.id
        await working
        assert (await texts(await client.find("new")))[0].endswith("write t")


async def test_a_fork_has_the_thread_as_it_is_when_the_fork_is_stored(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        old = await client.thread("t", cwd=scripted.work)
        await rounds(old, voice, 2)
        async with reading(scripted, forking) as (working, _):
            await old.edit((await old.turns())[2].id, "u77z, corrected")
            await true_turn(old, voice)
        made = await working
        new = await client.find("new")
        assert made.rounds == 3 and await texts(new) == await texts(old)
        assert (await true_turn(new, voice)).session_resumed
        assert (await true_turn(old, voice)).session_resumed


async def test_a_session_that_was_deleted_before_the_fork_is_stored_is_not_borrowed(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        old = await client.thread("t", cwd=scripted.work)
        await rounds(old, voice, 2)
        first = scripted.session_files()[0].stem
        scripted.fault({"do": "reject", "on": "resume"})
        async with reading(scripted, lambda client: fork(client.engine, "t", "new", at_round=1)) as (working, _):
            assert (await true_turn(old, voice)).reason == "rejected"  # the turns of the fork do not change
        scripted.fault()
        await working
        pins = await client.engine.store.call(lambda store: store.pins.of_thread(working.result().threads[0].id))
        assert first not in [pin.session_id for pin in pins]
        assert not (await true_turn(await client.find("new"), voice)).session_resumed


async def test_a_fork_of_a_pair_has_the_pair_as_it_is_when_the_fork_is_stored(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=9)
    async with scripted.open() as client:
        old = await carried_out(client, scripted, name="maze", max_rounds=1)
        async with reading(scripted, lambda client: fork(client.engine, "maze", "new")) as (working, _):
            gone_on = await resumed(client, old.pair, "u90z One more.", more_rounds=1)
            assert gone_on.pair.number == 2
        assert (await working).rounds == 2
        new = await client.pairs.find(await client.pairs.resolve("new"))
        assert [each.result for each in new.rounds] == [each.result for each in gone_on.rounds]
        for pair_part in couple.requests:
            assert await turns(client, new.pair, pair_part) == await turns(client, old.pair, pair_part)


async def test_a_merge_has_both_threads_as_they_are_when_it_is_stored(scripted: Stage) -> None:
    async with scripted.open() as client:
        await two_threads(client, scripted)
        async with reading(scripted, merging) as (working, _):
            late = {"file_path": str(scripted.work / "late"), "content": "late"}
            scripted.api.script.extend([ToolUse("Write", late), Text("late is written")])
            await ask(await client.find("other"), "write late")
        assert [file.path for file in (await working).files] == ["late", "other", "t"]
        assert [text.split("\n")[-1] for text in (await texts(await client.find("new")))[:-1]] == [
            *("write t", "t is written", "write other", "other is written", "write late", "late is written")
        ]


async def test_a_merge_is_refused_when_a_run_has_started(scripted: Stage) -> None:
    async with scripted.open() as client:
        await two_threads(client, scripted)
        async with reading(scripted, merging) as (working, _):
            run = await (await client.find("other")).ask("!hang start")
            await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        with pytest.raises(Busy):
            await working
        scripted.api.release()
        await run.reply()
        assert len(await client.threads()) == 2


@pytest.mark.parametrize("work", [forking, merging])
async def test_threads_that_keep_changing_are_refused(scripted: Stage, work: Work) -> None:
    restless = Restless()
    async with scripted.open() as client, scripted.open(adapters=[restless]) as other:
        await two_threads(client, scripted)
        thread, loop = await client.find("t"), asyncio.get_running_loop()
        [_, answer] = await thread.turns()
        happened = []

        def edit() -> None:
            happened.append(thread.edit(answer.id, f"corrected {len(happened)} times"))
            asyncio.run_coroutine_threadsafe(happened[-1], loop).result(60)

        restless.happens = edit
        with pytest.raises(Conflict, match="chang") as refused:
            await work(other)
        assert len(happened) > 1, "it was tried again"
        assert refused.value.hint and refused.value.exit_code == 2
        assert len(await client.threads()) == 2, "and nothing is left of it"
