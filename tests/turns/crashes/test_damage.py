"""Damaged and unwritable session files, lines and answers of any size, agents that lie or do not end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.api.client import Reply, Thread
from clew.core.record import replace
from clew.core.runs.events import AgentRetried, RunQueued, TextStreamed, Warned
from clew.core.runs.permissions import Answer
from clew.core.runs.run import Owner
from clew.errors import AgentMissing
from clew.store.store import Store
from clew.testing.model.scripts import Cut, Text
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options)).reply()  # type: ignore[arg-type]


async def true_turn(stage: Stage, thread: Thread, voice: TokenModel) -> Reply:
    history = await thread.turns()
    prompt = voice.prompt()
    reply = await ask(thread, prompt)
    assert reply.status == "answered", reply.error
    assert voice.shown == expected(history, prompt)
    return reply


def truncate_last_line(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: raw.rstrip().rindex(b"\n") + 40])


def garbage_in_the_middle(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0\0 not json \xff\xfe\n", *lines[2:]]))


def nothing_left(path: Path) -> None:
    path.write_bytes(b"")


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(4096))


@pytest.mark.parametrize("damage", [truncate_last_line, garbage_in_the_middle, nothing_left, noise])
async def test_damaged_session_file_costs_at_most_a_fresh_turn(stage: Stage, damage) -> None:  # type: ignore[no-untyped-def]
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        await true_turn(stage, thread, voice)
        await true_turn(stage, thread, voice)
        [path] = stage.session_files()
        damage(path)
        await true_turn(stage, thread, voice)
        assert (await true_turn(stage, thread, voice)).session_resumed


async def test_turn_that_the_agent_did_not_save_causes_a_warning_and_is_sent_again(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await true_turn(scripted, thread, voice)
        scripted.fault({"do": "unsaved"})
        lost = await true_turn(scripted, thread, voice)
        assert "did not save this turn" in lost.warnings[0]
        scripted.fault()
        after = await true_turn(scripted, thread, voice)
        assert after.session_resumed, "the session is whole; what it missed came as a catch-up"
        assert not after.warnings


@pytest.mark.real
async def test_unwritable_session_file_causes_a_warning(real: Stage) -> None:
    """Root may write to any file, so the CLI runs as another user."""
    voice = TokenModel(real.api)
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await true_turn(real, thread, voice)
        [path] = real.session_files()
        first, *rest = real.binary.read_text().splitlines()
        real.binary.write_text("\n".join([first, *rest[:-1], rest[-1].replace("exec ", "exec setpriv --reuid=65534 ")]))
        for folder in (real.folder, *real.folder.rglob("*")):
            os.chown(folder, 65534, -1)
        for above in real.folder.parents:
            if above.stat().st_uid == 0 and not above.stat().st_mode & 0o005:
                above.chmod(above.stat().st_mode | 0o011)
        path.chmod(0o444)
        events = [event async for event in await thread.ask(voice.prompt())]
        assert [event.code for event in events if isinstance(event, Warned)] == ["session_not_saved"]
        path.chmod(0o600)
        await true_turn(real, thread, voice)


@pytest.mark.rest
@pytest.mark.parametrize("size", [1_200_000, 10_000_000])
async def test_long_answer_arrives_completely(stage: Stage, size: int) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        reply = await ask(thread, f"!big {size}")
        assert reply.status == "answered"
        assert len(reply.text) >= size
        assert (await thread.turns())[-1].text == reply.text
        assert (await ask(thread, "and on")).session_resumed


@pytest.mark.rest
async def test_a_line_that_is_too_long_is_skipped_with_a_warning_and_nothing_else_is(scripted: Stage) -> None:
    scripted.fault({"do": "flood", "n_bytes": 65_000_000})
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await (await thread.ask("one"))
    assert (reply.status, reply.text) == ("answered", "ack: one")
    too_long = "claude sent a line of 65 MB, and the limit is 64 MB: it was skipped."
    assert too_long in reply.warnings


async def test_a_result_that_is_too_long_ends_the_run_with_one_clear_line(scripted: Stage) -> None:
    scripted.fault({"do": "flood_result", "n_bytes": 65_000_000})
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await (await thread.ask("one")).reply()
        assert reply.error is not None
        line = "claude gave no answer: a line of 65 MB, and the limit is 64 MB"
        assert (reply.status, reply.error.message) == ("failed", line)
        assert reply.text == "ack: one", "what was said is kept"
        scripted.fault()
        assert (await (await thread.ask("two"))).status == "answered"


async def test_flood_of_a_huge_line_and_of_stderr_is_survived(scripted: Stage) -> None:
    scripted.fault({"do": "flood", "n_bytes": 10_000_000, "stderr_lines": 100_000}, {"do": "garbage_line"})
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, "hello")
        assert reply.text == "ack: hello"


async def test_large_prompt_arrives_completely(stage: Stage) -> None:
    prompt = "word " * 60_000 + "\n!say got it"
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        assert (await ask(thread, prompt)).text == "got it"
        assert stage.prompt == prompt


@pytest.mark.parametrize("lie", ["lie_success_empty", "no_result"])
async def test_no_result_is_no_answer_whatever_the_exit_status(scripted: Stage, lie: str) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await true_turn(scripted, thread, voice)
        scripted.fault({"do": lie})
        reply = await ask(thread, voice.prompt())
        assert reply.status == "failed"
        assert reply.error is not None
        scripted.fault()
        await true_turn(scripted, thread, voice)


async def test_second_unexplained_failure_in_a_row_retires_the_session(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await true_turn(scripted, thread, voice)
        scripted.fault({"do": "no_result"})
        first = await ask(thread, voice.prompt())
        second = await ask(thread, voice.prompt())
        assert (first.session_resumed, second.session_resumed) == (True, True)
        scripted.fault()
        third = await true_turn(scripted, thread, voice)
        assert not third.session_resumed
        assert third.reason == "no_pin"


@pytest.mark.parametrize("fault", ["hang_after_result", "hang_after_init", "hang_before_init"])
async def test_hanging_agent_is_ended(scripted: Stage, fault: str) -> None:
    voice = TokenModel(scripted.api)
    scripted.fault({"do": fault, "ignore_term": True})
    async with scripted.open(idle_timeout="60s" if fault == "hang_after_result" else "1s") as client:
        client.engine.settings = tuned(client, exit_s=0.5, interrupt_s=0.5, grace_s=0.5)
        thread = await client.thread("t", cwd=scripted.work)
        prompt = voice.prompt()
        reply = await asyncio.wait_for(ask(thread, prompt), 60)
        assert reply.status == ("answered" if fault == "hang_after_result" else "timed_out")
        assert not scripted.processes()
        scripted.fault()
        client.engine.settings = tuned(client, idle_s=60.0, exit_s=60.0)
        await true_turn(scripted, thread, voice)


def tuned(client, **changes: float):  # type: ignore[no-untyped-def]
    return replace(client.engine.settings, **changes)


@pytest.mark.parametrize("limits", [("60s", None), (None, 60.0)], ids=["idle", "whole"])
async def test_waiting_for_a_person_does_not_count(
    scripted: Stage, pass_an_hour: Callable[[], None], limits: tuple[str | None, float | None]
) -> None:
    idle_timeout, timeout_s = limits

    async def slow_person(question: object) -> Answer:
        pass_an_hour()
        await asyncio.sleep(3 * client.engine.settings.poll_s)  # the task that watches the run has checked the time
        return Answer(allow=True)

    async with scripted.open(idle_timeout=idle_timeout) as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, '!tool Bash {"command": "touch made"}', person=slow_person, timeout_s=timeout_s)
        assert reply.status == "answered"
        assert (scripted.work / "made").exists()


async def test_two_runs_in_one_thread_run_one_after_the_other(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        prompts = [voice.prompt("slowly"), voice.prompt(), voice.prompt()]
        runs = [await thread.ask(prompt) for prompt in prompts]
        events = [event async for event in runs[1]]
        assert any(isinstance(event, RunQueued) and event.held_by == runs[0].id for event in events)
        replies = [await run.reply() for run in runs]
        assert [reply.status for reply in replies] == ["answered"] * 3
        assert [turn.text for turn in await thread.turns()][::2] == prompts, "first come, first served"
        await true_turn(scripted, thread, voice)


async def test_the_number_of_agents_at_once_is_limited(scripted: Stage) -> None:
    async with scripted.open(max_agents=1) as client:
        first = await (await client.thread("a", cwd=scripted.work)).ask("!slow 10 0.1")
        second = await (await client.thread("b", cwd=scripted.work)).ask("hello")
        events = [event async for event in second]
        assert any(isinstance(event, RunQueued) and event.waiting_for == "slot" for event in events)
        assert (await first.reply()).status == (await second.reply()).status == "answered"


async def test_full_context_falls_back_once_with_a_shorter_transcript(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open(transcript_limit=4_000) as client:
        thread = await client.thread("t", cwd=scripted.work)
        for _ in range(4):
            await ask(thread, voice.prompt("word " * 120))
        scripted.fault(
            {"do": "error_result", "on": "resume", "text": "Prompt is too long", "terminal_reason": "prompt_too_long"}
        )
        reply = await ask(thread, voice.prompt())
        assert reply.status == "answered"
        assert (reply.reason, reply.fallback) == ("overflow", True)
        assert "left out here: the conversation is too long" in scripted.prompt
        scripted.fault()
        assert (await ask(thread, voice.prompt())).session_resumed


async def test_run_whose_lease_was_taken_over_writes_nothing_more(scripted: Stage) -> None:
    """As after a long sleep of this machine, while another machine continued the thread."""
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 20 0.05")
        async for event in run:
            if isinstance(event, TextStreamed):
                break

        def take_over(store: Store) -> bool:
            [held] = store.leases.under("thread/")
            taken = store.leases.take(
                held.key,
                old_token=held.token,
                token="theirs",
                owner=Owner("elsewhere", 1, 1.0),
                run_id=None,
                now=held.acquired_at,
                ttl_s=600,
            )
            return taken is not None

        assert await client.engine.store.call(take_over)
        reply = await run.reply()
        assert reply.status == "failed"
        assert [turn.text for turn in await thread.turns()] == ["!slow 20 0.05"]
        leases = await client.engine.store.call(lambda store: store.leases.under("thread/"))
        assert [lease.token for lease in leases] == ["theirs"], "and it lets the other's lease alone"


async def test_request_that_breaks_off_and_is_retried_counts_once(stage: Stage) -> None:
    """The agent's own retry: what was streamed of the broken message is not in the answer twice."""
    replies = iter([Cut("half an ans"), Text("the whole answer")])
    stage.api.reply = lambda request: next(replies, Text("the whole answer"))
    async with stage.open(environ={"CLAUDE_CODE_MAX_RETRIES": "2"}) as client:
        thread = await client.thread("t", cwd=stage.work)
        reply = await ask(thread, "hello")
        assert reply.status == "answered"
        assert reply.text == "the whole answer"
        assert (await thread.turns())[-1].text == "the whole answer"


async def test_time_out_says_what_the_agent_was_retrying(stage: Stage, pass_an_hour: Callable[[], None]) -> None:
    environ = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "CLAUDE_CODE_MAX_RETRIES": "1000"}
    async with stage.open(environ=environ) as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await thread.ask("hello", timeout_s=600)
        async for event in run:
            if isinstance(event, AgentRetried):
                break
        pass_an_hour()
        reply = await run.reply()
        assert reply.status == "timed_out"
        assert reply.error is not None
        assert "was retrying" in reply.error.message


async def test_a_binary_that_is_not_the_agent_is_not_run(scripted: Stage) -> None:
    async with scripted.open(**{"agents.claude.path": "/bin/ls"}) as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, "hello")
        assert isinstance(reply.error, AgentMissing)
        assert "/bin/ls is not the claude CLI" in reply.error.message


async def test_a_failing_person_callback_declines_with_a_warning(scripted: Stage) -> None:
    async def person(question: object) -> Answer:
        raise ValueError("oops")

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, '!tool Bash {"command": "touch made"}', person=person)
        assert reply.status == "answered"
        assert "oops" in reply.warnings[0]
        assert not (scripted.work / "made").exists()


async def test_secret_on_stderr_is_in_no_error_and_in_no_file(scripted: Stage) -> None:
    key = "sk-ant-api03-" + "x1Y2z3" * 6
    scripted.fault({"do": "crash_before_init", "stderr": f"auth: {key} was refused"})
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, "one")
        [attempt] = await client.attempts(reply.run)
    assert attempt.stderr_tail == "auth: [redacted: Anthropic API key] was refused"
    assert reply.error is not None
    assert reply.error.message == "claude gave no answer: auth: [redacted: Anthropic API key] was refused"
    stored = b"".join(path.read_bytes() for path in scripted.clew_home.rglob("*") if path.is_file())
    assert b"was refused" in stored and key.encode() not in stored
