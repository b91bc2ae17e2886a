"""The account's usage limit: a pair waits until it resets and then continues, or stops if the option says so."""

from __future__ import annotations

import time

import pytest

from clew.core.pairs.pair import PairPart, PairRunEvent, PairStatus
from clew.core.runs.events import RunQueued
from clew.hosts.pairs.live import PairRunOptions
from clew.hosts.pairs.pairs import NewPair
from clew.testing.model.scripts import usage_limit
from clew.testing.stage import MODEL, SUBSCRIPTION, Stage
from pairs.couple import CONTINUE, TASK, Couple, finished, start, turns


@pytest.mark.rest
async def test_both_parts_continue_in_their_sessions_when_the_limit_has_reset(stage: Stage) -> None:
    stage.account = SUBSCRIPTION
    couple = Couple(stage, rounds=1)
    couple.orders.append(usage_limit(time.time() + 3))
    couple.reports.append(usage_limit(time.time() + 6))
    async with stage.open() as client:
        live = await start(client, stage)
        waits = [
            (event.part, event.event.until)
            async for event in live.events()
            if isinstance(event, PairRunEvent)
            and isinstance(event.event, RunQueued)
            and event.event.waiting_for == "limit"
        ]
        state = await finished(client, live)
        assert (state.status, state.pair.error) == (PairStatus.FINISHED, None)
        assert [part for part, _ in waits] == [PairPart.INSTRUCTOR, PairPart.WORKER]
        for part in PairPart:
            assert (await turns(client, state.pair, part)).count(CONTINUE) == 1
        await couple.check_shown(client, state.pair)
    assert len({launch.resumes or launch.session_id for launch in stage.launches}) == 2, "two sessions, to the end"


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_pair_that_must_not_wait_stops_and_says_why(scripted: Stage, stopped: bool) -> None:
    """The option says not to wait; or the user stops the pair while it waits."""
    scripted.account = SUBSCRIPTION
    Couple(scripted).orders.append(usage_limit(time.time() + 3600))
    new = NewPair(TASK, str(scripted.work), "claude", instructor_model=MODEL, worker_model=MODEL)
    async with scripted.open() as client:
        live = await client.pairs.start(new, PairRunOptions(wait_for_limit=stopped))
        async for event in live.events():
            if isinstance(event, PairRunEvent) and isinstance(event.event, RunQueued):
                live.cancel()
        state = await finished(client, live)
    assert state.status is PairStatus.STOPPED
    assert live.error is not None
    assert live.error.code == ("cancelled" if stopped else "usage_limit")
