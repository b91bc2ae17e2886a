"""A thread is exported from machine A to machine B. The next turn there resumes, or is fresh and says why."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from clew.agents.adapter import SessionView
from clew.agents.claude import Claude
from clew.engine.sessions.transfer import UNEXPLAINED
from clew.errors import AgentFailed, Busy, Conflict, UsageError
from clew.hosts.branching.merge import MergeOptions, merge
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import HISTORY, STATE, pack, read_export, unpack
from clew.hosts.transfer.imports import import_thread
from clew.store.transfer.codec import as_json, from_json
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, MODEL
from clew.testing.truth import TokenModel, expected, tokens
from conftest import make_stage
from transfer.machines import NOTHING, ask, continue_without_clew, exported, imported, two_machines


@pytest.mark.real
async def test_real_agents_resume_on_another_machine_with_the_history_shown_once(tmp_path: Path, api: ModelApi) -> None:
    voice = TokenModel(api)
    with two_machines(tmp_path, api, "real", codex=True) as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            of_claude = (await ask(thread, voice.prompt())).session_id
            of_codex = (await ask(thread, voice.prompt(), agent="codex")).session_id
        made = await exported(a)
        assert [each.included for each in made.sessions] == [True, True]
        came = await imported(b, made.content)
        assert [(each.agent, each.resumable) for each in came.sessions] == [("claude", True), ("codex", True)]
        assert (await exported(b)).content == made.content, "the export of an import holds the same"
        async with b.open() as client:
            thread = await client.find("t")
            assert thread.record.cwd == str(b.work)
            for agent, session in (("claude", of_claude), ("codex", of_codex)):
                history, prompt = await thread.turns(), voice.prompt()
                reply = await ask(thread, prompt, agent=agent)
                assert (reply.session_resumed, reply.reason, reply.session_id) == (True, None, session)
                assert b.launches[-1].resumes == session
                assert voice.shown == expected(history, prompt)
                assert len(tokens(b.prompt)) < len(voice.shown), "what the session holds is not sent again"
        assert not a.session_files()[0].samefile(b.session_files()[0])
    assert not api.refused_hosts


@pytest.mark.real
async def test_second_agent_resumes_where_its_default_model_is_not_known(tmp_path: Path, api: ModelApi) -> None:
    unnamed = {"agents.codex.model": None}  # as in Codex's own settings
    with two_machines(tmp_path, api, codex=True) as [a, b]:
        async with a.open(**unnamed) as client:
            thread = await client.thread("t", cwd=a.work)
            await ask(thread, "one")
            first = await ask(thread, "two", agent="codex")
            assert [turn.model for turn in await thread.turns()][1::2] == [MODEL, CODEX_MODEL]
        await imported(b, (await exported(a)).content)
        async with b.open(**unnamed) as client:
            reply = await ask(await client.find("t"), "three", agent="codex")
        assert (reply.session_resumed, reply.reason, reply.session_id) == (True, None, first.session_id)
        assert b.prompt == "three"


@pytest.mark.real
async def test_another_directory_of_the_same_home_resumes_in_a_copy(tmp_path: Path, api: ModelApi) -> None:
    with make_stage("real", tmp_path, api) as stage:
        async with stage.open() as client:
            first = await ask(await client.thread("t", cwd=stage.work), "first question")
        made = await exported(stage)
        [original] = stage.session_files()
        before = original.read_bytes()
        other = tmp_path / "other"
        other.mkdir()
        stage.clew_home = tmp_path / "second-store"
        came = await imported(stage, made.content, cwd=other)
        assert [each.resumable for each in came.sessions] == [True]
        async with stage.open() as client:
            reply = await ask(await client.find("t"), "second question")
        assert (reply.session_resumed, reply.session_id) == (True, first.session_id)
        assert stage.shown == [
            ("user", "first question"),
            ("assistant", "ack: first question"),
            ("user", "second question"),
        ]
        assert original.read_bytes() == before, "the other directory's session is left alone"


async def test_export_of_an_import_holds_the_same(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            for prompt in ("one", "two", "three"):
                await ask(thread, prompt)
            turns = await thread.turns()
            await thread.truncate(turns[4].id)
            await thread.edit(turns[0].id, "another one")
            await ask(thread, "four")
        made = await exported(a)
        await imported(b, made.content)
        again = await exported(b)
        assert again.content == made.content
        assert str(tmp_path).encode() not in unpack(made.content).parts[STATE], "nothing of the machine is in its rows"
        async with b.open() as client:
            thread = await client.find("t")
            assert [turn.text for turn in await thread.turns()][::2] == ["another one", "two", "four"]
            assert (await ask(thread, "five")).session_resumed


async def test_interrupted_prompt_is_settled_from_the_imported_file(tmp_path: Path, api: ModelApi) -> None:
    voice = TokenModel(api)
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            await ask(thread, voice.prompt())
            a.fault({"do": "crash_mid_text", "on": "resume"})
            with pytest.raises(AgentFailed):
                await ask(thread, voice.prompt())
        await imported(b, (await exported(a)).content)
        async with b.open() as client:
            thread = await client.find("t")
            history, prompt = await thread.turns(), voice.prompt()
            reply = await ask(thread, prompt)
            assert reply.session_resumed
            assert voice.shown == expected(history, prompt)


async def test_session_that_was_continued_in_the_plain_cli_is_not_exported(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            first = await ask(await client.thread("t", cwd=a.work), "one")
        continue_without_clew(a, str(first.session_id), "in between")
        made = await exported(a)
        [left] = made.sessions
        assert (left.included, "without Clew" in left.why) == (False, True)
        came = await imported(b, made.content)
        assert not came.sessions
        async with b.open() as client:
            reply = await ask(await client.find("t"), "two")
        assert (reply.session_resumed, reply.reason) == (False, "no_pin")
        assert b.prompt.splitlines().count("ack: one") == 1
        assert not list(b.home.glob(f".claude/projects/*/{first.session_id}.jsonl"))


async def test_another_file_of_the_session_is_never_overwritten(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), "one")
        made = await exported(a)
        [there] = (await imported(b, made.content, dry_run=True)).sessions
        assert there.path is not None and not there.path.exists(), "a dry run writes nothing"
        there.path.parent.mkdir(parents=True)
        there.path.write_text("somebody else's\n")
        [came] = (await imported(b, made.content)).sessions
        assert (came.resumable, came.path) == (False, there.path)
        assert "another file" in came.why
        assert there.path.read_text() == "somebody else's\n"
        async with b.open() as client:
            reply = await ask(await client.find("t"), "two")
        assert (reply.session_resumed, reply.reason) == (False, "no_pin")


async def test_session_that_its_file_does_not_confirm_is_not_resumed(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), "one")
        file = unpack((await exported(a)).content)
        [name] = [part for part in file.parts if part.startswith("sessions/")]
        forged = {**file.parts, name: file.parts[name].replace(b"ack: one", b"ack: two")}
        about = {key: file.manifest[key] for key in ("schema", "redacted", "thread")}
        [came] = (await imported(b, pack(about, forged))).sessions
        assert (came.resumable, came.why) == (
            False,
            UNEXPLAINED,
        )
        assert not b.session_files()


async def test_second_import_is_a_copy_under_new_ids_and_leaves_the_first_its_session(
    tmp_path: Path, api: ModelApi
) -> None:
    voice = TokenModel(api)
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            for _ in range(2):
                await ask(thread, voice.prompt())
        made = await exported(a)
        first, second = await imported(b, made.content), await imported(b, made.content)
        assert (first.renewed, second.renewed) == (False, True)
        assert [each.threads[0].name for each in (first, second)] == ["t", "t-2"]
        [session] = second.sessions
        assert session.why == "the session belongs to t already"
        with pytest.raises(Conflict):
            await imported(b, made.content, name="t")
        async with b.open() as client:
            threads = [await client.find(name) for name in ("t", "t-2")]
            ids = [{turn.id for turn in await thread.turns()} for thread in threads]
            assert not ids[0] & ids[1]
            for thread, resumed in zip(threads, (True, False), strict=True):
                history, prompt = await thread.turns(), voice.prompt()
                assert (await ask(thread, prompt)).session_resumed is resumed
                assert voice.shown == expected(history, prompt)


async def test_copy_under_new_ids_resumes_when_its_session_is_free(tmp_path: Path, api: ModelApi) -> None:
    """The ids are taken, but the session is free: what it absorbed is identified by digests of the new ids."""
    voice = TokenModel(api)
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), voice.prompt())
        made = await exported(a)
        file = unpack(made.content)
        about = {key: file.manifest[key] for key in ("schema", "redacted", "thread")}
        without = {name: part for name, part in file.parts.items() if not name.startswith("sessions/")}
        await imported(b, pack(about, without))
        came = await imported(b, made.content)
        assert (came.renewed, came.sessions[0].resumable) == (True, True)
        async with b.open() as client:
            thread = await client.find("t-2")
            history, prompt = await thread.turns(), voice.prompt()
            assert (await ask(thread, prompt)).session_resumed
            assert voice.shown == expected(history, prompt)


async def test_thread_with_a_run_in_progress_is_not_exported(tmp_path: Path, api: ModelApi) -> None:
    with make_stage("scripted", tmp_path, api) as stage:
        async with stage.open() as client:
            run = await (await client.thread("t", cwd=stage.work)).ask("!hang text words")
            await asyncio.to_thread(api.wait_for_hanging, 1)
            with pytest.raises(Busy):
                await exported(stage)
            await client.cancel(run.id)
            assert (await run.reply()).status == "cancelled"


class Slow(Claude):
    """An adapter whose session file takes long to read, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_end = threading.Event(), threading.Event()

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        self.began.set()
        assert self.may_end.wait(90)
        return super().read_session(path, since)


async def test_an_export_blocks_nobody_and_is_consistent(tmp_path: Path, api: ModelApi) -> None:
    slow = Slow()
    with make_stage("scripted", tmp_path, api) as stage:
        async with stage.open() as client, stage.open(adapters=[slow]) as other:
            thread = await client.thread("t", cwd=stage.work)
            await ask(thread, "one")
            leaving = asyncio.create_task(export_thread(other.engine, "t", NOTHING))
            try:
                assert await asyncio.to_thread(slow.began.wait, 60)
                await ask(await client.thread("another", cwd=stage.work), "not kept waiting")
                await ask(thread, "two")
            finally:
                slow.may_end.set()
            made = await leaving
    assert (made.turns, [left.included for left in made.sessions]) == (4, [True])
    [session] = [part for name, part in unpack(made.content).parts.items() if name.startswith("sessions/")]
    assert b"two" in session


async def test_machine_without_the_agent_imports_the_history(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), "one")
        made = await exported(a)
        async with b.open(**{"agents.claude.path": str(tmp_path / "nothing")}) as client:
            [came] = (await import_thread(client.engine, read_export(made.content), cwd=str(b.work))).sessions
            assert came.why == "there is no claude on this machine"
            assert [turn.text for turn in await (await client.find("t")).turns()] == ["one", "ack: one"]


async def test_import_gives_no_more_permissions_than_the_user_allows(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work, permissions="all", trust="project"), "one")
        made = await exported(a)
        came = await imported(b, made.content)
        assert (came.threads[0].permissions, came.threads[0].trust) == ("ask", "user")
        assert len(came.notes) == 2
        assert came.sessions[0].resumable


async def test_failed_import_leaves_nothing(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), "one")
        file = unpack((await exported(a)).content)
        about = {key: file.manifest[key] for key in ("schema", "redacted", "thread")}
        state = from_json(file.parts[STATE])
        state["events"][0]["run_id"] = "of nobody"
        with pytest.raises(UsageError):
            await imported(b, pack(about, {**file.parts, STATE: as_json(state)}))
        async with b.open() as client:
            assert not await client.threads()
        assert not b.session_files(), "the session's file was taken back"
        history = from_json(file.parts[HISTORY])
        history["turns"][0]["created_at"] = "yesterday"
        with pytest.raises(UsageError, match="created_at"):
            await imported(b, pack(about, {**file.parts, HISTORY: as_json(history)}))


async def test_session_files_are_private(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        async with a.open() as client:
            await ask(await client.thread("t", cwd=a.work), "one")
        content = (await exported(a)).content
        old = os.umask(0)
        try:
            [came] = (await imported(b, content)).sessions
        finally:
            os.umask(old)
        assert came.path is not None
        assert came.path.stat().st_mode & 0o777 == 0o600
        assert came.path.parent.stat().st_mode & 0o777 == 0o700
        assert [path.name for path in came.path.parent.iterdir()] == [came.path.name], "no draft is left"


@pytest.mark.rest
async def test_an_exported_fork_has_nothing_of_the_old_thread_after_it(tmp_path: Path, api: ModelApi) -> None:
    """A session that began with a transcript has only one prompt, so no copy of it can end earlier."""
    voice = TokenModel(api)
    with two_machines(tmp_path, api, codex=True) as [a, b]:
        async with a.open() as client:
            old = await client.thread("t", cwd=a.work)
            prompts = [voice.prompt() for _ in range(5)]
            for prompt in prompts[:4]:
                await ask(old, prompt)
            await ask(old, prompts[4], agent="codex")
            await ask(await client.thread("u", cwd=a.work), voice.prompt())
            await merge(client.engine, "t", "u", MergeOptions(name="both"))
            await ask(await client.find("both"), voice.prompt())
            for name in ("t", "both"):
                await client.fork(name, f"{name}-2", at_round=2)
        [codex] = a.codex_files()
        for name in ("t-2", "both-2"):
            made = await exported(a, name)
            assert made.sessions and not any(left.included for left in made.sessions)
            assert all("does not end where the fork does" in left.why for left in made.sessions)
            assert all(prompt.encode() in made.content for prompt in prompts[:2]), "the control"
            assert not any(prompt.encode() in made.content for prompt in prompts[2:])
            assert not (await imported(b, made.content)).sessions
        file = unpack((await exported(a, "t-2")).content)
        state = from_json(file.parts[STATE])
        [pin] = [pin for pin in state["pins"] if pin["agent"] == "codex"]
        pin["state"] = "good"
        forged = {**file.parts, STATE: as_json(state), f"sessions/codex/{pin['session_id']}.jsonl": codex.read_bytes()}
        about = {key: file.manifest[key] for key in ("schema", "redacted", "thread")}
        [came] = (await imported(b, pack(about, forged))).sessions
        assert (came.resumable, came.why) == (
            False,
            UNEXPLAINED,
        )
        assert not b.codex_files()


@pytest.mark.real
async def test_copy_in_which_a_fork_continues_ends_with_the_fork(tmp_path: Path, api: ModelApi) -> None:
    with make_stage("real", tmp_path, api) as stage:
        async with stage.open() as client:
            old = await client.thread("t", cwd=stage.work)
            for prompt in ("asked before", "asked beyond"):
                await ask(old, prompt)
            await client.fork("t", "copy", at_round=1)
            assert (await ask(await client.find("copy"), "asked after")).session_resumed
        made = await exported(stage, "copy")
        assert [left.included for left in made.sessions] == [True]
        assert (b"asked before" in made.content, b"asked beyond" in made.content) == (True, False)
