"""An agent is started before the prompt is there, and nothing is sent to a model until it is."""

from __future__ import annotations

import asyncio
import os
import signal

from clew.testing.stage import Stage
from turns.plain_cli import PlainCli
from turns.warm.test_kept import WARM, conversation


async def test_the_turn_finds_it_started(stage: Stage) -> None:
    async with conversation(stage, **{"warm.max": 0}) as cold:  # whose agents end with their turn
        await cold.ask()
    async with conversation(stage) as talk:
        requests = len(stage.api.requests)
        assert await talk.thread.start_ahead()
        [kept] = await talk.client.kept_agents()
        reply = await talk.ask()
        assert await talk.was_warm(reply) and reply.session_resumed and not reply.warnings
        [attempt] = await talk.client.attempts(reply.run)
        assert attempt.pid == kept.pid
        assert [launch.resumes is not None for launch in stage.launches] == [False, True]
        assert await talk.was_warm(await talk.ask())
        assert requests == 1, "the first turn's: the agent that was started ahead has sent nothing by itself"


async def test_nothing_is_sent_while_it_waits(stage: Stage) -> None:
    async with conversation(stage, **{"warm.max": 0}) as cold:
        await cold.ask()
    before = len(stage.api.requests)
    async with conversation(stage) as talk:
        assert await talk.thread.start_ahead()
        [file] = stage.session_files()
        content = file.read_bytes()
        ends = PlainCli(stage).ends(file.stem)
        [kept] = await talk.client.kept_agents()
        async with asyncio.timeout(60):
            while kept.rss_bytes < 5_000_000:  # it has loaded its program
                await asyncio.sleep(0.05)
                [kept] = await talk.client.kept_agents()
        assert await talk.thread.start_ahead(), "one is enough"
        assert len(await talk.client.kept_agents()) == 1
    assert len(stage.api.requests) == before
    assert file.read_bytes().startswith(content) and PlainCli(stage).ends(file.stem) == ends
    assert not stage.processes()


async def test_callers_at_the_same_time_start_one(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.max": 0}) as cold:
        await cold.ask()
    async with conversation(scripted) as talk:
        assert await asyncio.gather(*[talk.thread.start_ahead() for _ in range(20)]) == [True] * 20
        assert len(await talk.client.kept_agents()) == 1
        assert await talk.was_warm(await talk.ask())
        assert len(scripted.launches) == 2, "the first turn's, and one"


async def test_one_that_dies_while_it_waits_costs_nothing(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.max": 0}) as cold:
        await cold.ask()
    async with conversation(scripted) as talk:
        assert await talk.thread.start_ahead()
        [kept] = await talk.client.kept_agents()
        os.kill(kept.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while await talk.client.kept_agents():
                await asyncio.sleep(0.01)
        reply = await talk.ask()
        assert reply.session_resumed and not await talk.was_warm(reply)


async def test_a_turn_that_begins_meanwhile_has_its_own(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.max": 0}) as cold:
        await cold.ask()
    async with conversation(scripted) as talk:
        starting = asyncio.create_task(talk.thread.start_ahead())
        replies = [await talk.ask(), await talk.ask()]
        await starting
        assert [reply.status for reply in replies] == ["answered"] * 2
        assert all(reply.session_resumed and not reply.warnings for reply in replies)
        assert len(await talk.client.kept_agents()) == 1
    assert not scripted.processes()


async def test_there_is_none_for_a_first_turn(scripted: Stage) -> None:
    async with conversation(scripted) as talk:
        assert not await talk.thread.start_ahead()
        assert not scripted.launches


async def test_there_is_none_where_the_session_cannot_go_on(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.max": 0}) as cold:
        await cold.ask()
    async with conversation(scripted) as talk:
        await talk.thread.truncate((await talk.thread.turns())[-1].id)
        assert not await talk.thread.start_ahead()
        assert len(scripted.launches) == 1


async def test_there_is_none_during_a_run(scripted: Stage) -> None:
    async with conversation(scripted) as talk:
        await talk.ask()
        run = await talk.thread.ask(talk.voice.prompt("slowly"))
        async for event in run:
            if event.kind == "text_streamed":
                assert not await talk.thread.start_ahead()
                run.kill()
        assert (await run.reply()).status == "cancelled"


async def test_it_can_be_switched_off(scripted: Stage) -> None:
    for settings in ({"warm.ahead": False}, {"warm.keys": False}, {"warm.max": 0}):
        async with conversation(scripted, **{"warm.max": 0}) as cold:
            await cold.ask()
        async with scripted.open(**{**WARM, **settings}) as client:
            assert not await (await client.find("t")).start_ahead(), settings
        assert not scripted.processes()


async def test_turns_from_outside_come_in_with_the_turn(stage: Stage) -> None:
    """It reads the session with them, and the turn finds that nothing has changed since."""
    async with conversation(stage, **{"warm.max": 0}) as cold:
        await cold.ask()
        [file] = stage.session_files()
        [answer] = PlainCli(stage).ask(file.stem, cold.voice.outside_prompt())
        async with stage.open(**WARM) as client:
            thread = await client.find("t")
            assert await thread.start_ahead()
            reply = await (await thread.ask(cold.voice.prompt())).reply()
            assert reply.session_resumed
            assert (await client.attempts(reply.run))[0].mark is not None
        assert answer in [turn.text for turn in await cold.thread.turns()]
        assert answer in "".join(text for _, text in stage.shown)
