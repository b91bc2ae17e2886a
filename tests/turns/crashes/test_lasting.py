"""What a daemon relies on: events are passed on only when they are stored, queued prompts outlive the process, and
questions wait for an answer from any process and survive a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
from contextlib import aclosing, closing
from pathlib import Path

import pytest

import forkserver
from clew.api.client import Client
from clew.core.explanation import FILES_STAY
from clew.core.ids import TurnId
from clew.core.record import replace
from clew.core.runs.events import QuestionAnswered, QuestionAsked, RunEnded, TextStreamed
from clew.core.runs.permissions import Answer
from clew.core.runs.question import Question, QuestionState, as_message
from clew.core.runs.run import RunStatus
from clew.errors import AgentMissing, Conflict, NotFound, UsageError
from clew.hosts.chat.preview import after_change
from clew.testing.stage import MODEL, Stage

FORM = (
    '!tool AskUserQuestion {"questions": [{"question": "Which one?", "header": "Q", "multiSelect": false,'
    ' "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}]}]}'
)
DAEMON = Path(__file__).with_name("daemon.py")


async def start_daemon(stage: Stage, *prompts: str) -> forkserver.AsyncProcess:
    """A process that asks lasting prompts in thread "t", prints a line when they are stored, and keeps running."""
    process = await forkserver.start_in_loop(
        [stage.work, MODEL, *prompts], script=DAEMON, env=stage.environ, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"stored\n"
    return process


async def kill(process: forkserver.AsyncProcess, how: signal.Signals = signal.SIGKILL) -> None:
    os.kill(process.pid, how)
    async with asyncio.timeout(60):
        await process.wait()


async def put_to_sleep(process: forkserver.AsyncProcess, stage: Stage) -> None:
    """Stops the process, but not inside a transaction: no other process could write then."""
    async with asyncio.timeout(60):
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            with closing(sqlite3.connect(stage.clew_home / "clew.db", timeout=0.2, isolation_level=None)) as database:
                try:
                    database.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError:
                    os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(0.05)


async def the_question(client: Client) -> Question:
    """Waits for the first open question."""
    async with asyncio.timeout(60):
        while True:
            for question in await client.engine.store.call(lambda store: store.questions.open()):
                return question
            await asyncio.sleep(0.05)


async def ended(client: Client, run_id: str) -> RunStatus:
    async with asyncio.timeout(60):
        async with aclosing(client.views.follow(run_id)) as events:
            async for _ in events:
                pass
    return (await client.run(run_id)).status


async def test_a_follower_gets_each_event_once_and_only_when_it_is_stored(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await thread.ask("!slow 20 0.02")
        heard = []
        async for event in client.views.follow(run.id):
            stored = await client.engine.store.call(lambda store: store.events.last_seq(run.id))
            assert event.seq <= stored
            heard.append(event)
        assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
        assert heard[-1].kind == "run_ended"
        assert heard == await client.engine.store.call(lambda store: store.events.of_run(run.id))
        rest = [event.seq async for event in client.views.follow(run.id, after=3)]
        assert rest == list(range(4, len(heard) + 1))


async def test_a_follower_in_another_process_gets_the_same_events(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, "!slow 20 0.05")
    try:
        async with scripted.open() as client:
            [run] = await client.runs()
            heard = [event async for event in client.views.follow(run.id)]
            assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
            assert isinstance(heard[-1].event, RunEnded)
            assert sum(isinstance(event.event, TextStreamed) for event in heard) > 5
    finally:
        await kill(daemon)


async def test_a_question_is_answered_through_the_store_under_resume_too(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        await (await thread.ask("first question"))
        run = await thread.ask(FORM, lasting=True)
        question = await the_question(client)
        assert question.is_form
        assert (await client.run(run.id)).status is RunStatus.WAITING
        answered = await client.answer(run.id, question.id, Answer(allow=True, answers={"Which one?": "Right"}))
        assert answered.follow_up is None
        reply = await run
        assert reply.session_resumed
        assert "Right" in reply.text
        with pytest.raises(Conflict):
            await client.answer(run.id, question.id, Answer(allow=False))
        with pytest.raises(NotFound):
            await client.answer(run.id, "nothing", Answer(allow=False))


async def test_the_first_answer_counts_whether_from_the_person_or_through_the_store(scripted: Stage) -> None:
    gave_up = asyncio.Event()

    async def slow_person(question: QuestionAsked) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            gave_up.set()
        raise AssertionError

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask('!tool Bash {"command": "touch made"}', person=slow_person)
        question = await the_question(client)
        await client.answer(run.id, question.id, Answer(allow=True))
        await run
        assert gave_up.is_set()
        assert (scripted.work / "made").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_question_that_is_open_at_a_death_is_asked_again_and_its_answer_reaches_the_session(
    stage: Stage, how: signal.Signals
) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        await (await thread.ask("first question"))
    daemon = await start_daemon(stage, FORM)
    async with stage.open() as client:
        await the_question(client)
        await kill(daemon, how)
        await client.engine.recover()
        question = await the_question(client)
        assert question.state is QuestionState.OPEN
        assert (await client.run(question.run_id)).status is RunStatus.INTERRUPTED
        view = await client.views.thread("t")
        assert [shown.id for shown in view.questions] == [question.id]
        answer = Answer(allow=True, answers={"Which one?": "Right"})
        answered = await client.answer(question.run_id, question.id, answer)
        assert answered.follow_up is not None
        reply = await answered.follow_up
        assert reply.session_resumed
        assert stage.prompt == as_message(question, answer)
        assert "Which one?: Right" in stage.prompt
        assert (await client.views.thread("t")).questions == []
        told = [text for role, text in stage.shown if role == "user"]
        assert sum("first question" in text for text in told) == 1


async def test_a_prompt_withdraws_what_an_interrupted_run_left_open(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM)
    async with scripted.open() as client:
        question = await the_question(client)
        await kill(daemon)
        await client.engine.recover()
        await (await (await client.find("t")).ask("never mind"))
        assert (await client.views.thread("t")).questions == []
        with pytest.raises(Conflict):
            await client.answer(question.run_id, question.id, Answer(allow=True))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_prompts_that_were_queued_behind_a_question_wait_behind_it_for_the_next_daemon_too(
    scripted: Stage, how: signal.Signals
) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open() as client:
        await the_question(client)
    await kill(daemon, how)
    async with scripted.open() as client:
        question = await the_question(client)
        [second] = await client.take_up()
        thread = await client.find("t")
        third = await thread.ask("third", lasting=True)
        async with aclosing(client.views.follow(third.id)) as told:
            assert (await anext(told)).body["held_by"] == second.id, "both have looked"
        assert [(await client.run(run.id)).status for run in (second, third)] == [RunStatus.QUEUED] * 2
        assert [shown.id for shown in (await client.views.thread("t")).questions] == [question.id]
        answer = Answer(allow=True, answers={"Which one?": "Left"})
        answered = await client.answer(question.run_id, question.id, answer, lasting=True)
        assert answered.question.state is QuestionState.ANSWERED
        assert [await ended(client, run.id) for run in (second, third)] == [RunStatus.ANSWERED] * 2
        asked = [turn.text for turn in await thread.turns() if turn.role == "user"]
        assert asked[1:] == [as_message(question, answer), "second", "third"]


@pytest.mark.parametrize("how", ["truncate", "cancel"])
async def test_an_open_question_can_be_dropped_and_the_queue_continues(scripted: Stage, how: str) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open() as client:
        await the_question(client)
    await kill(daemon)
    async with scripted.open() as client:
        thread = await client.find("t")
        [second] = await client.take_up()
        if how == "truncate":
            await thread.truncate((await thread.turns())[0].id)
        else:
            [asking] = [run for run in await client.runs() if run.prompt == FORM]
            assert await client.cancel(asking.id)
            assert not await client.cancel(asking.id), "there is nothing left of it to drop"
        assert await ended(client, second.id) is RunStatus.ANSWERED
        assert await client.views.questions() == []


async def test_a_new_prompt_from_a_terminal_withdraws_the_question_and_the_queue_continues(
    scripted: Stage,
) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open() as client:
        await the_question(client)
    await kill(daemon)
    async with scripted.open() as client:
        question = await the_question(client)
        [second] = await client.take_up()
        thread = await client.find("t")
        assert (await (await thread.ask("never mind"))).text == "ack: never mind"
        assert await ended(client, second.id) is RunStatus.ANSWERED
        asked = [turn.text for turn in await thread.turns() if turn.role == "user"]
        assert asked[1:] == ["never mind", "second"]
        with pytest.raises(Conflict):
            await client.answer(question.run_id, question.id, Answer(allow=True))


async def test_after_a_crash_a_queued_answer_starts_before_older_prompts(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open() as client:
        await the_question(client)
    await kill(daemon)
    async with scripted.open(max_agents=1) as client:
        question = await the_question(client)
        other = await client.thread("other", cwd=scripted.work)
        busy = await other.ask("!slow 1000 0.05")
        async for event in busy:
            if isinstance(event, TextStreamed):
                break
        await client.answer(
            question.run_id, question.id, Answer(allow=True, answers={"Which one?": "Left"}), lasting=True
        )
    async with scripted.open() as client:
        taken = await client.take_up()
        assert [run.asked.answers for run in taken] == [True, False]
        assert [await ended(client, run.id) for run in taken] == [RunStatus.ANSWERED] * 2
        asked = [turn.text for turn in await (await client.find("t")).turns() if turn.role == "user"]
        assert asked[-1] == "second"


async def test_an_answer_that_the_dead_run_never_read_is_delivered_once(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM)
    async with scripted.open() as client:
        question = await the_question(client)
        await put_to_sleep(daemon, scripted)  # it is alive, but will not notice the answer
        await client.answer(question.run_id, question.id, Answer(allow=True, answers={"Which one?": "Left"}))
        await kill(daemon)
        await client.engine.recover()
        [run] = await client.take_up()
        assert await client.take_up() == []
        assert await ended(client, run.id) is RunStatus.ANSWERED
        assert "Which one?: Left" in scripted.prompt


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_queued_prompts_outlive_their_daemon_and_are_taken_up_in_order(
    scripted: Stage, how: signal.Signals
) -> None:
    daemon = await start_daemon(scripted, "!slow 1000 0.05", "second", "third")
    await kill(daemon, how)
    async with scripted.open() as client:
        runs = {run.prompt: run for run in await client.runs()}
        assert runs["!slow 1000 0.05"].status is RunStatus.INTERRUPTED
        assert [runs[text].status for text in ("second", "third")] == [RunStatus.QUEUED] * 2
        thread = await client.find("t")
        reply = await (
            await thread.ask("in between")
        )  # no process carries the other runs out, so they do not block this one
        assert reply.text == "ack: in between"
        taken = await client.take_up()
        assert [run.prompt for run in taken] == ["second", "third"]
        assert await client.take_up() == []
        assert [await ended(client, run.id) for run in taken] == [RunStatus.ANSWERED] * 2
        said = [turn.text for turn in await thread.turns() if turn.text.startswith("ack")]
        assert said == ["ack: in between", "ack: second", "ack: third"]


async def test_a_queued_prompt_can_be_edited_or_cancelled_until_it_starts(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await thread.ask("!slow 1000 0.05")
        async for event in first:
            if isinstance(event, TextStreamed):
                break
        second = await thread.ask("second", lasting=True)
        third = await thread.ask("third", lasting=True)
        with pytest.raises(Conflict):
            await client.edit_queued(first.id, "other words")
        await client.edit_queued(second.id, "second, put better")
        await client.remove_queued(third.id)
        assert (await client.run(third.id)).status is RunStatus.CANCELLED, "whoever looks next sees it"
        first.cancel()
        await first.reply()
        await client.send_queued(second.id)
        assert (await second).text == "ack: second, put better"
        assert (await third.reply()).status == RunStatus.CANCELLED
        assert "third" not in [turn.text for turn in await thread.turns()]
        with pytest.raises(Conflict):
            await client.remove_queued(second.id)


async def test_a_prompt_whose_daemon_died_before_it_began_is_taken_up_at_once(scripted: Stage) -> None:
    """It already held the thread's lease and a slot, which must not block the next daemon."""
    driver = await forkserver.start_in_loop(
        [scripted.work, MODEL, "first question"],
        script=DAEMON,
        env={**scripted.environ, "CLEW_FAULT": "lease_taken"},
    )
    async with asyncio.timeout(60):
        await driver.wait()
    with closing(sqlite3.connect(scripted.clew_home / "clew.db")) as database, database:
        assert database.execute("UPDATE leases SET expires_at = expires_at + 3600").rowcount == 2
    async with scripted.open() as client:
        [run] = await client.take_up()
        assert await ended(client, run.id) is RunStatus.ANSWERED


async def test_a_queued_run_without_a_process_is_cancelled_at_once(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, "!slow 1000 0.05", "second")
    await kill(daemon)
    async with scripted.open() as client:
        [queued] = [run for run in await client.runs() if run.prompt == "second"]
        assert await client.cancel(queued.id)
        assert await ended(client, queued.id) is RunStatus.CANCELLED
        assert await client.take_up() == []


async def test_a_question_is_withdrawn_when_its_run_is_cancelled(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask(FORM, lasting=True)
        await the_question(client)
        run.cancel()
        assert (await run.reply()).status == RunStatus.CANCELLED
        assert (await client.views.thread("t")).questions == []
        answered = [event for event in await client.views.steps(run.id) if isinstance(event.event, QuestionAnswered)]
        assert not answered


async def test_the_preview_says_what_the_next_turn_will_be_and_what_a_change_would_do(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        assert (await thread.preview()).reason == "first_turn"
        await (await thread.ask("first question"))
        first, answer = await thread.turns()
        preview = await thread.preview(first.id)
        assert preview.resumes
        assert preview.after_change is not None
        assert "fresh" in preview.after_change["edit"]
        assert "2 turns" in preview.after_change["truncate"]
        assert "The 1 turn after this prompt is archived." in preview.after_change["retry"]
        assert all(FILES_STAY in preview.after_change[how] for how in ("truncate", "retry"))
        assert "was" not in preview.after_change["truncate"], "a turn that is archived was not changed"
        assert "retry" not in ((await thread.preview(answer.id)).after_change or {})
        gone = replace(first, id=TurnId("archived"))
        with pytest.raises(NotFound, match="has no turn archived"):  # as if the turn was archived at the same time
            await after_change(client.engine, thread.record, gone)
        runs = len(await client.runs())
        await thread.edit(first.id, "first question, put better")
        assert (await thread.preview()).reason == "history_changed"
        reply = await (await thread.ask("second question"))
        assert reply.reason == "history_changed", "the preview was right"
        assert len(await client.runs()) == runs + 1, "a preview leaves nothing behind"


async def test_the_preview_says_to_which_turn_the_session_is_rewound(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        for question in ("first question", "second question", "third question"):
            await (await thread.ask(question))
        second = (await thread.turns())[2]
        told = (await thread.preview(second.id)).after_change or {}
        assert all("rewinds to turn 2" in told[how] for how in ("edit", "truncate")), told
        assert "continues from turn 2. The 3 turns after this prompt are archived." in told["retry"]
        assert all(words.endswith(FILES_STAY) for words in told.values()), told
        assert "4 turns after it" in told["edit"] and "after it" not in told["truncate"].partition(".")[2]
        await thread.edit(second.id, "second question, put better")
        preview = await thread.preview()
        assert (preview.resumes, preview.reason, preview.rewound_to) == (True, "history_changed", 2)
        reply = await (await thread.ask("fourth question"))
        assert (reply.session_resumed, reply.reason, reply.rewound_to) == (True, "history_changed", 2), "it was right"


async def test_a_run_that_is_taken_up_continues_its_event_numbers_and_its_question_is_asked(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, "!slow 1000 0.05", FORM)
    async with scripted.open() as client:
        [queued] = [run for run in await client.runs() if run.prompt == FORM]
        async with asyncio.timeout(60):
            while not await client.engine.store.call(lambda store: store.events.last_seq(queued.id)):
                await asyncio.sleep(0.05)
        await kill(daemon)
        await client.engine.recover()
        before = await client.engine.store.call(lambda store: store.events.of_run(queued.id))
        await client.take_up()
        question = await the_question(client)
        heard = client.views.follow(queued.id)
        first = [await anext(heard) for _ in before]
        assert first == before, "what was stored before is part of the run"
        await client.answer(queued.id, question.id, Answer(allow=True, answers={"Which one?": "Right"}))
        rest = [event async for event in heard]
        assert [event.seq for event in (*first, *rest)] == list(range(1, len(first) + len(rest) + 1))
        assert [*first, *rest] == await client.engine.store.call(lambda store: store.events.of_run(queued.id))
        assert "question_asked" in [event.kind for event in rest]


async def test_an_answer_that_the_agent_may_not_have_read_is_delivered_again(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM)
    async with scripted.open() as client:
        question = await the_question(client)
        agents = [pid for pid in scripted.processes() if pid != daemon.pid]
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)  # it will not read its input
        await client.answer(question.run_id, question.id, Answer(allow=True, answers={"Which one?": "Left"}))
        async with asyncio.timeout(60):
            while await client.engine.store.call(lambda store: store.questions.open()):
                await asyncio.sleep(0.05)
        await kill(daemon)
        await client.engine.recover()
        [run] = await client.take_up()
        assert await ended(client, run.id) is RunStatus.ANSWERED
        assert "Which one?: Left" in scripted.prompt


async def test_a_queued_run_whose_agent_is_missing_stays_queued(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, FORM, "second")
    async with scripted.open(environ={"CLEW_CLAUDE_PATH": str(scripted.binary)}) as client:
        question = await the_question(client)
        await kill(daemon)
        await client.engine.recover()
        away = scripted.binary.rename(scripted.binary.with_name("away"))
        answer = Answer(allow=True, answers={"Which one?": "Left"})
        with pytest.raises(AgentMissing):
            await client.answer(question.run_id, question.id, answer)
        assert await client.take_up() == []
        [queued] = [run for run in await client.runs() if run.prompt == "second"]
        assert queued.status is RunStatus.QUEUED
        away.rename(scripted.binary)
        assert [shown.id for shown in (await client.views.thread("t")).questions] == [question.id]
        answered = await client.answer(question.run_id, question.id, answer)
        assert answered.follow_up is not None
        await answered.follow_up
        [run] = await client.take_up()
        assert await ended(client, run.id) is RunStatus.ANSWERED


async def test_a_queued_run_does_not_follow_a_link_that_was_put_in_the_place_of_its_directory(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        first = await thread.ask("!slow 1000 0.05")
        async for event in first:
            if isinstance(event, TextStreamed):
                break
        second = await thread.ask('!tool Bash {"command": "touch made"}', lasting=True)
        outside = scripted.folder / "outside"
        outside.mkdir()
        scripted.work.rename(scripted.folder / "moved")
        scripted.work.symlink_to(outside)
        first.cancel()
        await first.reply()
        await client.send_queued(second.id)
        assert (await second.reply()).status == RunStatus.FAILED
        with pytest.raises(UsageError):
            await thread.retry((await thread.turns())[0].id)
        assert not list(outside.iterdir())


async def test_a_daemon_takes_up_only_what_it_may_run(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, "!slow 1000 0.05", "second")
    await kill(daemon)
    async with scripted.open() as client:
        assert await client.take_up(lambda thread: False) == []
        assert [run.prompt for run in await client.take_up(lambda thread: thread.name == "t")] == ["second"]
