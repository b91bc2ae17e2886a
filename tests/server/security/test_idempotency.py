"""A POST with an `Idempotency-Key` is carried out once, however often it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.server.idempotency import MADE, Idempotency, Made
from clew.server.problems import Refusal
from clew.testing.stage import MODEL, Stage
from server.house import House, Served, house_of

KEY = {"Idempotency-Key": "0b6f-one"}


async def runs(house: House) -> list[Any]:
    listed = await house.get("/api/runs")
    assert isinstance(listed["items"], list)
    return listed["items"]


async def test_sent_again_it_is_answered_again_and_not_asked_again(house: House) -> None:
    await house.thread("t")
    first = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    await house.ended(first.json()["id"])
    again = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert [run["prompt"] for run in await runs(house)] == ["one"]
    other = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers={"Idempotency-Key": "two"})
    assert other.json()["id"] != first.json()["id"]
    await house.ended(other.json()["id"])


async def test_a_key_is_of_one_call_and_one_body(house: House) -> None:
    await house.thread("t")
    await house.thread("u")
    first = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    changed = await house.http.post("/api/threads/t/runs", json={"prompt": "two"}, headers=KEY)
    assert changed.status_code == 422
    assert changed.json()["detail"] == "Another body was sent with this Idempotency-Key before."
    elsewhere = await house.http.post("/api/threads/u/runs", json={"prompt": "one"}, headers=KEY)
    assert elsewhere.json()["id"] != first.json()["id"]
    for run in (first, elsewhere):
        await house.ended(run.json()["id"])


async def test_while_the_first_is_being_answered_the_second_is_told_so(house: House) -> None:
    await house.thread("t")
    ask = lambda: house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)  # noqa: E731
    first, second = await asyncio.gather(ask(), ask())
    assert (first.status_code, second.status_code) == (202, 409)
    assert second.json()["detail"] == "The first request with this Idempotency-Key is still being answered."
    await house.ended(first.json()["id"])
    assert len(await runs(house)) == 1


async def test_what_was_refused_may_be_sent_again(house: House) -> None:
    refused = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert refused.status_code == 404
    await house.thread("t")
    asked = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    assert asked.status_code == 202
    await house.ended(asked.json()["id"])


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "ä"])
async def test_what_is_no_key_is_refused(house: House, key: str) -> None:
    headers = {"Idempotency-Key": key.encode()}
    answer = await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "more"), [("/api/threads", {"name": "t"}), ("/api/jobs", {"prompt": "one"})], ids=["thread", "job"]
)
async def test_threads_and_jobs_are_made_once_also_over_a_restart(
    scripted: Stage, path: str, more: dict[str, str]
) -> None:
    body = {"cwd": str(scripted.work), "model": MODEL, **more}
    async with house_of(scripted) as house:
        first = await house.http.post(path, json=body, headers=KEY)
    async with house_of(scripted) as house:
        again = await house.http.post(path, json=body, headers=KEY)
        assert (first.status_code, again.status_code) == (201, 201)
        assert (again.content, again.headers["location"]) == (first.content, first.headers["location"])
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await house.get(path))["items"]) == 1


async def test_a_daemon_that_died_in_between_has_not_asked_twice(scripted: Stage, serve: Callable[..., Served]) -> None:
    """It is killed when the prompt is stored and before anybody is told."""
    house = serve(scripted, CLEW_FAULT="prompt_stored")
    await house.thread("t")
    with pytest.raises(httpx.TransportError):
        await house.http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
    house.process.wait()
    [left] = [run.id for run in await left_in(scripted)]
    house.restart(CLEW_FAULT="")
    async with house.client() as http:
        house.http = http
        again = await http.post("/api/threads/t/runs", json={"prompt": "one"}, headers=KEY)
        assert (again.status_code, again.json()["id"]) == (202, left)
        await house.ended(left)
        assert [run["id"] for run in await runs(house)] == [left]


async def left_in(stage: Stage) -> list[Any]:
    async with stage.open() as client:
        return list(await client.runs())


@pytest.mark.parametrize(("path", "tried_again"), [("/api/threads", True), ("/api/reviews", False)])
async def test_a_request_that_broke_off_is_tried_again_only_where_it_makes_the_same(
    scripted: Stage, path: str, tried_again: bool
) -> None:
    made: list[Made] = []

    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        made.append(scope[MADE])
        await Response(status_code=500)(scope, receive, send)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    headers = [(b"idempotency-key", b"one")]
    scope: Scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    async with scripted.open() as client:
        once = Idempotency(fails, client, "caller")
        await once(dict(scope), receive, send)
        if tried_again:
            await once(dict(scope), receive, send)
            assert [each.again for each in made] == [False, True]
            assert made[0].id == made[1].id
        else:
            with pytest.raises(Refusal, match="broke off; it may have been carried out") as refused:
                await once(dict(scope), receive, send)
            assert (refused.value.status, len(made)) == (409, 1)
