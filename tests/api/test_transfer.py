"""Exports, imports, remotes and archives in Python: results, and a cancel that leaves nothing half done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.api import archives, exports, remotes
from clew.api.archives import CleanOptions
from clew.api.client import Client
from clew.api.exports import ExportOptions, ImportOptions
from clew.api.operations import Operation, OperationStatus
from clew.api.remotes import PullOptions, PushOptions, RemoteOptions
from clew.errors import Cancelled, Conflict, NotFound, UsageError
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import ImportResult, import_thread
from clew.testing.store_contract.samples import a_thread, a_turn


async def put(client: Client, folder: Path, *names: str, text: str = "hello") -> None:
    def create(store: Any) -> None:
        for name in names:
            store.threads.create(a_thread(f"id-{name}", name, cwd=str(folder)))
            store.turns.add(f"id-{name}", a_turn(f"turn-{name}", text=text))

    await client.engine.store.call(create)


async def names(client: Client) -> list[str]:
    return sorted(thread.record.name for thread in await client.threads())


async def cancelled_at(operation: Operation[Any], words: str) -> OperationStatus:
    """Cancels it when it reports this, and waits for its end."""
    async for event in operation:
        if words in event.message:
            operation.cancel()
    return operation.status


@pytest.mark.process  # git says where the directory's repository is
async def test_an_export_is_a_file_that_can_be_imported(tmp_path: Path) -> None:
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, "t")
        exported = await exports.export(client, "t", ExportOptions())
        assert (exported.name, exported.thread.threads, exported.signature) == ("t.clew", ("t",), None)
        made = await exports.import_file(client, exported.content, ImportOptions(cwd=str(tmp_path), name="copy"))
        assert ([thread.name for thread in made.threads], made.renewed) == (["copy"], True)
        with pytest.raises(Conflict):
            await exports.import_file(client, exported.content, ImportOptions(cwd=str(tmp_path), name="copy"))
        with pytest.raises(NotFound):
            await exports.export(client, "nobody", ExportOptions())
        with pytest.raises(UsageError, match="two ways to encrypt"):
            exports.export(client, "t", ExportOptions(passphrase="a", recipients=("b",)))


async def test_every_thread_of_a_push_reports_which_of_how_many_it_is(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/remote"
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, "one", "two")
        operation = remotes.push(client, PushOptions(url=url, threads=("one", "two")))
        events = [event async for event in operation if event.kind == "progress"]
        seen = [(event.data["thread"], event.data["number"], event.data["of"]) for event in events if event.data]
        assert list(dict.fromkeys(seen)) == [("one", 1, 2), ("two", 2, 2)]
        assert [event for event in events if event.done is not None and event.done == event.total]
        there = await remotes.threads(client, RemoteOptions(url=url))
        assert [each.name for each in there.threads] == ["one", "two"]
        tried = await remotes.pull(client, PullOptions(url=url, threads=("two",), cwd=str(tmp_path), dry_run=True))
        assert tried.to_shape().to_json()["threads"][0]["state"] == "unchanged"
        with pytest.raises(UsageError, match="No remote was named"):
            remotes.push(client, PushOptions(threads=("one",)))


@pytest.mark.parametrize("words", ["reading", "encrypting"])
async def test_a_cancelled_export_made_nothing(tmp_path: Path, words: str) -> None:
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, "t")
        operation = exports.export(client, "t", ExportOptions(passphrase="correct horse"))
        assert await cancelled_at(operation, words) is OperationStatus.CANCELLED
        assert (operation.file, operation.result) == (None, None)
        with pytest.raises(Cancelled):
            await operation


@pytest.mark.process  # git says where the directory's repository is
async def test_a_cancel_during_the_transaction_of_an_import_comes_too_late(tmp_path: Path) -> None:
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, "t")
        content = (await exports.export(client, "t", ExportOptions())).content
        loop, cancel = asyncio.get_running_loop(), list[Any]()

        def cancel_now(_store: Any, _made: ImportResult) -> None:
            loop.call_soon_threadsafe(cancel[0])

        thread = read_export(content)
        task = asyncio.ensure_future(
            import_thread(client.engine, thread, cwd=str(tmp_path), name="copy", then=cancel_now)
        )
        cancel.append(task.cancel)
        made = await task
        assert (made.threads[0].name, await names(client)) == ("copy", ["copy", "t"])


async def test_a_cancelled_push_of_several_threads_stops_before_the_next_one(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/remote"
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, *(f"t{number}" for number in range(20)))
        operation = remotes.push(client, PushOptions(url=url, everything=True))
        assert await cancelled_at(operation, "reading t1") is OperationStatus.CANCELLED
        there = await remotes.threads(client, RemoteOptions(url=url))
        assert len(there.threads) < 20 and not there.problems
        assert not list((tmp_path / "remote").rglob("*#*"))
        whole = await remotes.push(client, PushOptions(url=url, everything=True))
        assert len(whole.threads) == 20 and not any(isinstance(it, UsageError) for _, it in whole.threads)


async def test_a_clean_up_reports_each_thread_before_it_ends(tmp_path: Path) -> None:
    async with clew.open(tmp_path / "store") as client:
        await put(client, tmp_path, "one", "two")  # the samples were used long ago
        may_use = CleanOptions(older_than_s=60, may_use=lambda thread: thread.name == "one")
        operation = archives.clean(client, may_use)
        events = [(event.kind, event.message) async for event in operation]
        assert events == [("progress", "archived one"), ("ended", "")]
        assert await names(client) == ["two"]
        restored = await archives.restore(client, "one")
        assert (restored.was, await names(client)) == ("one", ["one", "two"])
        with pytest.raises(NotFound):
            await archives.restore(client, "nobody")
        with pytest.raises(UsageError):
            archives.clean(client, CleanOptions(kind="chat"))
