"""Machines that share a PostgreSQL store need not agree on the time: leases and heartbeats use the server's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from clew.api.client import Client
from clew.api.jobs import workers
from clew.core.record import replace
from clew.core.runs.run import RunStatus
from clew.engine.leases import slot_prefix, thread_key
from clew.store.records import run_row
from clew.store.rows.jobs import StoredWorker
from clew.store.store import Store
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage

pytestmark = pytest.mark.rest

HOUR_S = 3600.0
SKEWS_S = [45.0, 5 * HOUR_S, -45.0, -5 * HOUR_S]


@pytest.fixture
def shared(postgres: PostgresServer) -> Iterator[dict[str, str]]:
    yield {"CLEW_STORE": postgres.new_store()}


def move(client: Client, host: str, skew_s: float) -> None:
    """Moves the client to another machine, whose clock is wrong by `skew_s`."""
    context = client.engine.context
    clock = context.clock
    elsewhere = replace(context.owner, host=host)
    client.engine.context = replace(context, owner=elsewhere, clock=lambda: clock() + skew_s)


@pytest.mark.parametrize("skew_s", SKEWS_S)
async def test_a_process_with_a_heartbeat_is_not_declared_dead(
    scripted: Stage, shared: dict[str, str], skew_s: float
) -> None:
    async with scripted.open(environ=shared) as client, scripted.open(environ=shared) as other:
        move(other, "elsewhere", skew_s)
        client.engine.settings = replace(client.engine.settings, lease_s=3.0)
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!hang text so far")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        queued = await thread.ask("second")
        await client.engine.store.call(lambda store: store.workers.save(worker_of(store, client)))
        key, prefix = thread_key(thread.record.id), slot_prefix(client.engine.context.owner)
        for _ in range(3):
            before = await client.engine.store.call(lambda store: store.leases.find(key))
            assert before is not None
            assert await other.engine.recover() == []
            assert await other.gone([await other.run(run.id), await other.run(queued.id)]) == set()
            assert [worker.id for worker in await workers(other)] == ["one"]
            assert await other.engine.store.call(lambda store: len(store.leases.under(prefix))) == 1
            while (now := await client.engine.store.call(lambda store: store.leases.find(key))) == before:
                await asyncio.sleep(0.05)  # until its next heartbeat
            assert now is not None and now.token == before.token
        scripted.api.release()
        assert (await run.reply()).status == "answered"
        assert (await queued.reply()).status == "answered"


def worker_of(store: Store, client: Client) -> StoredWorker:
    now = store.leases.time(client.engine.context.clock)
    return StoredWorker("one", client.engine.context.owner, 1, now, now, None)


@pytest.mark.parametrize("skew_s", SKEWS_S)
async def test_a_dead_machines_run_is_recovered_when_its_lease_has_expired(
    scripted: Stage, shared: dict[str, str], skew_s: float
) -> None:
    """Whatever the clocks of the dead machine and of the recovering machine say."""
    async with scripted.open(environ=shared) as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("one")
        assert (await run.reply()).status == "answered"
        dead = replace(client.engine.context.owner, host="dead")

        def die(store: Store) -> None:
            """Leaves the run as if its machine had just lost power."""
            with store.transaction():
                run_now = store.runs.require(run.id)
                store.database.do(
                    "write_run", **run_row(replace(run_now, status=RunStatus.RUNNING, owner=dead, ended_at=None))
                )
                store.database._execute(store.database.session(), "DELETE FROM events WHERE kind = 'run_ended'")
            now = store.leases.time(lambda: 0.0)
            terms = {"owner": dead, "run_id": run.id, "now": now, "ttl_s": 1.0}
            store.leases.acquire(thread_key(thread.record.id), token="dead", **terms)

        await client.engine.store.call(die)
        move(client, "elsewhere", skew_s)
        assert await client.engine.recover() == [], "it may be alive still"
        while await client.engine.store.call(lambda store: is_held(store, thread.record.id)):
            await asyncio.sleep(0.05)
        [ended] = await client.engine.recover()
        assert (ended.id, ended.status) == (run.id, RunStatus.INTERRUPTED)
        assert (await (await thread.ask("two")).reply()).status == "answered"


def is_held(store: Store, thread_id: str) -> bool:
    lease = store.leases.find(f"thread/{thread_id}")
    return lease is not None and store.leases.time(lambda: 0.0) <= lease.expires_at
