"""Workers share a backlog: each claims as many jobs as it can run, and finds them without reading the others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clew.core.jobs.job import JobStatus
from clew.core.record import replace
from clew.engine.durable.claims import Claims, WorkerSlot
from clew.engine.storage.async_store import AsyncStore
from clew.store.rows.jobs import StoredWorker
from clew.store.store import Store, open_store
from clew.store.tables.jobs import EXTRA_CANDIDATES
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.samples import OWNER, a_thread
from clew.wiring.engine import STORE_FILE
from jobs.processes import a_job as new_job
from jobs.processes import ended, workers

MANY = 3000


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The file or the address of a new database."""
    if request.param == "sqlite":
        return tmp_path / "clew.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


@pytest.fixture
def store(where: Path | str) -> Iterator[Store]:
    with open_store(where) as store:
        store.threads.create(a_thread())
        yield store


def sign_on(store: Store, *names: str) -> None:
    for name in names:
        store.workers.save(StoredWorker(name, OWNER, 2, 1.0, 1.0, None))


def fill(store: Store, count: int, key: str | None = None, **more: Any) -> None:
    with store.transaction():
        for number in range(count):
            job = a_job(f"{key or 'job'}-{number:05}", **more)
            store.jobs.create(replace(job, key=key) if key else job)


class Shift:
    """A worker's claims, whose jobs end when the gate opens."""

    def __init__(self, where: Path | str, name: str, most: int, opened: ExitStack) -> None:
        self.name = name
        self.done: list[str] = []
        self.gate = asyncio.Event()
        database = AsyncStore(open_store(where))
        opened.callback(database.close)
        self.claims = Claims(database, lambda: 10.0, name, most, self.carry)
        self._database = database

    async def carry(self, job_id: str, _: WorkerSlot) -> None:
        await self.gate.wait()
        self.done.append(job_id)

        def end(store: Store) -> None:
            store.jobs.update(job_id, status=JobStatus.RUNNING, worker=self.name)
            store.jobs.update(job_id, status=JobStatus.SUCCEEDED)

        await self._database.atomically(end)


@pytest.mark.rest
async def test_4_workers_share_40_jobs_and_none_claims_more_than_it_can_run(where: Path | str, store: Store) -> None:
    sign_on(store, *"abcd")
    fill(store, 40)
    with ExitStack() as opened:
        shifts = [Shift(where, name, 2, opened) for name in "abcd"]
        for _ in range(5):
            for shift in shifts:
                shift.gate = asyncio.Event()
                assert await shift.claims.fill(), "there was one for every place"
            assert [len(store.jobs.claimed_by(name)) for name in "abcd"] == [2, 2, 2, 2]
            for shift in shifts:
                shift.gate.set()
            async with asyncio.timeout(60):
                while any(shift.claims.held for shift in shifts):
                    await asyncio.sleep(0.01)
        for shift in shifts:
            shift.gate.set()
            assert not await shift.claims.fill(), "nothing is left"
    everything = [job for shift in shifts for job in shift.done]
    assert len(everything) == len(set(everything)) == 40, "each once"
    assert [len(shift.done) for shift in shifts] == [10, 10, 10, 10]
    assert sorted(shifts[0].done[:2]) == ["job-00000", "job-00001"], "the oldest first"


async def test_a_waiting_job_keeps_its_claim_and_releases_its_slot(where: Path | str, store: Store) -> None:
    sign_on(store, "a")
    fill(store, 2)
    waits, go_on = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def carry(job_id: str, slot: WorkerSlot) -> None:
        if job_id == "job-00000":
            slot.release()
            waits.set()
            await go_on.wait()
            await slot.acquire()
        order.append(job_id)
        if job_id == "job-00001":
            go_on.set()

    database = AsyncStore(open_store(where))
    try:
        claims = Claims(database, lambda: 10.0, "a", 1, carry)
        async with asyncio.timeout(60):
            assert await claims.fill()
            await waits.wait()
            assert store.jobs.claimed_by("a") == ["job-00000"]
            assert await claims.fill()
            await go_on.wait()
            while len(order) < 2:
                await claims.until_one_ends(0.05)
    finally:
        database.close()
    assert order == ["job-00001", "job-00000"]


async def test_a_claim_that_the_worker_does_not_know_is_released_and_a_held_one_is_not(
    where: Path | str, store: Store
) -> None:
    sign_on(store, "a")
    fill(store, 3)
    with ExitStack() as opened:
        shift = Shift(where, "a", 2, opened)
        assert store.jobs.claim("a", 10.0, 1) == ["job-00000"], "as if by a call whose connection broke"
        assert await shift.claims.fill()
        assert store.jobs.claimed_by("a") == ["job-00000", "job-00001", "job-00002"]
        await shift.claims.check()
        assert store.jobs.claimed_by("a") == ["job-00001", "job-00002"]
        await shift.claims.end()


def _beside(store: Store) -> None:
    fill(store, MANY)


def _of_one_key(store: Store) -> None:
    fill(store, MANY, key="k")
    fill(store, EXTRA_CANDIDATES + 2)


def _for_later(store: Store) -> None:
    fill(store, MANY, not_before=1e12)


@pytest.mark.rest
@pytest.mark.parametrize("backlog", [_beside, _of_one_key, _for_later])
def test_a_claim_reads_no_more_rows_than_it_returns_however_long_the_queue_is(
    where: Path | str, store: Store, backlog: Callable[[Store], None]
) -> None:
    backlog(store)
    given = {"now": 10.0, "limit": 2 + EXTRA_CANDIDATES, "own": 1}
    query = store.database._sql["claimable_jobs"]
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as connection:
            plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", given)]
        reads = [step for step in plan if "job_line" in step]
        assert len(reads) == 4
        assert all("USING INDEX job_line_ready" in step or "USING INDEX job_line_later" in step for step in reads), plan
    else:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("ANALYZE")
            row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}".encode(), given).fetchone()
        assert row is not None
        assert sum(_rows_read(json.loads(json.dumps(row[0]))[0]["Plan"])) <= 4 * given["limit"]


def _rows_read(node: dict[str, Any]) -> Iterator[float]:
    """The rows that each step read from a table or an index, including those that it discarded."""
    if "Relation Name" in node:
        yield (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    for inner in node.get("Plans", ()):
        yield from _rows_read(inner)


@pytest.mark.rest
async def test_4_worker_processes_each_claim_as_many_jobs_as_they_can_run(scripted: Stage) -> None:
    """Each process runs 3 jobs at once. Every agent hangs, so a job ends only when it is cancelled."""
    async with scripted.open() as client:
        jobs = [await client.jobs.submit(new_job(scripted, "!hang text so far")) for _ in range(20)]
        async with workers(scripted, {}, 4):
            async with asyncio.timeout(120):
                while len(claimed := _claims(scripted)) < 12:
                    await asyncio.sleep(0.1)
            assert sorted(Counter(claimed.values()).values()) == [3, 3, 3, 3]
            assert sorted(claimed) == sorted(job.id for job in jobs[:12]), "the oldest"
            for job in reversed(jobs):  # the newest first, so that no slot is free while a job could take it
                await client.jobs.cancel(job.id)
            assert {(await ended(client, job)).status for job in jobs} == {JobStatus.CANCELLED}
    assert _claims(scripted) == {}


def _claims(stage: Stage) -> dict[str, str]:
    with closing(sqlite3.connect(stage.clew_home / STORE_FILE)) as connection:
        found = connection.execute("SELECT job_id, claimed_by FROM job_line WHERE claimed_by IS NOT NULL")
        return dict(found.fetchall())
