"""A process ends during a round."""

from __future__ import annotations

import asyncio

from clew.core.reviews.review import RoundStatus
from clew.hosts.reviews.reviews import ReviewSpec
from clew.store import open_store
from clew.testing.model.scripts import Hang, Reply, Request, Text
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import repository


async def test_a_second_run_that_starts_while_the_process_ends_is_cancelled_too(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    asked = 0

    def reply(request: Request) -> Reply | None:
        nonlocal asked
        if not request.is_main:
            return None
        asked += 1
        return Text("It looks good to me!") if asked == 1 else Hang("text", "I have begun")

    scripted.api.reply = reply
    async with asyncio.timeout(60):
        async with scripted.open() as client:
            live = await client.reviews.start(ReviewSpec(str(repo), "claude", MODEL))
            await live.turns[0].finish()  # it lacks the required form, so a second run is about to start
    with open_store(scripted.clew_home / "clew.db") as store:
        [round_] = store.reviews.rounds(live.review.id)
    assert round_.status is RoundStatus.FAILED
