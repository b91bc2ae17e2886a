"""A long backlog on PostgreSQL and four workers: jobs per second, how evenly they are spread, and what a scan costs.

Real workers (`clew work`) run one agent each: four on two cores. The backlog consists of copies of one submitted job,
which the database itself makes. It is not worked off: the measurement waits for some hundred jobs, in rounds, because
the speed of a shared machine changes within seconds. A scan is the query with which every worker finds its next jobs;
it is timed here, on the same database, while the workers run.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg

from bench.jobs import submit, workers
from bench.report import Check, Column, Result, Table
from bench.timing import Sample, tell
from clew.api.client import Client
from clew.store.store import Store
from clew.store.tables.jobs import EXTRA_CANDIDATES
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage

WORKERS = 4
AT_ONCE = 1  # four agents on two cores
PROMPT = "!say x"
ROUNDS = 5
LIMIT_S = 600.0
POLL_S = 0.5  # not more often, because each poll counts 50,000 rows
SCANNED = AT_ONCE  # a scan looks for as many jobs as a worker can run


def measure(quick: bool) -> Result:
    backlog, count = (2_000, 40) if quick else (50_000, 1_000)
    tell(f"  {backlog:,} jobs, {WORKERS} workers")
    rates, share, scan, worst = asyncio.run(_measured(backlog, count))
    rate = statistics.median(rates)
    columns = (
        Column("backlog", ","),
        Column("jobs a second, median", ".1f"),
        Column("worst round", ".1f"),
        Column("best round", ".1f"),
        Column("busiest worker ÷ even share", ".2f"),
        Column("scan, median ms", ".1f"),
        Column("scan, worst ms", ".1f"),
    )
    checks = (
        Check("seconds that 25 jobs take", 25 / rate, 1.0, timed=True),
        Check("jobs of the busiest worker ÷ its even share", share, 1.5, timed=False),
        Check("a scan's median, ms", scan, 20.0, timed=True),
    )
    title = f"{WORKERS} workers, an agent each, on PostgreSQL: {count:,} jobs of a backlog, in {ROUNDS} rounds"
    return Result(
        "backlog", [Table(title, columns, [(backlog, rate, min(rates), max(rates), share, scan, worst)])], checks
    )


async def _measured(backlog: int, count: int) -> tuple[list[float], float, float, float]:
    with tempfile.TemporaryDirectory() as name, ModelApi() as api:
        folder = Path(name)
        (folder / "work").mkdir()
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        with PostgresServer(folder / "postgres") as server:
            url = server.new_database()
            async with stage.open(environ={"CLEW_STORE": url}) as client:
                await submit(stage, client, PROMPT)
                await asyncio.to_thread(copy_job, url, backlog - 1)
                async with workers(stage, {"CLEW_STORE": url}, WORKERS, AT_ONCE):
                    await _until_warm(client, url)
                    return await _watched(client, url, count)


def copy_job(url: str, times: int) -> None:
    """Copies the only job in the database. Each copy has a thread of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table, others in (
            ("threads", {"id": "md5('t' || n)", "name": "'copy-' || n"}),
            ("jobs", {"id": "md5('j' || n)", "key": "md5('j' || n)", "thread_id": "md5('t' || n)", "number": "1 + n"}),
        ):
            found = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'",
                (table,),
            )
            names = [str(row[0]) for row in found]
            values = ", ".join(others.get(column, f"one.{column}") for column in names)
            connection.execute(  # type: ignore[call-overload, unused-ignore]
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                f"FROM (SELECT * FROM {table} LIMIT 1) AS one, generate_series(1, {times}) AS n"
            )
        connection.execute("ANALYZE")


def done(connection: psycopg.Connection[tuple[str, int]]) -> Counter[str]:
    """How many jobs each worker has finished."""
    counted = "SELECT worker, count(*) FROM jobs WHERE worker IS NOT NULL AND status = 'succeeded' GROUP BY worker"
    return Counter(dict(connection.execute(counted).fetchall()))


async def _until_warm(client: Client, url: str) -> None:
    """Waits until every worker has finished some jobs."""
    with psycopg.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(LIMIT_S):
            while len([n for n in done(connection).values() if n >= AT_ONCE]) < WORKERS:
                await asyncio.sleep(POLL_S)


async def _watched(client: Client, url: str, count: int) -> tuple[list[float], float, float, float]:
    scans: list[float] = []
    rates: list[float] = []
    with psycopg.connect(url, autocommit=True) as connection:
        first = done(connection)
        for _ in range(ROUNDS):
            before, began = done(connection), time.monotonic()
            async with asyncio.timeout(LIMIT_S):
                while (now := done(connection) - before).total() < count / ROUNDS:
                    scans.append(await client.engine.store.call(_scan))
                    await asyncio.sleep(POLL_S)
            rates.append(now.total() / (time.monotonic() - began))
        all_ = done(connection) - first
    share = max(all_.values()) / (all_.total() / WORKERS)
    return rates, share, Sample.of(scans).median * 1000, max(scans) * 1000


def _scan(store: Store) -> float:
    began = time.perf_counter()
    found = store.jobs.claimable(time.time(), SCANNED + EXTRA_CANDIDATES)
    took = time.perf_counter() - began
    assert len(found) == SCANNED + EXTRA_CANDIDATES
    return took
