"""`clew threads replay`: asks the prompts of a thread again, with another model, in a new thread."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

import forkserver
from branching.screens import on_terminal, rows_of
from clew.api.client import Client
from clew.core.continuation import CONTINUE
from clew.core.thread import OriginKind, Permissions
from clew.errors import AgentMissing, Cancelled, Conflict, NotFound, UsageError
from clew.hosts.branching.replay import LiveReplay, ReplayOptions, replay
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Fail, Hang, Reply, Request, Text, newest_user_text
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from conftest import make_stage
from pairs.couple import Couple, carried_out
from transfer.machines import ask, clew

OPUS = "claude-opus-4-1"


async def carried(live: LiveReplay) -> list[str]:
    return [event.kind async for event in live.events() if event.kind != "heard"]


async def thread_of(client: Client, stage: Stage, *prompts: str) -> None:
    thread = await client.thread("t", cwd=stage.work, permissions="all")
    for prompt in prompts:
        await ask(thread, prompt)


class Differs:
    """Answers differently for each model; at the prompt `two` the other model fails or hangs, once."""

    def __init__(self, api: ModelApi, trouble: Reply | None = None) -> None:
        self.trouble = trouble
        self.asked: list[str] = []
        api.reply = self

    def __call__(self, request: Request) -> Reply | None:
        if not request.is_main:
            return None
        said = newest_user_text(request.messages).splitlines()[-1]
        if request.model == MODEL:
            return Text(f"sonnet on {said}")
        self.asked.append(said)
        if said == "two" and self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            return trouble
        return Text(f"other on {said}")


@pytest.mark.real
async def test_real_claude_thread_is_replayed_with_another_model_and_with_codex(tmp_path: Path, api: ModelApi) -> None:
    with make_stage("real", tmp_path, api, codex=True) as stage:
        Differs(api)
        async with stage.open() as client:
            thread = await client.thread("t", cwd=stage.work)
            await ask(thread, "one", instructions="Be brief.")
            await ask(thread, "two")
            before = await rows_of(client, "t")
            count = len(stage.launches)
            for wanted, model in (
                (ReplayOptions(model=OPUS), OPUS),
                (ReplayOptions(agent="codex", model=CODEX_MODEL), CODEX_MODEL),
            ):
                live = await replay(client.engine, "t", wanted)
                assert await carried(live) == ["asking", "answered"] * 2
                assert live.error is None
                first, second = stage.launches[count:]
                count += 2
                assert first.resumes is None and second.resumes is not None, "each after the former's answer"
                assert {'sandbox_mode="read-only"', "Read,Glob,Grep,AskUserQuestion"} & {*second.argv}
                assert stage.shown[1:] == [("assistant", "other on one"), ("user", "two")]
                assert "Be brief." in stage.shown[0][1]
                [one, two] = await live.answers()
                assert one.before is not None and one.before.text == "sonnet on one"
                assert two.after is not None and two.before is not None
                assert (two.after.text, two.after.agent, two.after.model) == (
                    "other on two",
                    live.thread.agent,
                    model,
                )
                assert two.after.usage.shown_tokens > 0 and (two.after.seconds or 0) > 0
                assert (two.after.cost_usd is None) is (live.thread.agent == "codex"), "unknown, not nothing"
                assert live.thread.origin is not None and live.thread.origin.how is OriginKind.REPLAY
                assert (live.thread.kind, live.thread.permissions) == ("chat", Permissions.READ_ONLY)
            assert await rows_of(client, "t") == before, "the original is untouched"
    assert not api.refused_hosts


async def test_command_shows_both_answers_and_their_cost(scripted: Stage) -> None:
    Differs(scripted.api)
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", "two")
    done = clew(scripted, "threads", "replay", "t", "--with-model", OPUS, "--rounds", "1")
    assert done.code == 0
    assert f"round 1 of 1: one\n\nclaude {MODEL}:\n  sonnet on one\n\nclaude {OPUS}:\n  other on one\n" in done.out
    assert "new thread: t-claude-opus-4-1, 1 prompt of t" in done.err
    assert (done.out + done.err).count("round 1 of 1: one") == 1, "also where both streams go to one file"
    assert "permissions read-only: nothing is changed" in done.err
    assert "t: 1 answer · " in done.err and "t-claude-opus-4-1: 1 answer · " in done.err
    told = clew(scripted, "threads", "replay", "t", "--with-model", OPUS, "--name", "n", "--json").json
    assert (told["name"], told["of"][0]["name"], told["prompts"], told["error"]) == ("n", "t", 2, None)
    assert [each["after"]["text"] for each in told["rounds"]] == ["other on one", "other on two"]
    assert told["after"]["answers"] == 2 and told["after"]["cost_usd"] > 0


async def test_answers_are_side_by_side_only_on_a_wide_terminal_and_cannot_control_it(scripted: Stage) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J"
    scripted.api.reply = lambda request: Text(f"{request.model}{hostile}") if request.is_main else None
    async with scripted.open() as client:
        await thread_of(client, scripted, f"hello {hostile}")
    for columns, is_wide in ((120, True), (100, False)):
        code, seen = on_terminal(scripted, "threads", "replay", "t", "--with-model", OPUS, columns=columns)
        assert code == 0
        both = [line for line in seen.splitlines() if f"{MODEL}␛" in line and f"{OPUS}␛" in line]
        assert bool(both) is is_wide, seen
        assert "\x1b]" not in seen and "\x1b[2J" not in seen and "\x07" not in seen


async def test_clews_own_prompt_to_continue_is_not_asked_again(scripted: Stage) -> None:
    differs = Differs(scripted.api)
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", CONTINUE, "two")
        live = await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n"))
        assert await carried(live) == ["asking", "answered"] * 2
        assert (live.count, differs.asked) == (2, ["one", "two"])
        first, _ = await live.answers()
        assert first.before is not None and first.after is not None
        assert first.before.text == f"sonnet on one\n\nsonnet on {CONTINUE}", "both answers are of the user's prompt"
        runs = (await client.runs(thread=await client.find("t")))[::-1]
        assert first.before.usage == runs[0].usage + runs[1].usage
        again = await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n"))
        assert (again.asked_before, await carried(again)) == (2, [])


@pytest.mark.parametrize("trouble", [None, Fail(401, "authentication_error", "invalid x-api-key")])
async def test_of_two_replays_in_one_thread_only_one_asks(scripted: Stage, trouble: Reply | None) -> None:
    differs = Differs(scripted.api, trouble)
    options = ReplayOptions(model=OPUS, name="n")
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", "two")
        if trouble is not None:
            await carried(await replay(client.engine, "t", options))
            differs.asked.clear()
        lives = [await replay(client.engine, "t", options) for _ in range(3)]
        await asyncio.gather(*(carried(live) for live in lives[:2]))
        await carried(lives[2])
        assert [type(live.error) for live in lives].count(Conflict) == 2
        assert differs.asked == (["one", "two"] if trouble is None else ["two"]), "nothing is asked twice"
        again = await replay(client.engine, "t", options)
        assert (again.asked_before, await carried(again)) == (2, [])


@pytest.mark.rest
async def test_failed_replay_continues_where_it_stopped(scripted: Stage) -> None:
    differs = Differs(scripted.api, Fail(401, "authentication_error", "invalid x-api-key"))
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", "two", "three")
    command = ("threads", "replay", "t", "--with-model", OPUS, "--name", "n")
    failed = clew(scripted, *command)
    assert failed.code == 4
    assert "other on one" in failed.out and "(no answer)" in failed.out
    assert f"to continue: clew threads replay t --with-agent claude --with-model {OPUS} --name n" in failed.err
    again = clew(scripted, *command)
    assert again.code == 0
    assert "continuing n: 1 prompt of 3 answered before" in again.err
    assert differs.asked == ["one", "two", "two", "three"]
    assert clew(scripted, *command).code == 0
    assert differs.asked == ["one", "two", "two", "three"], "nothing is asked twice"
    async with scripted.open() as client:
        turns = [turn.text for turn in await (await client.find("n")).turns()]
    assert turns == ["one", "other on one", "two", "other on two", "three", "other on three"]


@pytest.mark.rest
async def test_ctrl_c_keeps_the_answers_and_an_incomplete_one_is_asked_again(scripted: Stage) -> None:
    differs = Differs(scripted.api, Hang("text", "half an ans"))
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", "two", "three")
    command = (
        "threads",
        "replay",
        "t",
        "--with-model",
        OPUS,
        "--name",
        "n",
        "--rounds",
        "2",
        "--timeout",
        "90s",
        "--json",
    )
    process = forkserver.start(
        command,
        env={**scripted.environ, "CLEW_MODEL": MODEL},
        cwd=scripted.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        scripted.api.wait_for_hanging(1, timeout_s=60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 7, err
    assert b'"code": "cancelled"' in out
    told = json.loads(out)["after"]
    assert (told["answers"], told["cut_off"]) == (1, 1)
    scripted.api.release()
    assert b"ask to continue" not in err, "who asks there breaks the replay"
    [line] = [line for line in err.decode().splitlines() if "to continue: clew " in line]
    again = clew(scripted, *line.partition("clew ")[2].split(), "--json")
    assert "continuing n: 1 prompt of 2 answered before" in again.err
    assert [each["after"]["text"] for each in again.json["rounds"]] == ["other on one", "other on two"]
    assert differs.asked == ["one", "two", "two"], "no more than was wanted"


@pytest.mark.parametrize("stopped_at", ["asking", "answered"])
async def test_replay_that_is_stopped_between_two_steps_can_be_continued(scripted: Stage, stopped_at: str) -> None:
    Differs(scripted.api)
    async with scripted.open() as client:
        await thread_of(client, scripted, "one", "two")
        live = await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n"))
        async for event in live.events():
            if event.kind == stopped_at:
                live.cancel()
        assert isinstance(live.error, Cancelled)
        again = await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n"))
        assert (again.is_continued, again.asked_before) == (True, stopped_at == "answered")
        await carried(again)
        assert again.error is None
        assert [each.after and each.after.text for each in await again.answers()] == ["other on one", "other on two"]


@pytest.mark.rest
async def test_an_invalid_replay_is_refused(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open(**{"agents.codex.path": "/nowhere/codex"}) as client:
        await carried_out(client, scripted, name="p", auto_save=False)
        Differs(scripted.api)
        await thread_of(client, scripted, "one", "two")
        await client.thread("empty", cwd=scripted.work)
        await carried(await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n", rounds=1)))
        known = len(await client.threads(limit=100))
        for name, wanted, error in (
            ("nobody", ReplayOptions(model=OPUS), NotFound),
            ("p", ReplayOptions(model=OPUS), UsageError),
            ("empty", ReplayOptions(model=OPUS), UsageError),
            ("t", ReplayOptions(model=OPUS, name="empty"), Conflict),
            ("t", ReplayOptions(model="another", name="n"), Conflict),
            ("t", ReplayOptions(model="--flag"), UsageError),
            ("t", ReplayOptions(model=""), UsageError),
            ("t", ReplayOptions(model=OPUS, cwd="/nowhere/at/all"), UsageError),
            ("t", ReplayOptions(agent="nobody"), UsageError),
            ("t", ReplayOptions(agent="codex"), AgentMissing),
        ):
            with pytest.raises(error):
                await replay(client.engine, name, wanted)
        worker = await replay(client.engine, "pair-p-worker", ReplayOptions(model=OPUS))
        assert (await carried(worker), worker.thread.kind) == (["asking", "answered"], "chat")
        assert len(await client.threads(limit=100)) == known + 1
        thread = await client.find("t")
        await thread.edit((await thread.turns())[0].id, "another one")
        with pytest.raises(Conflict, match="no longer have the same prompts"):
            await replay(client.engine, "t", ReplayOptions(model=OPUS, name="n"))
    assert clew(scripted, "threads", "replay", "t").code == 2
