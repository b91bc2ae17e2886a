"""Operations over HTTP: their progress, their result, their file, and a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

from clew.api.operations import Operation, OperationFile, Report
from clew.api.wire.shape import Shape
from server.daemons import LocalDaemon, parsed


class Count(Shape):
    count: int


class Work:
    """Work that waits, so that a test can look at it while it runs."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, operation: Operation[int], report: Report) -> int:
        report.progress("counting", 1, 2)
        await self.go.wait()
        operation.file = OperationFile("tür 1.txt", "text/plain", b"content")
        return 2


def begun(daemon: LocalDaemon, work: Work) -> Operation[int]:
    assert daemon.shared is not None
    return daemon.shared.client.operations.start("count", work, Count, subjects=("a",))


async def sse(daemon: LocalDaemon, operation: Operation[int], after: int = 0) -> list[Any]:
    headers = {"Last-Event-ID": str(after)} if after else {}
    async with daemon.http.stream("GET", f"/api/operations/{operation.id}/events", headers=headers) as response:
        assert response.status_code == 200
        return [event async for event in parsed(response.aiter_lines())]


async def test_an_operation_is_shown_while_it_runs_and_when_it_is_done(daemon: LocalDaemon) -> None:
    work = Work()
    operation = begun(daemon, work)
    address = f"/api/operations/{operation.id}"
    following = asyncio.create_task(sse(daemon, operation))
    while (shown := await daemon.get(address))["last_seq"] == 0:
        await asyncio.sleep(0)
    assert (shown["status"], shown["message"], shown["result"], shown["file"]) == ("running", "counting", None, None)
    assert (await daemon.http.get(f"{address}/file")).status_code == 409
    work.go.set()
    assert [(event["kind"], event["done"], event["total"]) for event in await following] == [
        ("progress", 1, 2),
        ("ended", None, None),
    ]
    shown = await daemon.get(address)
    assert (shown["status"], shown["result"], shown["subjects"]) == ("done", {"count": 2}, ["a"])
    assert [event["seq"] for event in await sse(daemon, operation, after=1)] == [2]
    assert [each["id"] for each in (await daemon.get("/api/operations"))["items"]] == [operation.id]
    file = await daemon.http.get(shown["file"]["address"])
    assert (file.content, file.headers["content-type"]) == (b"content", "application/octet-stream")
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''t%C3%BCr%201.txt"
    assert (await daemon.http.post(f"{address}/cancel", json={})).status_code == 409


async def test_a_cancelled_operation_says_so_and_has_no_file(daemon: LocalDaemon) -> None:
    operation = begun(daemon, Work())
    await daemon.post(f"/api/operations/{operation.id}/cancel")
    assert (await sse(daemon, operation))[-1]["kind"] == "ended"
    shown = await daemon.get(f"/api/operations/{operation.id}")
    assert (shown["status"], shown["error"]["code"]) == ("cancelled", "cancelled")
    assert (await daemon.http.get(f"/api/operations/{operation.id}/file")).status_code == 404


async def test_an_unknown_operation_and_a_missing_token_are_refused(daemon: LocalDaemon) -> None:
    for path in ("", "/events", "/file"):
        response = await daemon.http.get(f"/api/operations/none{path}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
        refused = await daemon.http.get(f"/api/operations/none{path}", headers={"Authorization": ""})
        assert refused.status_code == 401
    assert (await daemon.http.get("/api/operations", headers={"Authorization": ""})).status_code == 401
