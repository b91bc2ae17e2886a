"""A database that goes away while somebody listens: a line in the log, an end in order, nothing twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from clew.core.events import RunEnded, RunQueued
from clew.core.ids import RunId
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.run import Owner, RunStatus
from clew.engine.processes import started_at
from clew.store import open_store
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from server.house import Served

pytestmark = pytest.mark.rest


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        yield server


def of_another_process(url: str, run_id: str) -> str:
    """A run that waits in a process that is alive: the daemon can only look into the store for its events."""
    with open_store(url) as store, store.transaction():
        run = store.require_run(run_id)
        assert run.owner is not None
        ours = Owner(run.owner.host, os.getpid(), started_at(os.getpid()) or 0.0)
        other = RunId("of-another-process")
        store.create_run(replace(run, id=other, status=RunStatus.QUEUED, owner=ours, ended_at=None))
        store.append_events(other, [(1, 1.0, RunQueued("thread"))])
    return other


async def test_listeners_are_let_go_in_order_and_come_back_when_the_database_does(
    scripted: Stage, serve: Callable[..., Served], own: PostgresServer
) -> None:
    url = own.new_store()
    house = serve(scripted, CLEW_STORE=url)
    await house.thread("t")
    run_id = of_another_process(url, (await house.ask("t", "hello"))["id"])
    address = f"ws://127.0.0.1:{house.port}/api/live"
    headers = {"Authorization": f"Bearer {house.token}"}
    heard: list[Any] = []
    async for event in house.events(run_id):  # ends by itself: a stream that is cut off raises
        heard.append(event["seq"])
        own.stop()
    assert heard == [1]
    async with websockets.connect(address, additional_headers=headers, proxy=None) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    unhealthy = await house.http.get("/healthz")
    assert unhealthy.status_code == 503
    assert unhealthy.json()["detail"] == "The store cannot be used: it is unreachable."
    own.start()
    assert (await house.http.get("/healthz")).status_code == 200
    with open_store(url) as store, store.transaction():
        store.update_run(run_id, status=RunStatus.CANCELLED, outcome=Outcome.CANCELLED)
        store.append_events(run_id, [(2, 2.0, RunEnded(RunStatus.CANCELLED, Outcome.CANCELLED))])
    assert [event["seq"] async for event in house.events(run_id, after=1)] == [2]
    assert "Traceback" not in house.log and "unexpected" not in house.log, house.log
    assert "File " not in house.log and "ASGI" not in house.log, house.log
    assert house.log.count("a stream of events ends early") == 1
    assert house.log.count("a page is let go") == 1
