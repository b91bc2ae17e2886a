"""Many conversations at once: the agents of all threads run at the same time, and no event is lost or out of order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew.testing.model.scripts import Reply, Request, Slow
from clew.testing.stage import Stage
from server.daemons import ServeProcess

pytestmark = pytest.mark.rest

SAID = " ".join(f"w{n}" for n in range(40))
LONG_S = 600


@pytest.mark.timeout(LONG_S)
@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.soak)])
async def test_threads_run_at_once_and_all_their_events_arrive(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], count: int
) -> None:
    together = threading.Barrier(count, timeout=LONG_S / 2)
    met: set[str] = set()

    def reply(request: Request) -> Reply | None:
        """No request is answered before all have arrived: so all agents run at the same time."""
        words = request.shown_texts()[-1][1]
        if request.is_main and words.startswith("number "):
            together.wait()
            met.add(words)
            return Slow(SAID, words_per_s=50)
        return None

    scripted.api.reply = reply
    daemon = start_daemon(scripted, CLEW_MAX_AGENTS=str(count))
    async with asyncio.TaskGroup() as group:
        talks = [group.create_task(_talk(daemon, number)) for number in range(count)]
    assert len(met) == count
    for number, talk in enumerate(talks):
        events, turns = talk.result()
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["kind"] == "run_ended"
        assert events[-1]["body"]["status"] == "answered"
        assert "".join(event["body"]["text"] for event in events if event["kind"] == "text_streamed") == SAID
        assert [turn["text"] for turn in turns] == [f"number {number}", SAID]
    stats = await daemon.get("/api/stats")
    assert (stats["runs"], stats["outcomes"]) == (count, {"success": count})


async def _talk(daemon: ServeProcess, number: int) -> tuple[list[Any], list[Any]]:
    thread = await daemon.thread(f"t{number}")
    async with asyncio.timeout(LONG_S):
        run = await daemon.post(f"/api/threads/{thread['id']}/runs", {"prompt": f"number {number}"})
        events = [event async for event in daemon.events(run["id"])]
    return events, await daemon.turns(thread["id"])
