"""A POST with an `Idempotency-Key` is carried out once, however often it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.server.app import api_routers, http_routes
from clew.server.models.problems import RequestRefused
from clew.server.security.idempotency import CREATION, Creation, Idempotency, creates_something
from clew.testing.stage import MODEL, Stage
from server.daemons import LocalDaemon, ServeProcess, local_daemon

KEY = {"Idempotency-Key": "0b6f-one"}


async def runs(daemon: LocalDaemon) -> list[Any]:
    listed = await daemon.get("/api/runs")
    assert isinstance(listed["items"], list)
    return listed["items"]


async def test_a_request_that_is_sent_again_is_answered_again_and_not_carried_out_again(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    first = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    await daemon.ended(first.json()["id"])
    again = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert [run["prompt"] for run in await runs(daemon)] == ["one"]
    other = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers={"Idempotency-Key": "two"})
    assert other.json()["id"] != first.json()["id"]
    await daemon.ended(other.json()["id"])


async def test_a_key_is_for_one_call_and_one_body(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    await daemon.thread("u")
    first = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    changed = await daemon.http.post("/api/threads/t/runs", json={"prompt": "two"}, headers=KEY)
    assert changed.status_code == 422
    assert changed.json()["detail"] == "Another body was sent with this Idempotency-Key before."
    elsewhere = await daemon.http.post("/api/threads/u/runs", json={"prompt": "one"}, headers=KEY)
    assert elsewhere.json()["id"] != first.json()["id"]
    for run in (first, elsewhere):
        await daemon.ended(run.json()["id"])


async def test_a_second_request_is_refused_while_the_first_is_being_answered(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    ask = lambda: daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)  # noqa: E731
    first, second = await asyncio.gather(ask(), ask())
    assert (first.status_code, second.status_code) == (202, 409)
    assert second.json()["detail"] == "The first request with this Idempotency-Key is still being answered."
    await daemon.ended(first.json()["id"])
    assert len(await runs(daemon)) == 1


async def test_a_refused_request_may_be_sent_again(daemon: LocalDaemon) -> None:
    refused = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert refused.status_code == 404
    await daemon.thread("t")
    asked = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert asked.status_code == 202
    await daemon.ended(asked.json()["id"])


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "ä"])
async def test_an_invalid_key_is_refused(daemon: LocalDaemon, key: str) -> None:
    headers = {"Idempotency-Key": key.encode()}
    answer = await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "more"), [("/api/threads", {"name": "t"}), ("/api/jobs", {"prompt": "one"})], ids=["thread", "job"]
)
async def test_threads_and_jobs_are_created_once_also_over_a_restart(
    scripted: Stage, path: str, more: dict[str, str]
) -> None:
    body = {"cwd": str(scripted.work), "model": MODEL, **more}
    async with local_daemon(scripted) as daemon:
        first = await daemon.http.post(path, json=body, headers=KEY)
    async with local_daemon(scripted) as daemon:
        again = await daemon.http.post(path, json=body, headers=KEY)
        assert (first.status_code, again.status_code) == (201, 201)
        assert (again.content, again.headers["location"]) == (first.content, first.headers["location"])
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await daemon.get(path))["items"]) == 1


async def test_a_daemon_that_died_in_between_has_not_asked_twice(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    """It is killed after the prompt is stored and before the answer is sent."""
    daemon = start_daemon(scripted, CLEW_FAULT="prompt_stored")
    await daemon.thread("t")
    with pytest.raises(httpx.TransportError):
        await daemon.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    daemon.process.wait()
    [left] = [run.id for run in await left_in(scripted)]
    daemon.restart(CLEW_FAULT="")
    async with daemon.client() as http:
        daemon.http = http
        again = await http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
        assert (again.status_code, again.json()["id"]) == (202, left)
        await daemon.ended(left)
        assert [run["id"] for run in await runs(daemon)] == [left]


async def left_in(stage: Stage) -> list[Any]:
    async with stage.open() as client:
        return list(await client.runs())


@pytest.mark.parametrize(("path", "tried_again"), [("/api/threads", True), ("/api/reviews", False)])
async def test_an_interrupted_request_is_retried_only_where_it_creates_the_same(
    scripted: Stage, path: str, tried_again: bool
) -> None:
    made: list[Creation] = []

    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        made.append(scope[CREATION])
        await Response(status_code=500)(scope, receive, send)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    headers = [(b"idempotency-key", b"one")]
    scope: Scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    async with scripted.open() as client:
        once = Idempotency(fails, client, "caller", creates_something(http_routes(api_routers())))
        await once(dict(scope), receive, send)
        if tried_again:
            await once(dict(scope), receive, send)
            assert [each.is_retry for each in made] == [False, True]
            assert made[0].id == made[1].id
        else:
            with pytest.raises(RequestRefused, match="was interrupted; it may have been carried out") as refused:
                await once(dict(scope), receive, send)
            assert (refused.value.status, len(made)) == (409, 1)
