"""kill -9 in every phase of a round: nothing is lost, nothing is shown twice, and no finished work is repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.engine.faults import POINTS
from clew.testing.model.scripts import Hang, ToolUse
from clew.testing.stage import Stage
from pairs.couple import CONTINUE, TASK, Couple, die, resumed, turns

Points = Sequence[tuple[str, int]]  # each with how often it is passed before the process is killed there
# No agent asks a question or calls a tool in these tests.
QUIET = [point for point in POINTS if point not in ("tool_started", "question_asked")]
SECOND_ROUND = {PairPart.INSTRUCTOR: 3, PairPart.WORKER: 4}  # each part's run passes every point once


async def dies_on_and_on(stage: Stage, part: PairPart, points: Points, couple: Couple) -> list[str]:
    """Is killed at one point after the other, first in that part's phase.

    Once the agent's answer is complete on disk, a phase counts as done, so the next kill hits the next phase.
    """
    for place, (point, passing) in enumerate(points):
        die(stage, point, passing, "--resume" if place else TASK)
    async with stage.open() as client:
        assert not stage.processes(), "what the dead ones left running is ended"
        [left] = await client.pairs.list()
        assert left.status is PairStatus.INTERRUPTED
        recorded = [(each.order, each.result) for each in left.rounds if each.result is not None]
        state = await resumed(client, left.pair)
        assert state.status is PairStatus.FINISHED, state.pair.error
        assert [(each.order, each.result) for each in state.rounds][: len(recorded)] == recorded
        await couple.check_shown(client, state.pair)
        given = [
            text.split()[0] for text in await turns(client, state.pair, PairPart.WORKER) if text.startswith("order-")
        ]
        assert given == [f"order-{n}" for n in range(1, couple.rounds + 1)], "each order reached the worker, once"
        reports = [each.result.split()[0] for each in state.rounds if each.result is not None]
        assert reports == [f"report-{n}" for n in range(1, couple.rounds + 1)]
        prompts = [text for text in await turns(client, state.pair, PairPart.INSTRUCTOR) if text.startswith("Round ")]
        assert [text.split(".")[0] for text in prompts] == [f"Round {n} of 10" for n in range(1, couple.rounds + 2)]
        return await turns(client, state.pair, part)


@pytest.mark.parametrize("part", list(PairPart))
async def test_killed_at_every_named_point(scripted: Stage, part: PairPart) -> None:
    first = SECOND_ROUND[part]
    points = [(point, 1 if n else first) for n, point in enumerate(QUIET)]
    assert len(await dies_on_and_on(scripted, part, points, Couple(scripted, 6))) >= 12


async def test_killed_while_the_worker_runs_a_tool(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = ToolUse("Bash", {"command": "while true; do sleep 1; done"})
    die(scripted, "tool_started", 1, TASK, "--permissions", "all")
    async with scripted.open() as client:
        assert not scripted.processes(), "the tool is ended too"
        [left] = await client.pairs.list()
        state = await resumed(client, left.pair)
        assert (state.status, state.permissions) == (PairStatus.FINISHED, "all")
        await couple.check_shown(client, state.pair)
        assert (await turns(client, state.pair, PairPart.WORKER)).count(CONTINUE) == 1


@pytest.mark.real
async def test_killed_at_some_points_with_the_real_cli(real: Stage) -> None:
    """Before the agent starts, while it answers, and when its answer is complete but not recorded."""
    points = [("decided", 2), ("session_started", 1), ("outcome_known", 1)]
    assert (await dies_on_and_on(real, PairPart.WORKER, points, Couple(real, 2)))[-1].startswith("report-2")


@pytest.mark.real
async def test_killed_in_both_phases_with_the_real_cli(real: Stage) -> None:
    couple = Couple(real, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    worker = await dies_on_and_on(real, PairPart.WORKER, [("text_streamed", 2), ("prompt_sent", 2)], couple)
    said = [text for text in worker if text != "I am at it."]  # this text may not have been on disk yet
    assert [text.split()[0] for text in said] == ["order-1", CONTINUE.split()[0], "report-1"]
