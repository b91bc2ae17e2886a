"""Operations: events in order for any number of listeners, a result, and a cancel that leaves nothing half done."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

import clew
from clew.api import operations
from clew.api.operations import Operation, OperationFile, OperationStatus, Report
from clew.api.wire.shape import Shape
from clew.errors import Busy, Cancelled, Conflict, NotFound, UsageError


class Count(Shape):
    count: int


async def test_an_operation_reports_its_progress_and_its_result(tmp_path: Path) -> None:
    async def work(operation: Operation[int], report: Report) -> int:
        report.progress("one", 1, 2, thread="a")
        await asyncio.sleep(0)
        report.warning("careful")
        return 2

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count, subjects=("a",))
        assert operation.is_running
        seen = [(event.seq, event.kind, event.message) async for event in operation]
        assert seen == [(1, "progress", "one"), (2, "warning", "careful"), (3, "ended", "")]
        assert await operation == 2
        shape = operation.to_shape()
        assert (shape.status, shape.result, shape.last_seq, shape.message) == ("done", {"count": 2}, 3, "one")
        assert shape.ended_at is not None
        later = [event.seq async for event in operation.follow(1)]
        assert later == [2, 3]
        assert not operation.cancel()


async def test_listeners_get_each_event_once_while_it_runs(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def work(operation: Operation[int], report: Report) -> int:
        report.progress("begun")
        await go.wait()
        report.progress("almost")
        return 1

    async def listened(operation: Operation[int]) -> list[str]:
        heard = []
        async for event in operation:
            heard.append(event.message or event.kind)
            go.set()
        return heard

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count)
        assert await asyncio.gather(listened(operation), listened(operation)) == [["begun", "almost", "ended"]] * 2


async def test_a_failed_operation_raises_its_error_and_says_it(tmp_path: Path) -> None:
    async def work(operation: Operation[int], report: Report) -> int:
        raise UsageError("That is wrong.", hint="Do this.")

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count)
        with pytest.raises(UsageError, match="That is wrong"):
            await operation
        error = operation.to_shape().error
        assert operation.status is OperationStatus.FAILED
        assert error is not None
        assert error.to_json() == {"code": "usage", "message": "That is wrong.", "hint": "Do this.", "secrets": []}


async def test_a_cancel_stops_the_work_and_a_last_step_is_finished(tmp_path: Path) -> None:
    begun, finished = asyncio.Event(), list[str]()

    async def waits(operation: Operation[int], report: Report) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 1

    async def commits(operation: Operation[int], report: Report) -> int:
        async def write() -> int:
            begun.set()
            await asyncio.sleep(0)
            finished.append("written")
            return 3

        return await operation.finish(write())

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("wait", waits, Count)
        await begun.wait()
        assert operation.cancel()
        with pytest.raises(Cancelled):
            await operation
        assert operation.status is OperationStatus.CANCELLED
        begun.clear()
        operation = client.operations.start("commit", commits, Count)
        await begun.wait()
        assert operation.cancel()
        assert await operation == 3
        assert (operation.status, finished) == (OperationStatus.DONE, ["written"])


async def test_a_second_cancel_and_the_end_of_the_client_do_not_break_a_last_step(tmp_path: Path) -> None:
    begun, go, written = asyncio.Event(), asyncio.Event(), list[str]()

    async def write() -> int:
        begun.set()
        await go.wait()
        written.append("all of it")
        return 3

    async def work(operation: Operation[int], report: Report) -> int:
        return await operation.finish(write())

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("commit", work, Count)
        await begun.wait()
        for _ in range(3):
            assert operation.cancel()
            await asyncio.sleep(0)
        operation.kill()
        asyncio.get_running_loop().call_soon(go.set)
    assert (operation.status, operation.result, written) == (OperationStatus.DONE, 3, ["all of it"])


async def test_a_failed_operation_keeps_nothing_of_its_content(tmp_path: Path) -> None:
    class Content:
        """Stands for a large upload."""

    async def work(operation: Operation[int], report: Report) -> int:
        content = Content()
        seen.append(weakref.ref(content))
        try:
            raise ValueError(content)
        except ValueError as error:
            raise UsageError("That is wrong.") from error

    seen: list[weakref.ref[Content]] = []
    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count)
        with pytest.raises(UsageError):
            await operation
        del operation
        gc.collect()
        assert seen[0]() is None


async def test_an_unexpected_error_ends_the_operation_reaches_its_caller_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(operation: Operation[int], report: Report) -> int:
        raise OSError("a secret text")

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count)
        with pytest.raises(OSError, match="a secret text"):
            await operation
        assert operation.status is OperationStatus.FAILED
    assert "count failed unexpectedly: OSError at " in caplog.text
    assert "a secret text" not in caplog.text


async def test_closing_the_client_cancels_what_runs(tmp_path: Path) -> None:
    async def work(operation: Operation[int], report: Report) -> int:
        await asyncio.Event().wait()
        return 1

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("wait", work, Count)
    assert operation.status is OperationStatus.CANCELLED


async def test_the_number_of_operations_and_the_size_of_their_files_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MAX_RUNNING", 2)
    monkeypatch.setattr(operations, "MAX_KEPT_BYTES", 10)
    go = asyncio.Event()

    async def work(operation: Operation[int], report: Report) -> int:
        await go.wait()
        operation.file = OperationFile("f", "text/plain", b"x" * 8)
        return 1

    async with clew.open(tmp_path) as client:
        first = client.operations.start("make", work, Count, new_id="first")
        second = client.operations.start("make", work, Count)
        with pytest.raises(Busy):
            client.operations.start("make", work, Count)
        go.set()
        await first
        await second
        with pytest.raises(Conflict):
            client.operations.start("make", work, Count, new_id=second.id)
        third = client.operations.start("make", work, Count)
        assert [each.id for each in client.operations.list()] == [third.id, second.id]
        with pytest.raises(NotFound):
            client.operations.find("first")
        await third
