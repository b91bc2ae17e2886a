"""The real Codex CLI through the engine: every way in which its session may break, and what the model is shown then."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import forkserver
from clew.api.client import Client, Reply, Thread
from clew.core.history import Role, Visibility
from clew.core.ids import SessionId
from clew.core.pins import PinState
from clew.core.record import replace
from clew.core.runs.events import FellBack, ToolStarted, Warned
from clew.engine.process.probe import ABILITIES_VERSION
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Fail, Request, TooLong, newest_tool_result
from clew.testing.model.scripts import Reply as ModelReply
from clew.testing.stage import CODEX_MODEL, Stage
from clew.testing.truth import TokenModel, expected
from conftest import make_stage
from transfer.machines import clew

pytestmark = pytest.mark.real

DRIVER = Path(__file__).with_name("driver.py")
TOUCH = '!tool exec_command {"cmd": "touch made"}'


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options))  # type: ignore[arg-type]


async def outcome_of(client: Client, reply: Reply) -> str | None:
    return (await client.run(reply.run)).outcome


async def two_turns(stage: Stage, client: Client) -> Thread:
    thread = await client.thread("t", cwd=stage.work)
    await ask(thread, "first question")
    await ask(thread, "second question")
    return thread


async def without_digests(client: Client, thread: Thread) -> None:
    """Removes the digests, as in the pins of an older Clew, so that an altered file is not noticed."""
    [pin] = await client.engine.store.call(lambda store: store.pins.of_thread(thread.record.id))
    assert pin.mark is not None
    older = replace(pin, mark=replace(pin.mark, digest=None, stamp=None))
    await client.engine.store.call(lambda store: store.pins.save(older))


def use_plain_cli(stage: Stage, path: Path, prompt: str) -> None:
    """Continues the session outside Clew."""
    subprocess.run(
        [str(stage.codex), "exec", "resume", "--skip-git-repo-check", path.stem[-36:], "-"],
        input=prompt.encode(),
        env=stage.environ,
        cwd=stage.work,
        check=True,
        capture_output=True,
        timeout=60,
    )


def assert_fresh(stage: Stage, reply: Reply, reason: str, *transcript: str) -> None:
    assert (reply.session_resumed, reply.reason) == (False, reason)
    assert stage.launches[-1].resumes is None
    for text in transcript:
        assert stage.prompt.splitlines().count(text) == 1, f"{text!r} is not in the transcript once"
    assert len([role for role, _ in stage.shown if role == "user"]) == 1, "a fresh session begins with one message"


class TestSession:
    @pytest.mark.always
    async def test_first_turn_is_fresh_and_the_next_resumes_with_the_delta_alone(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            first = await ask(thread, "first question")
            assert (first.status, first.reason, first.text) == ("answered", "first_turn", "ack: first question")
            second = await ask(thread, "second question")
        assert (second.session_resumed, second.session_id) == (True, first.session_id)
        assert [launch.resumes for launch in codex.launches] == [None, first.session_id]
        assert codex.prompt == "second question"
        assert codex.shown == [
            ("user", "first question"),
            ("assistant", "ack: first question"),
            ("user", "second question"),
        ]

    async def test_usage_is_the_runs_own(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            third = await ask(thread, "third question")
        [one, two, three] = codex.api.main_requests
        assert three.cache.read_tokens == two.cache.prompt_tokens, "a resumed request extends the one before"
        assert third.usage.cache_read_input_tokens == three.cache.read_tokens
        assert third.usage.input_tokens == three.cache.prompt_tokens - three.cache.read_tokens
        assert third.usage.shown_tokens < one.cache.prompt_tokens + two.cache.prompt_tokens
        assert third.cost_usd == 0, "Codex tells no price"

    async def test_default_model_is_learnt_from_the_session(self, codex: Stage) -> None:
        async with codex.open(agent="codex", model="", **{"agents.codex.model": ""}) as client:
            thread = await client.thread("t", cwd=codex.work)
            first = await ask(thread, "first question")
            second = await ask(thread, "second question")
        assert (first.model, second.model) == (CODEX_MODEL, CODEX_MODEL)
        assert [launch.value("--model") for launch in codex.launches] == [None, CODEX_MODEL]
        assert second.session_resumed

    async def test_deleted_file_is_noticed_before_the_spawn(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            [path] = codex.codex_files()
            path.unlink()
            reply = await ask(thread, "third question")
            assert_fresh(codex, reply, "session_missing", "first question", "second question", "third question")
            assert (await ask(thread, "fourth question")).session_resumed
        assert len(codex.launches) == 4

    async def test_session_that_the_cli_refuses_falls_back_once(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            [path] = codex.codex_files()
            path.write_bytes(
                path.read_bytes().partition(b"\n")[2]
            )  # without the first line, which describes the session
            await without_digests(client, thread)
            run = await thread.ask("third question")
            fell_back = [event.reason async for event in run if isinstance(event, FellBack)]
            reply = await run
            assert fell_back == ["rejected"]
            assert_fresh(codex, reply, "rejected", "first question", "second question", "third question")
            assert reply.fallback
            assert (await ask(thread, "fourth question")).session_id == reply.session_id
        assert len(codex.launches) == 5

    async def test_session_in_use_falls_back_and_is_not_written_to(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            [path] = codex.codex_files()
            before = path.read_bytes()
            lock = codex.home / ".codex" / "thread-writer-locks" / f"{path.stem[-36:]}.lock"
            with lock.open("w") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                reply = await ask(thread, "third question")
            refused, _ = await client.attempts(reply.run)
        assert "already has an active writer" in refused.stderr_tail
        assert_fresh(codex, reply, "rejected", "first question", "second question", "third question")
        assert path.read_bytes() == before

    async def test_id_that_is_no_uuid_is_never_resumed(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            store = client.engine.store
            [pin] = await store.call(lambda store: store.pins.of_thread(thread.record.id))
            await store.call(lambda store: store.pins.save(replace(pin, session_id=SessionId("last"))))
            reply = await ask(thread, "third question")
        assert_fresh(codex, reply, "session_missing", "first question", "second question", "third question")
        assert "last" not in [word for launch in codex.launches for word in launch.argv]

    async def test_plain_cli_use_is_seen_as_diverged(self, codex: Stage) -> None:
        """Without `follow_moves`, as the chat design wants it."""
        async with codex.open(agent="codex", follow_moves=False) as client:
            thread = await two_turns(codex, client)
            [path] = codex.codex_files()
            use_plain_cli(codex, path, "from a terminal")
            reply = await ask(thread, "third question")
        assert_fresh(codex, reply, "session_diverged", "first question", "second question", "third question")
        assert "from a terminal" not in codex.prompt


class TestCompaction:
    async def test_codexs_own_summary_is_neither_a_turn_nor_a_break(self, codex: Stage) -> None:
        settings = codex.home / ".codex" / "config.toml"
        settings.write_text("model_auto_compact_token_limit = 9200\n" + settings.read_text())
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            replies = [await ask(thread, f"question {number} {'and more ' * 50}") for number in range(4)]
            turns = await thread.turns()
        assert [reply.session_resumed for reply in replies] == [False, True, True, True]
        assert len(codex.api.requests) > len(codex.api.main_requests) == 4, "it did ask for a summary"
        assert [turn.role for turn in turns] == [Role.USER, Role.ASSISTANT] * 4
        assert all("scripted summary" not in turn.text for turn in turns)


class TestFailures:
    @pytest.mark.parametrize(
        ("refusal", "outcome"),
        [
            (Fail(401, "invalid_api_key", "Incorrect API key"), "auth"),
            (Fail(429, "usage_limit_reached", "The usage limit has been reached"), "usage_limit"),
            (Fail(500, "server_error", "boom"), "overloaded"),
            (Fail(400, "invalid_request_error", "Unknown parameter"), "failed"),
        ],
    )
    async def test_failure_keeps_the_session_and_the_next_turn_resumes(
        self, codex: Stage, refusal: Fail, outcome: str
    ) -> None:
        voice = TokenModel(codex.api)
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            await ask(thread, voice.prompt())
            codex.api.script.append(refusal)
            failed = await (await thread.ask(voice.prompt())).reply()
            assert (failed.status, await outcome_of(client, failed), failed.session_resumed) == (
                "failed",
                outcome,
                True,
            )
            history, prompt = await thread.turns(), voice.prompt()
            reply = await ask(thread, prompt)
        assert reply.session_resumed
        assert voice.shown == expected(history, prompt, agent="codex")
        assert len(codex.launches) == 3

    async def test_poisoned_session_is_never_resumed_again(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            codex.api.script.append(
                Fail(400, "invalid_request_error", "No tool output found for function call call_9Bkp2mX.")
            )
            reply = await ask(thread, "third question")
            assert_fresh(codex, reply, "poisoned", "first question", "second question", "third question")
            pins = await client.engine.store.call(lambda store: store.pins.of_thread(thread.record.id))
        assert [pin.state for pin in pins] == [PinState.POISONED, PinState.GOOD]

    async def test_full_context_falls_back_with_a_transcript(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            codex.api.script.append(TooLong())
            reply = await ask(thread, "third question")
        assert_fresh(codex, reply, "overflow", "first question", "second question", "third question")

    async def test_no_fallback_after_a_tool_call_that_only_the_file_shows(self, codex: Stage) -> None:
        def full_after_the_tool(request: Request) -> ModelReply | None:
            return TooLong() if newest_tool_result(request.messages) is not None else None

        async with codex.open(agent="codex") as client:
            thread = await two_turns(codex, client)
            codex.api.reply = full_after_the_tool
            run = await thread.ask("!tool get_goal {}")
            assert not [event async for event in run if isinstance(event, ToolStarted)]
            reply = await run.reply()
            assert (await outcome_of(client, reply), reply.status, reply.fallback) == ("overflow", "failed", False)


class TestKills:
    @pytest.mark.parametrize(
        "point", ["spawned", "prompt_sent", "session_started", "result_read", "process_ended", "outcome_known"]
    )
    async def test_clew_killed_at_any_point_of_a_later_turn(self, codex: Stage, point: str) -> None:
        voice = TokenModel(codex.api)
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            await ask(thread, voice.prompt())
        await self._die_and_go_on(codex, voice, point)

    @pytest.mark.parametrize("point", ["spawned", "session_started", "result_read", "outcome_known"])
    async def test_clew_killed_at_any_point_of_the_first_turn(self, codex: Stage, point: str) -> None:
        await self._die_and_go_on(codex, TokenModel(codex.api), point)

    async def _die_and_go_on(self, codex: Stage, voice: TokenModel, point: str) -> None:
        killed = voice.prompt()
        _ask_and_die(codex, killed, point)
        async with codex.open(agent="codex") as client:
            assert not codex.processes()
            thread = await client.find("t")
            history, prompt = await thread.turns(), voice.prompt()
            assert [turn.text for turn in history if turn.role is Role.USER].count(killed) == 1
            reply = await ask(thread, prompt)
            assert voice.shown == expected(history, prompt, agent="codex")
            if point in ("result_read", "outcome_known"):
                assert reply.session_resumed, "the file has the whole turn"
            assert (await ask(thread, voice.prompt())).session_resumed

    async def test_a_job_whose_worker_was_killed_continues_in_a_copy_of_the_session(self, codex: Stage) -> None:
        options = ["--wait", "--agent", "codex", "--model", CODEX_MODEL, "--permissions", "all"]
        environ = {**codex.environ, "CLEW_FAULT": "tool_started"}
        died = forkserver.run("jobs", "submit", *options, TOUCH, env=environ, cwd=codex.work)
        assert died.returncode == -signal.SIGKILL, died.stderr
        async with codex.open(agent="codex") as client:
            [job] = await client.jobs.list()
            await client.carry_out(job.id)
            done = await client.jobs.find(job.id)
            assert (done.status, done.runs) == ("succeeded", 2), done
            first, second = reversed(await client.runs(thread=await client.find(job.thread_id)))
            thread = await client.find(job.thread_id)
            after = await ask(thread, "and now?")
        assert not codex.processes()
        assert sum(TOUCH in text for role, text in codex.shown if role == "user") == 1
        [_, launch, last] = codex.launches
        assert (launch.argv[:2], launch.resumes) == (("exec", "fork"), first.session_id)
        assert done.session_id == second.session_id != first.session_id
        [*_, asked, request] = codex.api.main_requests
        assert second.usage.shown_tokens == asked.cache.prompt_tokens, "its own, not that of the original too"
        assert (last.resumes, after.session_resumed) == (done.session_id, True)
        assert after.usage.shown_tokens == request.cache.prompt_tokens

    @pytest.mark.parametrize("where", ["request", "start", "text"])
    async def test_cancelled_turn_is_resumed_when_the_file_has_it(self, codex: Stage, where: str) -> None:
        voice = TokenModel(codex.api)
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            for number in range(2):
                run = await thread.ask(f"{voice.prompt()}\n!hang {where}")
                await asyncio.to_thread(codex.api.wait_for_hanging, 1)
                run.cancel()
                stopped = await run.reply()
                assert (stopped.status, stopped.text) == ("cancelled", "")
                assert not codex.processes()
                await asyncio.to_thread(codex.api.wait_for_hanging, 0)
                history, prompt = await thread.turns(), voice.prompt()
                reply = await ask(thread, prompt)
                assert (reply.session_resumed, reply.usage.shown_tokens > 0) == (True, True), number
                assert voice.shown == expected(history, prompt, agent="codex")

    async def test_a_repeated_prompt_that_did_not_arrive_is_not_mistaken_for_the_earlier_one(
        self, codex: Stage
    ) -> None:
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            await ask(thread, "begin")
            await ask(thread, "continue")
        _ask_and_die(codex, "continue", "spawned")  # the prompt has not been sent
        async with codex.open(agent="codex") as client:
            thread = await client.find("t")
            reply = await ask(thread, "and now?")
        assert reply.session_resumed
        words = "\n".join(text for role, text in codex.shown if role == "user").splitlines()
        assert (words.count("continue"), words.count("and now?")) == (2, 1)

    async def test_a_repeated_prompt_that_arrived_before_the_kill_is_not_sent_again(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work)
            await ask(thread, "continue")
            codex.api.script.append(Fail(500))
            await (await thread.ask("continue")).reply()
            reply = await ask(thread, "and now?")
        assert reply.session_resumed
        users = [text for role, text in codex.shown if role == "user"]
        assert users == ["continue", "continue", "and now?"]

    async def test_usage_after_a_killed_tool_is_still_the_runs_own(self, codex: Stage) -> None:
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work, permissions="all")
            await ask(thread, "begin")
            run = await thread.ask('!tool exec_command {"cmd": "sleep 60"}')
            async for event in run:
                if isinstance(event, ToolStarted):
                    run.kill()
            await run.reply()
            reply = await ask(thread, "and now?")
        last = codex.api.main_requests[-1].cache
        assert reply.session_resumed
        assert reply.usage.cache_read_input_tokens == last.read_tokens
        assert reply.usage.shown_tokens == last.prompt_tokens

    async def test_a_wrapper_script_does_not_leave_its_child_running(self, codex: Stage) -> None:
        """Like npm's wrapper: if it were ended alone, the native binary and its lock would be left."""
        assert codex.codex is not None
        launcher = codex.folder / "bin" / "npm-codex"
        launcher.write_text(f'#!/bin/sh\nexec 3<&0\n{codex.codex} "$@" <&3 3<&- &\nwait $!\n')
        launcher.chmod(0o755)
        async with codex.open(agent="codex", **{"agents.codex.path": str(launcher)}) as client:
            thread = await client.thread("t", cwd=codex.work)
            first = await ask(thread, "begin")
            run = await thread.ask("!hang start")
            await asyncio.to_thread(codex.api.wait_for_hanging, 1)
            run.kill()
            await run.reply()
            assert not codex.processes()
            assert (await ask(thread, "and now?")).session_id == first.session_id


class TestPermissions:
    @pytest.mark.parametrize(("permissions", "made"), [("ask", False), ("read-only", False), ("all", True)])
    async def test_permissions_hold_on_every_turn(self, codex: Stage, permissions: str, made: bool) -> None:
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work, permissions=permissions)
            run = await thread.ask("begin")
            warned = [event.code async for event in run if isinstance(event, Warned)]
            assert warned == (["cannot_ask"] if permissions == "ask" else [])
            reply = await ask(thread, TOUCH)
        assert reply.session_resumed
        assert (codex.work / "made").exists() is made

    @pytest.mark.parametrize("permissions", ["read-only", "edits", "all"])
    async def test_repositorys_own_settings_load_only_where_trusted(self, codex: Stage, permissions: str) -> None:
        settings = codex.work / ".codex" / "config.toml"
        settings.parent.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=codex.work, check=True)
        started = codex.folder / "started"
        settings.write_text(
            'developer_instructions = "OF THE REPOSITORY"\n'
            f'[mcp_servers.evil]\ncommand = "/bin/sh"\nargs = ["-c", "touch {started}"]\n'
        )
        own = (codex.home / ".codex" / "config.toml").read_text()
        async with codex.open(agent="codex") as client:
            thread = await client.thread("t", cwd=codex.work, permissions=permissions)
            await ask(thread, "begin")
            await ask(thread, "and now?")
            assert "OF THE REPOSITORY" not in str(codex.api.main_requests[-1].body)
            assert not started.exists()
            assert (codex.home / ".codex" / "config.toml").read_text() == own, "it trusts nothing behind our back"
            trusting = await client.thread("trusting", cwd=codex.work, permissions=permissions, trust="project")
            await ask(trusting, "begin")
        assert "OF THE REPOSITORY" in str(codex.api.main_requests[-1].body)
        assert started.exists()


async def test_a_probe_that_lacks_later_fields_is_still_read(scripted: Stage) -> None:
    async with scripted.open() as client:
        await ask(await client.thread("t", cwd=scripted.work), "first question")
    with contextlib.closing(sqlite3.connect(scripted.clew_home / "clew.db")) as database, database:
        database.execute("UPDATE probes SET body = json_remove(body, '$.asks', '$.streams')")
    async with scripted.open() as client:
        reply = await ask(await client.find("t"), "second question")
    assert (reply.session_resumed, scripted.probes) == (True, 1)


async def test_a_probe_that_an_older_clew_stored_is_not_used(scripted: Stage) -> None:
    """An older Clew read less from the same help: its Codex could not rewind. The key of its probe had no version."""
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, "first question")
        await ask(thread, "second question")
        await thread.edit((await thread.turns())[2].id, "second question, put better")
    with contextlib.closing(sqlite3.connect(scripted.clew_home / "clew.db")) as database, database:
        [stamp] = [row[0] for row in database.execute("SELECT stamp FROM probes")]
        version, _, of_the_file = stamp.partition("/")
        assert version == str(ABILITIES_VERSION)
        database.execute(
            "UPDATE probes SET stamp = ?, body = json_set(body, '$.rewind', json('false'))", (of_the_file,)
        )
    reply = clew(scripted, "ask", "-t", "t", "--json", "third question").json  # this process may remember its own probe
    assert (reply["session_resumed"], reply["rewound_to"], scripted.probes) == (True, 2, 2)


@pytest.mark.parametrize("seed", range(3))
async def test_model_is_shown_the_truth_on_a_random_walk(codex: Stage, seed: int) -> None:
    """Law 1 with two agents in one thread, after random changes to turns, files and processes."""
    dice, voice = random.Random(seed), TokenModel(codex.api)
    visibility = dice.choice(list(Visibility))
    resumed = 0
    async with codex.open() as client:
        thread = await client.thread("t", cwd=codex.work, visibility=visibility.value)
        for _ in range(12):
            await happen(dice, codex, voice, thread)
            prompt, agent = voice.prompt(), dice.choice(["codex", "codex", "claude"])
            reply = await ask(thread, prompt, agent=agent)
            resumed += reply.session_resumed
            # Turns that were made outside have come in before. The session had them before what it was sent now.
            history = [turn for turn in await thread.turns() if turn.run_id != reply.run]
            truth = expected(history, prompt, agent=agent, visibility=visibility)
            in_order = not any(turn.outside for turn in history)
            assert voice.shown == truth if in_order else sorted(voice.shown) == sorted(truth)
    assert resumed, "some of it was resumed"


async def happen(dice: random.Random, codex: Stage, voice: TokenModel, thread: Thread) -> None:
    turns, files = await thread.turns(), codex.codex_files()
    match dice.choice(["nothing"] * 5 + ["edit", "truncate", "delete", "plain", "cancel", "fail"]):
        case "edit" if turns:
            await thread.edit(dice.choice(turns).id, voice.prompt("edited"))
        case "truncate" if turns:
            await thread.truncate(dice.choice(turns).id)
        case "delete" if files:
            dice.choice(files).unlink()
        case "plain" if files:
            use_plain_cli(codex, dice.choice(files), voice.outside_prompt())
        case "cancel":
            run = await thread.ask(f"{voice.prompt()}\n!hang start", agent="codex")
            await asyncio.to_thread(codex.api.wait_for_hanging, 1)
            run.cancel()
            await run.reply()
        case "fail":
            codex.api.script.append(Fail(500))
            await (await thread.ask(voice.prompt(), agent="codex")).reply()


class TestSwitch:
    """Both real binaries in one thread."""

    @pytest.fixture
    def both(self, tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
        with make_stage("real", tmp_path, api, codex=True) as stage:
            yield stage

    @pytest.mark.parametrize("visibility", [Visibility.SHARED, Visibility.OWN])
    async def test_every_agent_is_shown_the_truth_at_every_switch(self, both: Stage, visibility: Visibility) -> None:
        voice = TokenModel(both.api)
        resumed: list[bool] = []
        async with both.open() as client:
            thread = await client.thread("t", cwd=both.work, visibility=visibility.value)
            for agent in ("claude", "claude", "codex", "codex", "claude", "codex", "claude"):
                history, prompt = await thread.turns(), voice.prompt()
                reply = await ask(thread, prompt, agent=agent)
                assert voice.shown == expected(history, prompt, agent=agent, visibility=visibility)
                assert both.launches[-1].agent == agent
                assert (both.launches[-1].resumes is not None) is reply.session_resumed
                resumed.append(reply.session_resumed)
        own = visibility is Visibility.OWN
        assert resumed == [False, True, False, True, *([False] * 3 if own else [True] * 3)]

    @pytest.mark.always
    async def test_going_back_catches_up_on_the_others_turns(self, both: Stage) -> None:
        async with both.open() as client:
            thread = await client.thread("t", cwd=both.work)
            first = await ask(thread, "asked of claude")
            second = await ask(thread, "asked of codex", agent="codex")
            assert (second.reason, both.launches[-1].resumes) == ("no_pin", None)
            assert both.prompt.splitlines().count("asked of claude") == 1
            third = await ask(thread, "asked of claude again")
            assert (third.session_resumed, both.launches[-1].resumes) == (True, first.session_id)
            assert both.prompt.splitlines().count("asked of codex") == 1
            assert "asked of claude\n" not in both.prompt, "only what the session lacks"
            fourth = await ask(thread, "asked of codex again", agent="codex")
        assert (fourth.session_resumed, both.launches[-1].resumes) == (True, second.session_id)
        assert both.prompt.splitlines().count("asked of claude again") == 1

    async def test_edit_of_a_foreign_turn_keeps_the_own_session(self, both: Stage) -> None:
        async with both.open() as client:
            thread = await client.thread("t", cwd=both.work, visibility="own")
            await ask(thread, "asked of claude")
            first = await ask(thread, "asked of codex", agent="codex")
            await thread.edit((await thread.turns())[0].id, "asked of claude, edited")
            reply = await ask(thread, "asked of codex again", agent="codex")
        assert (reply.session_resumed, both.launches[-1].resumes) == (True, first.session_id)
        assert both.prompt == "asked of codex again"

    async def test_edit_of_a_shared_foreign_turn_breaks_it(self, both: Stage) -> None:
        async with both.open() as client:
            thread = await client.thread("t", cwd=both.work)
            await ask(thread, "asked of claude")
            await ask(thread, "asked of codex", agent="codex")
            await thread.edit((await thread.turns())[0].id, "asked of claude, edited")
            reply = await ask(thread, "asked of codex again", agent="codex")
        assert_fresh(both, reply, "history_changed", "asked of claude, edited", "asked of codex")

    @pytest.mark.parametrize("how", ["truncate", "retry"])
    async def test_truncating_at_the_foreign_boundary_breaks_the_own_session(self, both: Stage, how: str) -> None:
        async with both.open() as client:
            thread = await client.thread("t", cwd=both.work, visibility="own")
            await ask(thread, "asked of claude")
            await ask(thread, "asked of codex", agent="codex")
            question, answer, *_ = await thread.turns()
            if how == "truncate":
                await thread.truncate(answer.id)
            else:
                await (await thread.retry(question.id))
            reply = await ask(thread, "asked of codex again", agent="codex")
        assert_fresh(both, reply, "history_changed", "asked of codex again")
        assert "asked of codex" not in both.prompt.splitlines()


def _ask_and_die(stage: Stage, prompt: str, point: str) -> None:
    environ = {**stage.environ, "CLEW_FAULT": point, "CLEW_AGENT": "codex", "CLEW_CODEX_MODEL": CODEX_MODEL}
    done = forkserver.run(str(stage.work), prompt, CODEX_MODEL, script=DRIVER, env=environ)
    assert done.returncode == -signal.SIGKILL, done.stderr
