"""Files of schema 18 (`files/`), as they were written then: an export, an archive and a remote of the same two threads.

Whatever changes in the code that writes them, these must still be read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from pathlib import Path

import pytest

from clew.engine.engine import Engine
from clew.hosts.transfer.archives import Archives
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import open_remote
from clew.hosts.transfer.remote.sync import find_manifest, pull
from clew.store.store import Store
from transfer.samples import engine_on, fill, fill_pair

FILES = Path(__file__).parent / "files"


async def from_export(engine: Engine, name: str, folder: Path) -> None:
    await import_thread(engine, read_export((FILES / f"{name}.clew").read_bytes()), cwd=str(folder))


async def from_archive(engine: Engine, name: str, folder: Path) -> None:
    await Archives(engine, folder / "archive").restore(str(FILES / f"{name}.json"))


async def from_remote(engine: Engine, name: str, folder: Path) -> None:
    remote = await open_remote(ObjectStore(f"file://{FILES}/remote"), RemoteKeys(), to_push=False)
    theirs = await find_manifest(engine, await remote.manifests(), name)
    await pull(engine, remote, theirs, Archives(engine, folder / "archive"), cwd=str(folder))


@pytest.mark.process
@pytest.mark.parametrize("read", [from_export, from_archive, from_remote])
async def test_what_was_written_at_schema_18_is_still_read(
    tmp_path: Path, read: Callable[[Engine, str, Path], Awaitable[None]]
) -> None:
    written, here = engine_on(tmp_path / "written.db"), engine_on(tmp_path / "here.db")
    await written.store.call(fill)
    await written.store.call(fill_pair)
    for name in ("maze", "maze-worker"):
        await read(here, name, tmp_path)

    def said(store: Store) -> list[object]:
        threads = ("thread-1", "instructor", "worker")
        return [
            [store.turns.all(thread) for thread in threads],
            store.turns.revisions("turn-0"),
            store.events.of_run("run-1"),
            [pin.absorbed for pin in store.pins.of_thread("thread-1")],
            [(job.id, job.prompt) for job in store.jobs.newest()],
            store.reviews.round_diff("2026-01-02-001", 1),
            store.reviews.round_files("2026-01-02-001", 1),
            list(map(attrgetter("key"), store.hooks.keys())),
            store.pairs.rounds("pair-1"),
        ]

    assert await here.store.call(said) == await written.store.call(said)
    assert await here.store.call(lambda store: store.check()) == []
    for engine in (written, here):
        await engine.close()
