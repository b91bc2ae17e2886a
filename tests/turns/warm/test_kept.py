"""An agent is kept after its turn, and answers the next one only if everything is as it was."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew.api.client import Client, Reply, Thread
from clew.core.runs.events import AttemptStarted
from clew.engine import faults
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected, tokens
from turns.plain_cli import PlainCli

WARM = {"warm.keys": True}


class Conversation:
    """A thread whose agents may be kept, although they have an API key in their environment."""

    def __init__(self, stage: Stage, client: Client, thread: Thread) -> None:
        self.stage = stage
        self.client = client
        self.thread = thread
        self.voice = TokenModel(stage.api)

    async def ask(self, **options: Any) -> Reply:
        """Asks, and checks that the model is shown the thread and nothing else."""
        before, prompt = await self.thread.turns(), self.voice.prompt()
        reply = await (await self.thread.ask(prompt, **options)).reply()
        if reply.status == "answered" and not reply.warnings:
            assert self.voice.shown == expected(before, prompt)
        return reply

    async def was_warm(self, reply: Reply) -> bool:
        """Whether the agent that answered was kept. The attempt's row and its event say the same."""
        attempt = (await self.client.attempts(reply.run))[-1]
        events = [each.event async for each in self.client.engine.follow(reply.run)]
        said = [event.warm for event in events if isinstance(event, AttemptStarted)][-1]
        assert said is (attempt.mark is not None)
        return said


@contextlib.asynccontextmanager
async def conversation(stage: Stage, **settings: Any) -> AsyncIterator[Conversation]:
    async with stage.open(**{**WARM, **settings}) as client:
        yield Conversation(stage, client, await client.thread("t", cwd=stage.work))


async def test_the_next_turn_is_answered_by_the_same_process(stage: Stage) -> None:
    async with conversation(stage) as talk:
        replies = [await talk.ask() for _ in range(3)]
        assert [await talk.was_warm(reply) for reply in replies] == [False, True, True]
        assert [reply.session_resumed for reply in replies] == [False, True, True]
        attempts = [(await talk.client.attempts(reply.run))[0] for reply in replies]
        assert len({attempt.pid for attempt in attempts}) == 1 == len(stage.launches)
        assert {attempt.mark for attempt in attempts[1:]} == {attempts[0].id}
        [kept] = await talk.client.kept_agents()
        assert (kept.thread_id, kept.pid) == (talk.thread.record.id, attempts[0].pid)
        assert kept.rss_bytes > 1_000_000
    assert not stage.processes(), "it ends with its client"
    async with stage.open() as client:
        assert not client.recovered
        assert not await client.engine.store.call(lambda store: store.leases.under()), "no lease is left"


async def test_cost_and_usage_are_those_of_each_turn(stage: Stage) -> None:
    async with conversation(stage) as talk:
        first, second, third = [await talk.ask() for _ in range(3)]
        assert third.cost_usd < first.cost_usd, "the first wrote the cache"
        assert third.usage.cache_read_input_tokens > second.usage.cache_read_input_tokens > 0
        async with stage.open() as client:  # a process that is started anew
            cold = await (await (await client.find("t")).ask(talk.voice.prompt())).reply()
        assert cold.session_resumed
        assert cold.cost_usd == pytest.approx(third.cost_usd, rel=0.2)


async def test_with_a_key_in_the_environment_no_agent_is_kept(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.keys": False}) as talk:
        replies = [await talk.ask() for _ in range(2)]
        assert not await talk.client.kept_agents()
        assert not await talk.was_warm(replies[1])
        assert not scripted.processes()


async def test_an_agent_with_a_login_in_its_own_folder_is_kept_without_more(real: Stage) -> None:
    (real.home / ".claude").mkdir()
    (real.home / ".claude" / "settings.json").write_text(json.dumps({"apiKeyHelper": "echo dummy"}))
    real.account = {"ANTHROPIC_API_KEY": ""}
    async with conversation(real, **{"warm.keys": False}) as talk:
        replies = [await talk.ask() for _ in range(2)]
        assert await talk.was_warm(replies[1])


async def test_no_agent_is_kept_if_that_is_switched_off(scripted: Stage) -> None:
    async with conversation(scripted, **{"warm.max": 0}) as talk:
        await talk.ask()
        assert not await talk.client.kept_agents()
        assert not scripted.processes()


async def changed_permissions(talk: Conversation) -> dict[str, Any]:
    await talk.thread.change(permissions="edits")
    return {}


async def changed_directory(talk: Conversation) -> dict[str, Any]:
    (talk.stage.folder / "elsewhere").mkdir()
    await talk.thread.change(cwd=talk.stage.folder / "elsewhere")
    return {}


async def changed_trust(talk: Conversation) -> dict[str, Any]:
    await talk.thread.change(trust="project")
    return {}


async def changed_rules(talk: Conversation) -> dict[str, Any]:
    (talk.stage.work / "CLAUDE.md").write_text("Answer in French.")
    return {}


async def changed_user_settings(talk: Conversation) -> dict[str, Any]:
    (talk.stage.home / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"deny": ["Read"]}}))
    return {}


async def changed_login(talk: Conversation) -> dict[str, Any]:
    (talk.stage.home / ".claude" / ".credentials.json").write_text("{}")
    return {}


async def changed_program(talk: Conversation) -> dict[str, Any]:
    path = talk.stage.binary
    path.write_text(path.read_text() + "# of another version\n")
    return {}


async def changed_model(talk: Conversation) -> dict[str, Any]:
    return {"model": "claude-opus-4-1"}


async def asked_for_a_fresh_session(talk: Conversation) -> dict[str, Any]:
    return {"fresh_session": True}


async def edited_a_turn(talk: Conversation) -> dict[str, Any]:
    await talk.thread.edit((await talk.thread.turns())[0].id, talk.voice.prompt("edited"))
    return {}


async def truncated(talk: Conversation) -> dict[str, Any]:
    await talk.thread.truncate((await talk.thread.turns())[-1].id)
    return {}


async def deleted_the_session(talk: Conversation) -> dict[str, Any]:
    for path in talk.stage.session_files():
        path.unlink()
    return {}


async def failed_a_turn(talk: Conversation) -> dict[str, Any]:
    run = await talk.thread.ask(talk.voice.prompt("\n!fail 401 authentication_error no"))
    assert (await run.reply()).status == "failed"
    return {}


async def stopped_a_turn(talk: Conversation) -> dict[str, Any]:
    run = await talk.thread.ask(talk.voice.prompt("slowly"))
    async for event in run:
        if event.kind == "text_streamed":
            run.cancel()
    assert (await run.reply()).status == "cancelled"
    return {}


CHANGES = [
    *(changed_permissions, changed_directory, changed_trust, changed_rules, changed_user_settings, changed_login),
    *(changed_program, changed_model, asked_for_a_fresh_session, edited_a_turn, truncated, deleted_the_session),
    *(failed_a_turn, stopped_a_turn),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_after_a_change_another_process_answers(stage: Stage, change: Any) -> None:
    async with conversation(stage) as talk:
        first = await talk.ask()
        options = await change(talk)
        after = await talk.ask(**options)
        assert after.status == "answered"
        assert not await talk.was_warm(after)
        pids = {each.pid for reply in (first, after) for each in await talk.client.attempts(reply.run)}
        assert len(pids) == 2
        [kept] = await talk.client.kept_agents()
        assert kept.pid == (await talk.client.attempts(after.run))[0].pid, "the first was ended"


async def test_another_environment_gets_another_process(scripted: Stage) -> None:
    """Two clients of one process, as in a daemon that serves two terminals, would share a pool."""
    async with conversation(scripted) as talk:
        await talk.ask()
        talk.client.engine.context = talk.client.engine.context.replace(
            environ={**talk.client.engine.context.environ, "ONE_MORE": "variable"}
        )
        assert not await talk.was_warm(await talk.ask())
        assert await talk.was_warm(await talk.ask())


async def test_what_was_said_outside_comes_in_and_is_not_lost_with_the_kept_process(stage: Stage) -> None:
    """When a process ends by itself it writes where its session ends, which may take back what it did not see."""
    async with conversation(stage) as talk:
        first = await talk.ask()
        [file] = stage.session_files()
        [answer] = PlainCli(stage).ask(file.stem, talk.voice.outside_prompt())
        after = await talk.ask()
        assert not await talk.was_warm(after)
        assert after.session_resumed and after.session_id == first.session_id
        assert answer in [turn.text for turn in await talk.thread.turns()]
        assert answer in "".join(text for _, text in stage.shown)
        assert await talk.was_warm(await talk.ask())


async def test_a_process_is_killed_as_soon_as_somebody_continues_its_session(stage: Stage) -> None:
    async with conversation(stage) as talk:
        await talk.ask()
        [file] = stage.session_files()
        PlainCli(stage).ask(file.stem, talk.voice.outside_prompt())
        content = file.read_bytes()
        await until_none_is_kept(talk)
        assert file.read_bytes() == content, "it has written nothing more"


async def test_the_cost_of_outside_turns_is_their_own(stage: Stage) -> None:
    """The kept process has not written what its turns cost, so the plain CLI's total begins without them."""
    async with conversation(stage) as talk:
        for _ in range(3):
            last = await talk.ask()
        [file] = stage.session_files()
        PlainCli(stage).ask(file.stem, talk.voice.outside_prompt())
        await talk.ask()
        [outside] = [run for run in await talk.client.runs() if run.outside]
        assert outside.cost_usd == pytest.approx(last.cost_usd, rel=0.5)


async def until_none_is_kept(talk: Conversation) -> None:
    async with asyncio.timeout(30):
        while await talk.client.kept_agents() or talk.stage.processes():
            await asyncio.sleep(0.02)


async def test_another_threads_agent_is_left_alone(scripted: Stage) -> None:
    async with conversation(scripted) as talk:
        other = await talk.client.thread("other", cwd=scripted.work)
        await (await other.ask(talk.voice.prompt())).reply()
        await talk.ask()
        assert len(await talk.client.kept_agents()) == 2
        assert await talk.was_warm(await talk.ask())


async def test_a_client_that_closes_during_the_turn_leaves_nothing(scripted: Stage) -> None:
    async with conversation(scripted) as talk:
        await talk.ask()
        run = await talk.thread.ask(talk.voice.prompt("slowly"))
        async for event in run:
            if event.kind == "text_streamed":
                break
    assert not scripted.processes()


async def test_an_agent_whose_tool_left_something_running_is_not_kept(stage: Stage) -> None:
    async with stage.open(**WARM, permissions="all") as client:
        thread = await client.thread("t", cwd=stage.work)
        command = json.dumps({"command": "setsid sleep 600 > /dev/null 2>&1 &"})
        reply = await (await thread.ask(f"go\n!tool Bash {command}")).reply()
        assert reply.status == "answered"
        assert not await client.kept_agents()
        assert not stage.processes()


async def test_a_kept_agent_is_recovered_after_its_client_was_killed(scripted: Stage, tmp_path: Path) -> None:
    """A suspended process does not see that its input has ended. Its lease tells the next Clew to end it."""
    async with conversation(scripted) as talk:
        await talk.ask()
        [kept] = await talk.client.kept_agents()
        leases = await talk.client.engine.store.call(lambda store: store.leases.under("warm/"))
        assert [lease.owner.pid for lease in leases] == [os.getpid()]
        os.kill(kept.pid, signal.SIGSTOP)
        dead = leases[0].owner.replace(pid=leases[0].owner.pid, started=1.0)  # a process that is gone

        def orphan(store: Any) -> None:
            key = leases[0].key
            store.leases.release(key)
            store.leases.acquire(key, token=key, owner=dead, run_id=None, now=0.0, ttl_s=1e9)

        await talk.client.engine.store.call(orphan)
        async with scripted.open() as other:
            assert not await other.engine.store.call(lambda store: store.leases.under("warm/"))
        assert not scripted.processes()
        assert (await talk.ask()).status == "answered", "the pool has noticed that it is gone"


@pytest.mark.parametrize("point", ["decided", "spawned", "result_read", "outcome_known"])
async def test_what_is_said_outside_during_a_turn_is_kept_and_shown_once(stage: Stage, point: str) -> None:
    """The process does not see it. Both sides are in the thread, and the next turn shows what the session lacks."""
    async with conversation(stage) as talk:
        await talk.ask()
        [file] = stage.session_files()
        said: list[str] = []

        def say_outside(passed: str) -> None:
            if passed == point and not said:
                said.extend(PlainCli(stage).ask(file.stem, talk.voice.outside_prompt()))

        prompt = talk.voice.prompt()
        faults.install(say_outside)
        try:
            reply = await (await talk.thread.ask(prompt)).reply()
        finally:
            faults.install(None)
        assert reply.status == "answered"
        after = talk.voice.prompt()
        assert (await (await talk.thread.ask(after)).reply()).status == "answered"
        shown = [token for _, text in stage.shown for token in tokens(text)]
        wanted = [token for text in (prompt, reply.text, *said, after) for token in tokens(text)]
        assert not [token for token in wanted if token not in shown], f"{wanted} is shown: {shown}"
        assert len({*shown}) == len(shown), "and shown once"
        assert said[0] in [turn.text for turn in await talk.thread.turns()]
        assert await talk.was_warm(await (await talk.thread.ask(talk.voice.prompt())).reply())
