"""When a person stops a run, the daemon's prompts behind it wait until they are sent. Other prompts do not."""

from __future__ import annotations

import asyncio

import pytest

from clew.api.client import Client
from clew.api.thread import Run, Thread
from clew.core.ids import RunId, TurnId
from clew.core.record import replace
from clew.core.runs.events import RunQueued, TextStreamed
from clew.core.runs.run import Owner, RunStatus
from clew.errors import Conflict
from clew.testing.stage import Stage
from turns.crashes.test_lasting import FORM, ended, kill, start_daemon, the_question

SLOW = "!slow 1000 0.05"


async def going(thread: Thread, *, lasting: bool = True) -> Run:
    """A run that has said something and continues."""
    run = await thread.ask(SLOW, lasting=lasting)
    async for event in run:
        if isinstance(event, TextStreamed):
            return run
    raise AssertionError("it ended")


async def held(client: Client, *runs: Run) -> list[bool]:
    """Whether each run is held; all of them are still queued."""
    stored = [await client.run(run.id) for run in runs]
    assert [run.status for run in stored] == [RunStatus.QUEUED] * len(runs)
    return [run.asked.held for run in stored]


async def asked(thread: Thread) -> list[str]:
    return [turn.text for turn in await thread.turns() if turn.role == "user"]


@pytest.mark.parametrize("how", ["asked to from anywhere", "in its own process"])
async def test_a_stop_holds_what_a_person_queued_and_nothing_else(scripted: Stage, how: str) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        second, third = [await thread.ask(text, lasting=True) for text in ("second", "third")]
        waits_in_a_terminal = await thread.ask("a terminal's")
        if how == "in its own process":
            first.cancel()
        else:
            assert await client.cancel(first.id)
            assert await held(client, second, third) == [True, True], "from the same moment on"
        assert (await first.reply()).status == RunStatus.CANCELLED
        assert (await waits_in_a_terminal).text == "ack: a terminal's"
        assert await held(client, second, third) == [True, True]
        assert (await client.views.summary("t")).live is None, "nothing goes on, and nothing is about to"

        assert (await (await thread.ask("what was meant", lasting=True))).text == "ack: what was meant"
        assert await held(client, second, third) == [True, True], "another prompt does not set them off"
        await client.send_queued(third.id)
        assert (await third).text == "ack: third"
        assert await held(client, second) == [True]
        await client.edit_queued(second.id, "second, put better")
        await client.send_queued(second.id)
        assert (await second).text == "ack: second, put better"
        assert await asked(thread) == [SLOW, "a terminal's", "what was meant", "third", "second, put better"]
        with pytest.raises(Conflict):
            await client.send_queued(second.id)


async def test_what_is_asked_after_the_stop_is_not_held(scripted: Stage) -> None:
    """The run may take a while to end, and the person may type the next prompt meanwhile."""
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        await client.cancel(first.id)
        assert (await (await thread.ask("what was meant", lasting=True))).text == "ack: what was meant"


async def test_a_prompt_that_is_sent_stops_the_run_and_starts_before_the_others(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        second, third = [await thread.ask(text, lasting=True) for text in ("second", "third")]
        await client.send_queued(third.id)
        assert (await first.reply()).status == RunStatus.CANCELLED
        assert (await third).text == "ack: third"
        assert (await second).text == "ack: second", "nobody stopped it: it was only overtaken"
        assert await asked(thread) == [SLOW, "third", "second"]


async def test_cancelling_a_queued_prompt_holds_nothing(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        second, third = [await thread.ask(text, lasting=True) for text in ("second", "third")]
        await client.remove_queued(second.id)
        assert await held(client, third) == [False]
        await client.cancel(first.id)
        await client.remove_queued(third.id)
        assert (await third.reply()).status == RunStatus.CANCELLED


async def test_a_second_stop_holds_neither_new_prompts_nor_sent_ones(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        second = await thread.ask("second", lasting=True)
        await client.cancel(first.id)
        meant = await thread.ask("what was meant", lasting=True)
        await client.send_queued(second.id)
        await client.cancel(first.id)
        first.cancel()
        assert (await second).text == "ack: second"
        assert (await meant).text == "ack: what was meant"


async def test_sending_a_prompt_does_not_cancel_a_run_that_waits_for_a_slot(scripted: Stage) -> None:
    """It has the thread and waits for a free slot; nobody stopped it."""
    async with scripted.open(max_agents=1) as client:
        other = await going(await client.thread("other", cwd=scripted.work))
        thread = await client.thread("t", cwd=scripted.work)
        first, second = [await thread.ask(text, lasting=True) for text in ("first", "second")]
        async for event in first:
            if isinstance(event, RunQueued) and event.waiting_for == "slot":
                break
        await client.send_queued(second.id)
        other.cancel()
        assert [(await first).text, (await second).text] == ["ack: first", "ack: second"]


async def test_a_prompt_that_is_sent_does_not_wait_for_a_question_of_a_dead_run(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open() as client:
        await the_question(client)
        await kill(daemon)
        await client.engine.recover()
        [second] = [run for run in await client.take_up() if run.prompt == "second"]
        await client.send_queued(second.id)
        assert await ended(client, second.id) is RunStatus.ANSWERED


async def test_a_stop_holds_nothing_that_was_not_behind_it(scripted: Stage) -> None:
    """A dead daemon had left the prompt queued; a prompt from a terminal started before it, and was stopped."""
    daemon = await start_daemon(scripted, SLOW, "second")
    async with scripted.open() as client:
        await kill(daemon)
        await client.engine.recover()
        terminals = await going(await client.find("t"), lasting=False)
        terminals.cancel()
        await terminals.reply()
        [second] = [run for run in await client.take_up() if run.prompt == "second"]
        assert await ended(client, second.id) is RunStatus.ANSWERED


async def test_a_held_prompt_says_what_it_waits_for(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await going(thread)
        second = await thread.ask("second", lasting=True)
        await client.cancel(first.id)
        async for event in second:
            if isinstance(event, RunQueued) and event.waiting_for == "person":
                break
        await client.send_queued(second.id)
        assert (await second).text == "ack: second"


async def test_held_prompts_outlive_their_daemon(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, SLOW, "second", "third")
    async with scripted.open() as client:
        runs = {run.prompt: run for run in await client.runs()}
        assert await client.cancel(runs[SLOW].id)
        assert await ended(client, runs[SLOW].id) is RunStatus.CANCELLED
        await kill(daemon)
        await client.engine.recover()
        taken = await client.take_up()
        assert [run.prompt for run in taken] == ["second", "third"]
        thread = await client.find("t")
        assert (await (await thread.ask("in between", lasting=True))).text == "ack: in between"
        assert [(await client.run(run.id)).asked.held for run in taken] == [True, True]
        await client.send_queued(runs["third"].id)
        assert await ended(client, runs["third"].id) is RunStatus.ANSWERED
        assert (await client.run(runs["second"].id)).status is RunStatus.QUEUED


async def test_a_prompt_that_another_process_sent_starts_too(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, SLOW, "second")
    async with scripted.open() as client:
        runs = {run.prompt: run for run in await client.runs()}
        await client.cancel(runs[SLOW].id)
        await client.send_queued(runs["second"].id)
        async with asyncio.timeout(60):
            assert await ended(client, runs["second"].id) is RunStatus.ANSWERED
    await kill(daemon)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_prompt_that_was_cancelled_while_it_waited_is_not_a_turn(scripted: Stage, cancelled: bool) -> None:
    """Even if its process dies afterwards. A prompt that was not cancelled is a turn without an answer."""
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one"))
        [done] = await client.runs()
        left = replace(
            done,
            id=RunId("left"),
            prompt_turn_id=TurnId("left"),
            prompt="two",
            status=RunStatus.QUEUED,
            owner=Owner(client.engine.context.owner.host, 2**22 + 1, 1.0),
            cancel_requested=cancelled,
            answer_turn_id=None,
            started_at=None,
            ended_at=None,
        )
        await client.engine.store.call(lambda store: store.runs.create(left))
        await client.engine.recover()
        reply = await client.reply("left")
        turns = [turn.text for turn in await thread.turns()]
        assert (await client.run("left")).prompt == "two", "it is kept with its run"
        if cancelled:
            assert (reply.status, turns) == ("cancelled", ["one", "ack: one"])
            assert reply.error is not None
            words = "Nothing was sent to the agent, and the prompt is no turn of the thread."
            assert reply.error.hint == f"{words} Ask again if you still want it."
            await (await thread.ask("three"))
            assert scripted.shown == [("user", "one"), ("assistant", "ack: one"), ("user", "three")]
        else:
            assert (reply.status, turns) == ("interrupted", ["one", "ack: one", "two"])
