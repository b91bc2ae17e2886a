"""Ctrl-C cancels the operation of a command; one that cannot stop any more is reported as done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import clew
from clew.api.operations import Operation, Report
from clew.api.wire.shape import Shape
from clew.cli.ui.progress import followed, is_interrupted


class Count(Shape):
    count: int


@pytest.mark.parametrize("can_stop", [True, False])
async def test_ctrl_c_waits_until_the_operation_has_stopped(tmp_path: Path, can_stop: bool) -> None:
    begun, go, seen = asyncio.Event(), asyncio.Event(), list[str]()

    async def work(operation: Operation[int], report: Report) -> int:
        report.progress("begun")
        begun.set()
        if can_stop:
            await asyncio.Event().wait()
        await operation.finish(go.wait())
        report.progress("finished")
        return 3

    async def command(operation: Operation[int]) -> tuple[int, bool]:
        return await followed(operation, lambda event: seen.append(event.message or event.kind)), is_interrupted()

    async with clew.open(tmp_path) as client:
        operation = client.operations.start("count", work, Count)
        task = asyncio.ensure_future(command(operation))
        await begun.wait()
        task.cancel()  # what asyncio does with the main task when Ctrl-C is pressed
        asyncio.get_running_loop().call_soon(go.set)
        if can_stop:
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (operation.status, seen) == ("cancelled", ["begun", "The operation was cancelled."])
        else:
            assert await task == (3, True)
            assert (operation.status, seen) == ("done", ["begun", "finished", "ended"])
