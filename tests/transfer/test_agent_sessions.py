"""`clew sessions`: lists and adopts sessions that were started in the plain CLIs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from clew.api.client import Client, Thread
from clew.core.ids import ThreadId
from clew.core.pins import PinState
from clew.core.runs.events import TextStreamed
from clew.errors import Busy, UsageError
from clew.hosts.chat.agent_sessions import AgentSessions
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.truth import TokenModel, expected
from conftest import make_stage
from transfer.machines import ask, clew, continue_without_clew, go_back_without_clew, two_machines
from transfer.session_files import plant, session_lines


def begin_claude(stage: Stage, prompt: str, *resume: str) -> None:
    subprocess.run(
        [str(stage.binary), "-p", prompt, "--model", MODEL, *resume],
        env=stage.environ,
        cwd=stage.work,
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def begin_codex(stage: Stage, prompt: str, *resume: str) -> None:
    subprocess.run(
        [str(stage.codex), "exec", *resume[:1], "--skip-git-repo-check", *resume[1:], "-"],
        input=prompt.encode(),
        env=stage.environ,
        cwd=stage.work,
        check=True,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.real
async def test_sessions_of_both_clis_become_threads_and_stay_usable_there(tmp_path: Path, api: ModelApi) -> None:
    voice = TokenModel(api)
    with make_stage("real", tmp_path, api, codex=True) as stage:
        prompts = {"claude": voice.prompt("from claude"), "codex": voice.prompt("from codex")}
        begin_claude(stage, prompts["claude"])
        begin_codex(stage, prompts["codex"])
        listed = {each["agent"]: each for each in clew(stage, "sessions", "list", "--json").json}
        assert {agent: each["first_words"] for agent, each in listed.items()} == prompts
        assert {each["cwd"] for each in listed.values()} == {str(stage.work)}
        assert {each["thread"] for each in listed.values()} == {None}
        files = {agent: Path(each["file"]).read_bytes() for agent, each in listed.items()}
        done = clew(stage, "sessions", "adopt", "--all", "--json")
        assert [(each["adopted"], each["turns"]) for each in done.json] == [(True, 2), (True, 2)]
        assert {agent: Path(each["file"]).read_bytes() for agent, each in listed.items()} == files
        again = clew(stage, "sessions", "adopt", "--all")
        assert (again.code, again.out, again.err.count("has it already")) == (0, "", 2)
        names = {each["agent"]: each["thread"] for each in clew(stage, "sessions", "list", "--json").json}
        async with stage.open() as client:
            for agent, name in names.items():
                thread = await client.find(name)
                assert thread.record.model == (MODEL if agent == "claude" else CODEX_MODEL)
                history, prompt = await thread.turns(), voice.prompt()
                assert history[0].text == prompts[agent]
                reply = await ask(thread, prompt)
                assert (reply.session_resumed, reply.session_id) == (True, listed[agent]["id"])
                assert voice.shown == expected(history, prompt)
            begin_claude(stage, voice.outside_prompt(), f"--resume={listed['claude']['id']}")
            assert len(voice.shown) == 5, "the plain CLI continues what Clew asked in it"
            begin_codex(stage, voice.outside_prompt(), "resume", listed["codex"]["id"])
            assert len(voice.shown) == 5
            for agent, name in names.items():
                thread, prompt = await client.find(name), voice.prompt()
                reply = await ask(thread, prompt)
                assert (reply.session_resumed, reply.session_id) == (True, listed[agent]["id"])
                *history, _, _ = await thread.turns()
                assert [turn.outside for turn in history] == [True, True, False, False, True, True]
                assert voice.shown == expected(history, prompt)
                assert any("2 turns were made outside Clew" in line for line in reply.warnings)
            session_id = listed["claude"]["id"]
            go_back_without_clew(stage, session_id, voice.outside_prompt())
            thread = await client.find(names["claude"])
            history, prompt = await thread.turns(), voice.prompt()
            reply = await ask(thread, prompt)
            assert (reply.session_resumed, reply.reason) == (False, "session_diverged")
            assert voice.shown == expected(history, prompt)
            assert any(f"`clew sessions adopt {session_id}`" in line for line in reply.warnings)
            await continues_in_two_threads(stage, client, voice, thread, session_id)
    assert not api.refused_hosts


async def continues_in_two_threads(
    stage: Stage, client: Client, voice: TokenModel, old: Thread, session_id: str
) -> None:
    """Adopts the session again: the new thread has its branch, and the old thread continues without it."""
    kept = await old.turns()
    [done] = clew(stage, "sessions", "adopt", session_id, "--json").json
    assert (done["adopted"], done["turns"]) == (True, 4)
    new = await client.find(done["thread"])
    assert new.name != old.name and await old.turns() == kept
    assert [turn.text for turn in await new.turns()][:2] == [turn.text for turn in kept][:2]
    for thread, is_of_session in ((new, True), (old, False)):
        history, prompt = await thread.turns(), voice.prompt()
        reply = await ask(thread, prompt)
        assert (reply.session_resumed, reply.session_id == session_id) == (True, is_of_session)
        assert voice.shown == expected(history, prompt)
    left = clew(stage, "sessions", "adopt", session_id)
    assert f"{new.name} has it already" in left.err


async def test_session_that_a_thread_owns_is_listed_with_the_thread(scripted: Stage) -> None:
    async with scripted.open() as client:
        await ask(await client.thread("mine", cwd=scripted.work), "first question")
    [listed] = clew(scripted, "sessions", "list", "--json").json
    assert (listed["thread"], listed["first_words"]) == ("mine", "first question")
    skipped = clew(scripted, "sessions", "adopt", listed["id"])
    assert (skipped.code, skipped.out) == (0, "")
    assert "mine has it already" in skipped.err
    assert clew(scripted, "ask", "-t", "mine", "second question").code == 0
    go_back_without_clew(scripted, listed["id"], "another way")
    told = clew(scripted, "threads", "show", "mine").err + clew(scripted, "threads", "show", "mine").out
    asked = clew(scripted, "ask", "-t", "mine", "third question")
    for said in (told, asked.err):
        assert "continued outside Clew; what was said there is not in this thread" in said
        assert f"`clew sessions adopt {listed['id']}`" in said
    assert "session_diverged" in {run["reason"] for run in clew(scripted, "runs", "list", "--json").json}


class TestContinuedOutside:
    """A session that a thread owns, and that somebody continued without Clew, from an earlier point."""

    async def test_two_threads_can_never_both_resume_it(self, scripted: Stage) -> None:
        """However many use it: its thread, a fork that borrows it, and concurrent adoptions."""
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            mine = await client.thread("mine", cwd=scripted.work)
            await ask(mine, voice.prompt())
            [_, first] = await mine.turns()
            await client.fork("mine", "fork", at_turn=first.id)
            reply = await ask(mine, voice.prompt())
            go_back_without_clew(scripted, str(reply.session_id), voice.outside_prompt())
            sessions = AgentSessions(client.engine)
            session = await sessions.find(str(reply.session_id))
            done = await asyncio.gather(*(sessions.adopt(session) for _ in range(3)))
            [new] = [each.thread for each in done if each.thread is not None]
            assert [each.turns for each in done if each.thread] == [4]
            assert all("already" in each.why for each in done if each.thread is None)
            threads = [mine, await client.find("fork"), await client.find(new)]
            states = await client.engine.store.call(
                lambda store: [pin.state for thread in threads for pin in store.pins.of_thread(thread.record.id)]
            )
            assert states == [PinState.RETIRED, PinState.GOOD, PinState.GOOD]
            resumed = []
            for thread in threads:
                history, prompt = await thread.turns(), voice.prompt()
                answer = await ask(thread, prompt)
                assert voice.shown == expected(history, prompt)
                resumed.append((answer.session_resumed, answer.session_id == reply.session_id))
                told = [line for line in answer.warnings if "not in this thread" in line]
                assert [f"it is in {new}" in line for line in told] == [True] * (thread is mine)
            assert not (await ask(mine, voice.prompt())).warnings, "it is said once"
            assert resumed == [(False, False), (True, False), (True, True)], "a fork continues in a copy"

    @pytest.mark.rest
    async def test_an_adoption_is_refused_during_a_run(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            mine = await client.thread("mine", cwd=scripted.work)
            await ask(mine, voice.prompt())
            session_id = str((await ask(mine, voice.prompt())).session_id)
            go_back_without_clew(scripted, session_id, voice.outside_prompt())
            run = await mine.ask(voice.prompt("slowly"))
            async for event in run:
                if isinstance(event, TextStreamed):
                    refused = clew(scripted, "sessions", "adopt", session_id)
                    assert (refused.code, refused.out) == (Busy.exit_code, "")
                    assert refused.err.startswith("clew: A run is in progress in mine.\n")
                    run.cancel()
            await run.reply()
            assert clew(scripted, "sessions", "adopt", session_id).code == 0

    async def test_an_unfinished_run_of_ours_does_not_count_as_continued_outside(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            mine = await client.thread("mine", cwd=scripted.work)
            await ask(mine, voice.prompt())
            run = await mine.ask(voice.prompt("slowly"))
            async for event in run:
                if isinstance(event, TextStreamed):
                    run.kill()
            session_id = str((await run.reply()).session_id)
            sessions = AgentSessions(client.engine)
            left = await sessions.adopt(await sessions.find(session_id))
            assert (left.thread, left.why) == (None, "mine has it already")
            continue_without_clew(scripted, session_id, voice.outside_prompt())
            left = await sessions.adopt(await sessions.find(session_id))
            assert (left.thread, left.why) == (None, "mine has it already"), "its turns come into that thread"
            go_back_without_clew(scripted, session_id, voice.outside_prompt())
            taken = await sessions.adopt(await sessions.find(session_id), dry_run=True)
            assert (taken.thread is not None, taken.turns) == (True, 4)

    async def test_a_session_that_its_thread_no_longer_uses_can_be_adopted_when_it_grew(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            mine = await client.thread("mine", cwd=scripted.work)
            old = str((await ask(mine, voice.prompt())).session_id)
            assert str((await ask(mine, voice.prompt(), fresh_session=True)).session_id) != old
            sessions = AgentSessions(client.engine)
            assert (await sessions.adopt(await sessions.find(old))).thread is None
            assert (await mine.sync(dry_run=True)).branched == ()
            continue_without_clew(scripted, old, voice.outside_prompt())
            for dry_run in (True, False):
                found = await mine.sync(dry_run=dry_run)
                assert (found.turns, found.branched) == ((), (old,))
            assert (await sessions.adopt(await sessions.find(old))).turns == 4
            assert (await mine.sync()).branched == ()
            reply = await ask(mine, voice.prompt())
            assert (reply.session_resumed, reply.warnings) == (True, ())

    async def test_without_follow_moves_every_continued_session_can_be_adopted(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open(follow_moves=False) as client:
            mine = await client.thread("mine", cwd=scripted.work)
            session_id = str((await ask(mine, voice.prompt())).session_id)
            continue_without_clew(scripted, session_id, voice.outside_prompt())
            assert (await mine.sync(dry_run=True)).turns == ()
            with pytest.raises(UsageError, match="follow_moves is false"):
                await mine.sync()
            assert (await ask(mine, voice.prompt())).reason == "session_diverged"
            sessions = AgentSessions(client.engine)
            assert (await sessions.adopt(await sessions.find(session_id))).turns == 4


async def test_a_session_whose_file_was_altered_is_adopted_and_not_resumed(scripted: Stage) -> None:
    """Different lines have the same id: it is not certain what the agent would be shown."""
    session_id, voice = str(uuid.uuid4()), TokenModel(scripted.api)
    lines = session_lines(session_id, scripted.work, voice.outside_prompt())
    first = next(line for line in map(json.loads, lines.splitlines()) if line["type"] == "user")
    forged = {**first, "message": {"role": "user", "content": "f77z"}}
    plant(scripted, session_id, json.dumps(forged).encode() + b"\n" + lines)
    [done] = clew(scripted, "sessions", "adopt", session_id, "--json").json
    async with scripted.open() as client:
        thread, prompt = await client.find(done["thread"]), voice.prompt()
        history = await thread.turns()
        assert len(history) == 2
        reply = await ask(thread, prompt)
        assert (reply.session_resumed, voice.shown) == (False, expected(history, prompt))


async def test_session_from_elsewhere_is_listed_with_its_threads_directory_and_first_prompt(
    tmp_path: Path, api: ModelApi
) -> None:
    with two_machines(tmp_path, api) as (a, b):
        rubric = a.folder / "rubric.md"
        rubric.write_text("Be brief.")
        assert clew(a, "ask", "-t", "t", "--instructions", rubric, "first question").code == 0
        file = b.folder / "t.clew"
        assert clew(a, "threads", "export", "t", "--output", file).code == 0
        assert clew(b, "threads", "import", file).code == 0
        [listed] = clew(b, "sessions", "list", "--project", b.work, "--json").json
        assert (listed["thread"], listed["cwd"], listed["first_words"]) == ("t", str(b.work), "first question")
        thread = ThreadId(clew(b, "threads", "show", "t", "--json").json["id"])
        async with b.open() as client:
            pair = a_pair(task="Build it.", instructor_thread_id=thread, worker_thread_id=thread)
            await client.engine.store.call(lambda store: store.pairs.create(pair))
        assert clew(b, "sessions", "list", "--json").json[0]["first_words"] == "Build it."


def test_files_that_are_not_sessions_are_not_listed(scripted: Stage) -> None:
    good, side = str(uuid.uuid4()), str(uuid.uuid4())
    plant(scripted, good, session_lines(good, scripted.work, "\x1b[31mred\nand more"))
    plant(scripted, "agent-0a1b2c3d", session_lines(good, scripted.work, "a subagent's"))
    plant(scripted, "agent-x", session_lines(good, scripted.work, "likewise"), folder=f"-some-project/{good}/subagents")
    plant(scripted, side, session_lines(side, scripted.work, "a side chain", isSidechain=True))
    plant(scripted, str(uuid.uuid4()), b"")
    plant(scripted, str(uuid.uuid4()), b"\0\xff rubbish\n{}\n[]\n")
    plant(scripted, str(uuid.uuid4()), b'{"type":"summary","summary":"no conversation"}\n')
    listed = clew(scripted, "sessions", "list")
    assert listed.out.count("\n") == 2
    assert good[:8] in listed.out
    assert "\x1b" not in listed.out


def test_sessions_are_chosen_by_directory_and_by_the_beginning_of_an_id(scripted: Stage) -> None:
    shop, gone = scripted.folder / "shop", scripted.folder / "gone"
    (shop / "inner").mkdir(parents=True)
    ids = [f"0a0a0a0a-0000-4000-8000-00000000000{n}" for n in range(4)]
    for number, cwd in enumerate((shop, shop / "inner", scripted.folder / "shopping", gone)):
        plant(scripted, ids[number], session_lines(ids[number], cwd, f"question {number}"), age_s=number)
    found = clew(scripted, "sessions", "list", "--project", shop, "--json").json
    assert [each["id"] for each in found] == ids[:2]
    assert clew(scripted, "sessions", "list", "--agent", "codex", "--json").json == []
    for wrong in ("0a0a", "0b0b", "", ".", "*"):
        refused = clew(scripted, "sessions", "adopt", wrong)
        assert (refused.code, refused.out) == (2, ""), wrong
    assert clew(scripted, "sessions", "adopt").code == 2
    assert clew(scripted, "sessions", "adopt", ids[0], "--all").code == 2
    missing = clew(scripted, "sessions", "adopt", ids[3])
    assert (missing.code, "its directory is gone" in missing.err) == (0, True)
    tried = clew(scripted, "sessions", "adopt", "--all", "--project", shop, "--dry-run", "--json")
    assert [(each["adopted"], each["turns"]) for each in tried.json] == [(True, 2), (True, 2)]
    assert clew(scripted, "threads", "list", "--json").json == []
    done = clew(scripted, "sessions", "adopt", ids[0], ids[1], "nothing-like-it", "--json")
    assert done.code == 2, "one of them is not there, and the others are adopted all the same"
    assert [each["adopted"] for each in done.json] == [True, True]
    threads = {each["name"]: each["cwd"] for each in clew(scripted, "threads", "list", "--json").json}
    assert threads == {"question-0": str(shop), "question-1": str(shop / "inner")}


def test_an_old_session_that_was_adopted_is_not_cleaned_away(scripted: Stage) -> None:
    old = str(uuid.uuid4())
    plant(scripted, old, session_lines(old, scripted.work, "long ago"), age_s=100 * 86_400.0)
    assert clew(scripted, "sessions", "adopt", old).code == 0
    assert clew(scripted, "threads", "clean", "--older-than", "7d").err == "Nothing to clean.\n"
    [turn, _] = clew(scripted, "threads", "show", "long-ago", "--json").json["turns"]
    assert turn["created_at"] < clew(scripted, "threads", "list", "--json").json[0]["updated_at"]


@pytest.mark.rest
def test_thousands_of_sessions_are_listed_without_being_read(scripted: Stage) -> None:
    content = session_lines("x", scripted.work, "a question")
    for number in range(3000):
        plant(scripted, str(uuid.UUID(int=number)), content, folder=f"-p{number % 50}", age_s=10 + number)
    huge = plant(scripted, str(uuid.uuid4()), content)
    os.truncate(huge, 20_000_000_000)  # far more than fits into memory, so it cannot have been read whole
    shown = clew(scripted, "sessions", "list")
    assert shown.out.count("\n") == 51
    assert "20.0 GB" in shown.out.splitlines()[1]
    assert len(clew(scripted, "sessions", "list", "--all", "--json").json) == 3001
