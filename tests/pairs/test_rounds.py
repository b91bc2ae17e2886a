"""Rounds: an order, a report, the next order. Each part has its own session, and is shown only what is new."""

from __future__ import annotations

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.testing.stage import Stage
from pairs.couple import TASK, Couple, carried_out, turns

pytestmark = pytest.mark.rest


async def test_ten_rounds_in_two_sessions_each_shown_what_is_new(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=9)
    async with scripted.open() as client:
        state = await carried_out(client, scripted)
        assert (state.status, state.pair.number, len(state.rounds)) == (PairStatus.FINISHED, 10, 10)
        results = [(each.result or "-").split()[0] for each in state.rounds]
        assert results == [f"report-{n}" for n in range(1, 10)] + ["-"]
        assert [text.split()[0] for text in await turns(client, state.pair, PairPart.WORKER)][::2] == [
            f"order-{n}" for n in range(1, 10)
        ]
        prompts = (await turns(client, state.pair, PairPart.INSTRUCTOR))[::2]
        await couple.check_shown(client, state.pair)
    assert TASK in prompts[0] and all(TASK not in prompt for prompt in prompts[1:])
    assert all(f"report-{n}" in prompts[n] and f"report-{n - 1}" not in prompts[n] for n in range(1, 10))
    instructor, worker = scripted.launches[::2], scripted.launches[1::2]
    assert {launch.resumes for launch in instructor[1:]} == {instructor[0].session_id}
    assert {launch.resumes for launch in worker[1:]} == {worker[0].session_id}
