"""Outside turns without an end, and outside turns during a run of Clew's: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path

import pytest

from clew.core.history import Turn
from clew.testing.stage import Stage
from clew.testing.truth import tokens
from turns.outside.conversation import WAITING, Conversation, Said, begun
from turns.outside.plain import PlainClaude, PlainCli, PlainCodex
from turns.outside.terminal import TIMEOUT_S


async def until_saved(talk: Conversation, token: str) -> None:
    """Waits until the prompt is a message in the session's file. Only the file can tell, and not every line that holds
    the prompt's text is the message: Claude writes the prompt into its queue first."""
    deadline = time.monotonic() + TIMEOUT_S
    while not any(token in entry.text for entry in talk.cli.read(talk.session_id).entries):
        assert time.monotonic() < deadline, "the prompt was never saved"
        await asyncio.sleep(0.01)


async def cut_off(talk: Conversation) -> list[Turn]:
    """The turns of the one outside run, which was interrupted."""
    [run] = await talk.outside_runs()
    assert (run.status, run.error) == ("interrupted", "The turn was interrupted outside Clew.")
    return await talk.outside_turns()


class TestClaude:
    async def test_a_killed_turn_comes_in_as_far_as_it_was_saved(self, stage: Stage) -> None:
        await killed(stage, PlainClaude)

    async def test_the_thread_continues_while_a_turn_is_still_running_outside(self, stage: Stage) -> None:
        """Both continue from the same line. Clew's own branch is the thread's, the other one can be adopted."""
        async with begun(stage) as talk:
            session_id, prompt = talk.session_id, talk.voice.outside_prompt()
            process = talk.cli.start(session_id, f"{prompt} {WAITING}")
            await until_saved(talk, prompt)
            await asyncio.to_thread(stage.api.wait_for_hanging, 1)
            talk.said.append(Said(prompt, outside=True))
            reply = await talk.ask()
            assert (reply.session_resumed, reply.session_id) == (True, session_id)
            [asked] = await cut_off(talk)
            assert tokens(asked.text) == [prompt]

            stage.api.release()
            process.communicate(timeout=TIMEOUT_S)
            reply = await talk.ask()
            assert (reply.session_resumed, reply.reason) == (False, "session_diverged")
            assert (await talk.ask()).session_resumed
            other = await talk.adopted(session_id)
            held = [token for turn in await other.turns() for token in tokens(turn.text)]
            assert held == [*(each.token for each in talk.said[:3]), talk.voice.answers[prompt]]

    async def test_a_turn_during_a_run_of_clews_comes_in_and_is_sent(self, stage: Stage) -> None:
        """Both continue from the same line, and the session loses the side that ended first: the outside turn."""
        async with begun(stage) as talk:
            session_id, prompt = talk.session_id, talk.voice.prompt(WAITING)
            run = await talk.thread.ask(prompt)
            await asyncio.to_thread(stage.api.wait_for_hanging, 1)
            await until_saved(talk, tokens(prompt)[0])
            await talk.outside()
            stage.api.release()
            reply = await run.reply()
            talk.heard(prompt, outside=False)
            talk.said[-4:] = [*talk.said[-2:], *talk.said[-4:-2]]  # the prompt of the run was first
            assert reply.session_id == session_id
            assert any("2 turns were made outside" in said for said in reply.warnings)
            await talk.check()
            assert "sends 2 turns that it has not seen" in (await talk.thread.preview()).words
            assert (await talk.ask()).session_id == session_id
            assert (await talk.ask()).session_id == session_id

    async def test_a_turn_between_the_decision_and_the_start_comes_in(self, stage: Stage) -> None:
        """The agent reads the session when it starts, so it has seen the outside turn before Clew's prompt."""
        async with begun(stage) as talk:
            session_id, prompt = talk.session_id, talk.voice.prompt()
            gate = closed_gate(stage)
            before = len(stage.launches)
            run = await talk.thread.ask(prompt)
            while len(stage.launches) == before:
                await asyncio.sleep(0.01)
            await talk.outside()
            gate.unlink()
            reply = await run.reply()
            talk.heard(prompt, outside=False)
            assert talk.voice.shown == [each.token for each in talk.said[:-1]]
            talk.said[-4:] = [*talk.said[-2:], *talk.said[-4:-2]]  # in the thread, the prompt of the run was first
            assert reply.session_id == session_id
            await talk.check()
            last = talk.voice.prompt()
            assert (await (await talk.thread.ask(last)).reply()).session_id == session_id
            assert sorted(talk.voice.shown) == sorted([*(each.token for each in talk.said), last])

    @pytest.mark.real
    async def test_an_answer_that_was_stopped_in_the_tui_comes_in_as_far_as_it_got(self, real: Stage) -> None:
        async with begun(real) as talk:
            session_id, prompt = talk.session_id, await stopped(talk, "●")
            talk.heard(prompt, outside=True)
            reply = await talk.ask()
            assert (reply.session_resumed, reply.session_id) == (True, session_id)
            asked, answered = await cut_off(talk)
            assert (asked.partial, answered.partial) == (False, True)
            assert (await talk.ask()).session_resumed


@pytest.mark.real
class TestCodex:
    async def test_a_killed_turn_comes_in_as_far_as_it_was_saved(self, codex: Stage) -> None:
        await killed(codex, PlainCodex)

    async def test_an_answer_that_was_stopped_in_the_tui_leaves_its_prompt(self, codex: Stage) -> None:
        """Codex does not save the part of an answer that was there."""
        async with begun(codex, PlainCodex) as talk:
            session_id, prompt = talk.session_id, await stopped(talk, "•")
            talk.said.append(Said(prompt, outside=True))
            reply = await talk.ask()
            assert (reply.session_resumed, reply.session_id) == (True, session_id)
            [asked] = await cut_off(talk)
            assert tokens(asked.text) == [prompt]
            assert (await talk.ask()).session_resumed

    async def test_while_the_tui_has_the_session_clew_continues_in_a_fresh_one(self, codex: Stage) -> None:
        """Only one process may write to a session. What was typed before is in the thread, what is typed afterwards is
        in the other session, which can be adopted."""
        async with begun(codex, PlainCodex) as talk:
            session_id = talk.session_id
            async with talk.tui() as tui:
                await talk.typed(tui)
                reply = await talk.ask()
                assert (reply.session_resumed, reply.reason, reply.fallback) == (False, "rejected", True)
                await talk.typed(tui)
                later = [talk.said.pop(), talk.said.pop()][::-1]
            assert (await talk.ask()).session_id == reply.session_id
            other = await talk.adopted(session_id)
            held = [token for turn in await other.turns() for token in tokens(turn.text)]
            assert held == [each.token for each in (*talk.said[:4], *later)]

    async def test_during_a_run_of_clews_the_plain_cli_is_refused(self, codex: Stage) -> None:
        async with begun(codex, PlainCodex) as talk:
            prompt = talk.voice.prompt(WAITING)
            run = await talk.thread.ask(prompt)
            await asyncio.to_thread(codex.api.wait_for_hanging, 1)
            process = talk.cli.start(talk.session_id, talk.voice.outside_prompt())
            _, error = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
            assert process.returncode == 1 and "already has an active writer" in error
            codex.api.release()
            assert (await run.reply()).session_resumed
            talk.heard(prompt, outside=False)
            assert (await talk.ask()).session_resumed


def closed_gate(stage: Stage) -> Path:
    """An agent that Clew starts waits until this file is removed. The plain CLI does not."""
    gate = stage.folder / "gate"
    gate.touch()
    *lines, last = stage.binary.read_text().splitlines()
    wait = f'case "$*" in *--input-format*) while [ -e {shlex.quote(str(gate))} ]; do sleep 0.02; done;; esac'
    stage.binary.write_text("\n".join([*lines, wait, last, ""]))
    return gate


async def killed(stage: Stage, cli: type[PlainCli]) -> None:
    async with begun(stage, cli) as talk:
        session_id, prompt = talk.session_id, talk.voice.outside_prompt()
        process = talk.cli.start(session_id, f"{prompt} {WAITING}")
        await until_saved(talk, prompt)
        await asyncio.to_thread(stage.api.wait_for_hanging, 1)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        talk.said.append(Said(prompt, outside=True))
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        [asked] = await cut_off(talk)
        assert tokens(asked.text) == [prompt]
        assert (await talk.ask()).session_resumed


async def stopped(talk: Conversation, bullet: str) -> str:
    """A prompt whose answer was stopped in the TUI. `bullet`: the sign before an answer."""
    prompt = talk.voice.outside_prompt()
    async with talk.tui() as tui:
        await asyncio.to_thread(tui.send, f"{prompt} {WAITING}")
        await asyncio.to_thread(talk.stage.api.wait_for_hanging, 1)
        await asyncio.to_thread(tui.wait_for, rf"{prompt} {WAITING}[\s\S]*{bullet}")
        await asyncio.to_thread(tui.interrupt)
    return prompt
