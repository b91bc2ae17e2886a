"""The thread that works for an event loop: it makes calls in order, completes them, and ends with the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from clew.engine.storage.async_store import StoreThread

LEFT = """
import asyncio, threading
from clew.engine.storage.async_store import StoreThread

begun, done = threading.Event(), threading.Event()

def slow():
    begun.set()
    done.wait(0.3)
    print("written", flush=True)

async def main():
    asyncio.create_task(StoreThread("t").run(slow))
    await asyncio.to_thread(begun.wait)

try:
    asyncio.new_event_loop().run_until_complete(main())
finally:
    print("leaving", flush=True)
"""


@pytest.fixture
def thread() -> Iterator[StoreThread]:
    found = StoreThread("t")
    yield found
    found.end()


async def test_one_thread_makes_the_calls_in_order_and_returns_results_or_errors(thread: StoreThread) -> None:
    assert await thread.run(lambda: threading.current_thread().name) == "t"
    order: list[int] = []

    def work(n: int) -> int:
        order.append(n)
        return 1 // (n % 5)

    found = await asyncio.gather(*(thread.run(lambda n=n: work(n)) for n in range(20)), return_exceptions=True)  # type: ignore[misc]
    assert order == list(range(20))
    assert [n for n, each in enumerate(found) if isinstance(each, ZeroDivisionError)] == [0, 5, 10, 15]


async def test_an_error_that_a_future_cannot_carry_is_still_reported(thread: StoreThread) -> None:
    """A StopIteration, raised by `next` without a default."""
    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError) as raised:
            await thread.run(lambda: next(iter(())))
    assert isinstance(raised.value.__cause__, StopIteration)


async def test_a_cancelled_call_waits_for_the_end_of_its_work(thread: StoreThread) -> None:
    begun, go_on, steps = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go_on.wait()
        steps.append("written")

    task = asyncio.create_task(thread.run(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["written"]
    assert await thread.run(lambda: "well") == "well"


async def test_an_ended_thread_accepts_no_calls_and_has_done_its_last_work() -> None:
    thread, steps = StoreThread("t"), []
    waiting = [asyncio.create_task(thread.run(lambda n=n: steps.append(str(n)))) for n in range(3)]  # type: ignore[misc]
    await asyncio.sleep(0)
    thread.end(lambda: steps.append("last"))
    thread.end(lambda: steps.append("twice"))
    assert steps == ["0", "1", "2", "last"]
    await asyncio.gather(*waiting)
    with pytest.raises(RuntimeError, match="has ended"):
        await thread.run(lambda: None)
    StoreThread("never used").end()


@pytest.mark.process
def test_a_process_that_never_ends_the_thread_exits_after_the_pending_calls() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, ["leaving", "written"])
