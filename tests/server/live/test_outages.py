"""The database stops while clients follow events: a line in the log, a proper end of the stream, and no event twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from clew.core.ids import RunId
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.events import RunEnded, RunQueued
from clew.core.runs.run import Owner, RunStatus
from clew.engine.process.family import started_at
from clew.store import open_store
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from server.daemons import ServeProcess

pytestmark = pytest.mark.rest


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        yield server


def run_of_another_process(url: str, run_id: str) -> str:
    """A run that waits in another live process: the daemon can only read its events from the store."""
    with open_store(url) as store, store.transaction():
        run = store.runs.require(run_id)
        assert run.owner is not None
        ours = Owner(run.owner.host, os.getpid(), started_at(os.getpid()) or 0.0)
        other = RunId("of-another-process")
        store.runs.create(replace(run, id=other, status=RunStatus.QUEUED, owner=ours, ended_at=None))
        store.events.append(other, [(1, 1.0, RunQueued("thread"))])
    return other


async def test_clients_are_disconnected_properly_and_reconnect_when_the_database_is_back(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], own: PostgresServer
) -> None:
    url = own.new_store()
    daemon = start_daemon(scripted, CLEW_STORE=url)
    await daemon.thread("t")
    run_id = run_of_another_process(url, (await daemon.ask("t", "hello"))["id"])
    address = f"ws://127.0.0.1:{daemon.port}/api/live"
    headers = {"Authorization": f"Bearer {daemon.token}"}
    heard: list[Any] = []
    async for event in daemon.events(run_id):  # this would raise if the stream did not end properly
        heard.append(event["seq"])
        own.stop()
    assert heard == [1]
    async with websockets.connect(address, additional_headers=headers, proxy=None) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    unhealthy = await daemon.http.get("/healthz")
    assert unhealthy.status_code == 503
    assert unhealthy.json()["detail"] == "The store cannot be used: it is unreachable."
    own.start()
    assert (await daemon.http.get("/healthz")).status_code == 200
    with open_store(url) as store, store.transaction():
        store.runs.update(run_id, status=RunStatus.CANCELLED, outcome=Outcome.CANCELLED)
        store.events.append(run_id, [(2, 2.0, RunEnded(RunStatus.CANCELLED, Outcome.CANCELLED))])
    assert [event["seq"] async for event in daemon.events(run_id, after=1)] == [2]
    assert "Traceback" not in daemon.log and "unexpected" not in daemon.log, daemon.log
    assert "File " not in daemon.log and "ASGI" not in daemon.log, daemon.log
    assert daemon.log.count("an event stream is closed") == 1
    assert daemon.log.count("a page is disconnected") == 1
