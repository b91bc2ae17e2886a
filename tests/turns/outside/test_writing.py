"""A session is read while the plain CLI is writing to it, or after it died: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json

import pytest

from clew.core.history import Role
from clew.testing.stage import Stage
from clew.testing.truth import expected
from turns.outside.conversation import Conversation, begun
from turns.outside.plain import PlainCodex

HALF = 50  # bytes of a line that is not finished


async def is_read_in_the_middle_of_the_answer(talk: Conversation) -> None:
    path = talk.cli.path(talk.session_id)
    before = path.read_bytes()
    await talk.outside()
    whole = path.read_bytes()
    asked, answered = (said.token for said in talk.said[-2:])
    start = len(before)
    for line in whole[len(before) :].splitlines(keepends=True):
        if answered.encode() in line and (b'"assistant"' in line):
            break
        start += len(line)
    path.write_bytes(whole[: start + HALF])
    [prompt] = (await talk.thread.sync()).turns
    assert (prompt.text, prompt.role) == (asked, Role.USER)
    assert (await talk.thread.sync()).turns == ()
    with path.open("ab") as file:
        file.write(whole[start + HALF :])
    [answer] = (await talk.thread.sync()).turns
    assert (answer.text, answer.role, answer.outside) == (answered, Role.ASSISTANT, True)
    history, next_prompt = await talk.thread.turns(), talk.voice.prompt()
    reply = await (await talk.thread.ask(next_prompt))
    assert (reply.session_resumed, talk.voice.shown) == (True, expected(history, next_prompt))


async def test_a_half_written_answer_comes_in_when_it_is_complete(stage: Stage) -> None:
    async with begun(stage) as talk:
        await is_read_in_the_middle_of_the_answer(talk)


async def test_a_half_written_answer_of_codex_comes_in_when_it_is_complete(codex: Stage) -> None:
    async with begun(codex, PlainCodex) as talk:
        await is_read_in_the_middle_of_the_answer(talk)


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "rewound"])
async def test_a_run_that_died_before_its_session_began_hides_nothing(scripted: Stage, fresh: bool) -> None:
    async with begun(scripted, turns=3) as talk:
        session_id = talk.session_id
        if not fresh:
            await talk.thread.edit((await talk.thread.turns())[4].id, talk.voice.prompt("edited"))
        scripted.fault({"do": "crash_before_init", "signal": 9})
        died = await (await talk.thread.ask(talk.voice.prompt(), fresh_session=fresh)).reply()
        assert died.status != "answered"
        scripted.fault()
        await talk.outside(session_id=session_id)
        asked, answered = (said.token for said in talk.said[-2:])
        found = await talk.thread.sync()
        assert ([turn.text for turn in found.turns], found.branched) == ([asked, answered], ())
        history, prompt = await talk.thread.turns(), talk.voice.prompt()
        reply = await (await talk.thread.ask(prompt))
        assert reply.session_resumed
        assert sorted(talk.voice.shown) == sorted(expected(history, prompt))


async def test_without_the_agents_total_the_cost_is_estimated_and_not_counted_twice(scripted: Stage) -> None:
    """The CLI writes its total when it ends. Until then, or if it is killed, there is only the usage."""
    async with begun(scripted) as talk:
        path = talk.cli.path(talk.session_id)
        before = (await talk.pins())[-1].cost_total_usd
        await talk.outside()
        lines = path.read_bytes().splitlines(keepends=True)
        total = next(line for line in reversed(lines) if json.loads(line)["type"] == "cost-state")
        path.write_bytes(b"".join(line for line in lines if line is not total))
        await talk.thread.sync()
        [run] = await talk.outside_runs()
        assert run.cost_usd > 0
        assert (await talk.pins())[-1].cost_total_usd == pytest.approx(before + run.cost_usd)
        assert json.loads(total)["totalCostUSD"] == pytest.approx(before + run.cost_usd, rel=0.2)
