"""Forks: what the model is shown in the new thread, and afterwards in the old one, which does not change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from branching.forks import forked, rounds, texts, true_turn
from clew.core.history import Visibility
from clew.core.runs.events import TextStreamed
from clew.core.thread import OriginKind, Permissions, Trust
from clew.engine.engine import Engine
from clew.engine.settings import EngineSettings
from clew.errors import Busy, Conflict, NotFound, UsageError
from clew.hosts.branching.fork import Forked, fork
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import HISTORY, STATE, pack, read_export, unpack
from clew.hosts.transfer.imports import import_thread
from clew.store.store import Store, open_store
from clew.store.transfer.codec import as_json, from_json
from clew.testing.model.api import ModelApi
from clew.testing.postgres import PostgresServer
from clew.testing.stage import CODEX_MODEL, Stage
from clew.testing.store_contract.samples import a_thread, a_turn
from clew.testing.truth import TokenModel, expected, tokens
from clew.wiring.engine import runtime_context
from conftest import make_stage
from transfer.machines import clew, continue_without_clew, go_back_without_clew, two_machines


class TestClaude:
    async def test_both_threads_continue_and_each_is_shown_its_own_turns(self, stage: Stage) -> None:
        voice = TokenModel(stage.api)
        async with stage.open() as client:
            old = await client.thread("t", cwd=stage.work)
            await rounds(old, voice, 3)
            before = await old.turns()
            [session] = stage.session_files()
            content, rows = (
                session.read_bytes(),
                await client.engine.store.call(lambda s: s.threads.dump(old.record.id)),
            )
            middle, made = await forked(client, at_round=2)
            end, _ = await forked(client, new="end")
            assert (made.turns, made.rounds, middle.name) == (4, 2, "t-fork")
            assert await texts(middle) == [turn.text for turn in before[:4]]
            assert (await middle.preview()).resumes and "copy" in (await middle.preview()).words
            first = await true_turn(middle, voice)
            assert (first.session_resumed, first.reason) == (True, None)
            launch = stage.launches[-1]
            assert launch.resumes == session.stem and launch.session_id == first.session_id != session.stem
            assert f"--resume-session-at={before[3].message_id}" in launch.argv
            assert (await true_turn(end, voice)).session_resumed
            assert session.read_bytes() == content, "not a byte of the original was written"
            assert await client.engine.store.call(lambda s: s.threads.dump(old.record.id)) == rows
            again = await true_turn(middle, voice)
            assert (again.session_resumed, again.session_id) == (True, first.session_id)
            went_on = await true_turn(old, voice)
            assert (went_on.session_resumed, went_on.session_id) == (True, session.stem)
            late, _ = await forked(client, new="late", at_round=1)
            dear = await true_turn(late, voice)
            assert dear.session_resumed
            assert 0 < dear.cost_usd < 1.5 * first.cost_usd, "what the original cost is not counted again"
            assert (await true_turn(end, voice)).session_resumed
            assert await client.engine.store.call(lambda store: store.check()) == []

    async def test_a_fork_of_a_fork(self, stage: Stage) -> None:
        voice = TokenModel(stage.api)
        async with stage.open() as client:
            old = await client.thread("t", cwd=stage.work)
            await rounds(old, voice, 1)
            child, _ = await forked(client, new="child")
            unused, _ = await forked(client, "child", "unused")
            assert (await true_turn(unused, voice)).session_resumed, "of one that has no session of its own yet"
            await rounds(child, voice, 2)
            for number in (1, 2):
                grandchild, made = await forked(client, "child", at_round=number)
                assert (await true_turn(grandchild, voice)).session_resumed
                assert made.threads[0].origin is not None
                assert [source.name for source in made.threads[0].origin.of] == ["child"]
            assert (await true_turn(child, voice)).session_resumed

    @pytest.mark.parametrize("what", ["edited", "truncated", "deleted", "gone on"])
    async def test_changes_of_the_original_do_not_affect_the_fork(self, scripted: Stage, what: str) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 3)
            copy, _ = await forked(client, at_round=2)
            [first, *_] = await old.turns()
            match what:
                case "edited":
                    await old.edit(first.id, "u99z")
                case "truncated":
                    await old.truncate(first.id)
                case "deleted":
                    await old.delete()
                case _:
                    await rounds(old, voice, 2)
            reply = await true_turn(copy, voice)
            assert reply.session_resumed
            assert reply.cost_usd < 0.01
            if what != "deleted":
                await true_turn(old, voice)
            assert (await true_turn(copy, voice)).session_id == reply.session_id

    async def test_an_edited_turn_is_copied_and_the_session_ends_before_it(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 3)
            history = await old.turns()
            await old.edit(history[3].id, "a77z, corrected")
            copy, _ = await forked(client)
            reply = await true_turn(copy, voice)
            assert reply.session_resumed
            assert f"--resume-session-at={history[1].message_id}" in scripted.launches[-1].argv
            assert "a77z, corrected" in scripted.prompt and tokens(history[0].text)[0] not in scripted.prompt

    async def test_a_fork_says_that_it_starts_fresh_because_of_an_edit(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            await old.edit((await old.turns())[0].id, "u77z, corrected")
            copy, _ = await forked(client)
            assert (await copy.preview()).reason == (await old.preview()).reason == "history_changed"
            reply = await true_turn(copy, voice)
            assert (reply.session_resumed, reply.reason) == (False, "history_changed")
            assert (await true_turn(copy, voice)).session_resumed

    @pytest.mark.rest
    async def test_an_interrupted_answer_is_copied_whole(self, stage: Stage) -> None:
        voice = TokenModel(stage.api)
        async with stage.open() as client:
            old = await client.thread("t", cwd=stage.work)
            await rounds(old, voice, 1)
            run = await old.ask(voice.prompt("slowly"))
            async for event in run:
                if isinstance(event, TextStreamed) and "two" in event.text:
                    run.cancel()
            partial = (await old.turns())[-1]
            assert partial.partial and "two" in partial.text
            before, _ = await forked(client, new="before")
            await true_turn(old, voice)  # the old session is sent the part of its own answer that it lacks
            for at in (2, 3):
                copy, _ = await forked(client, at_round=at)
                assert (await true_turn(copy, voice)).session_resumed
                assert partial.text in await texts(copy)
            assert (await true_turn(before, voice)).session_resumed
            assert (await true_turn(old, voice)).session_resumed

    async def test_a_first_turn_that_was_killed_is_not_lost(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            copy, _ = await forked(client, at_round=1)
            run = await copy.ask(voice.prompt("slowly"))
            async for event in run:
                if isinstance(event, TextStreamed):
                    run.kill()
            assert (await run.reply()).status != "answered"
            assert (await true_turn(copy, voice)).session_resumed, "in the copy, which holds the prompt"
            assert (await true_turn(old, voice)).session_resumed

    @pytest.mark.rest
    async def test_a_fork_during_a_run_leaves_its_round_out(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            run = await old.ask(f"{voice.prompt()} slowly slowly")
            async for event in run:
                if isinstance(event, TextStreamed):
                    break
            with pytest.raises(Busy, match="still being answered"):
                await fork(client.engine, "t", at_round=3)
            copy, made = await forked(client)
            assert made.rounds == 2 and "being answered" in made.notes[0]
            prompt = voice.prompt()
            history = await copy.turns()
            reply = await (await copy.ask(prompt))
            assert reply.session_resumed
            [request] = [each for each in scripted.api.main_requests if prompt in str(each.body)][-1:]
            assert voice.tokens_of(request) == expected(history, prompt)
            assert (await run.reply()).status == "answered"
            assert (await true_turn(old, voice)).session_resumed
            assert (await true_turn(copy, voice)).session_resumed

    @pytest.mark.rest
    async def test_the_copy_gets_the_current_standing_text(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await true_turn(old, voice, instructions="Speak softly.")
            await true_turn(old, voice)
            await true_turn(old, voice, instructions="Speak loudly.")
            early, _ = await forked(client, at_round=1)
            assert (await true_turn(early, voice)).session_resumed
            assert "Speak loudly." in scripted.prompt, "the session knew another text by then"
            late, _ = await forked(client)
            assert (await true_turn(late, voice)).session_resumed
            assert "Speak loudly." not in scripted.prompt, "it has been told"
            await true_turn(old, voice, instructions="")
            none, _ = await forked(client, at_round=2)
            await true_turn(none, voice)
            assert "no longer apply" in scripted.prompt

    async def test_a_session_from_before_a_fresh_start_is_found_again(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            first = scripted.session_files()[0].stem
            await true_turn(old, voice, fresh_session=True)
            copy, _ = await forked(client, at_round=1)
            assert (await true_turn(copy, voice)).session_resumed
            assert scripted.launches[-1].resumes == first
            whole, _ = await forked(client)
            assert (await true_turn(whole, voice)).session_resumed
            assert scripted.launches[-1].resumes not in (first, None)

    @pytest.mark.parametrize(
        ("damage", "reason"), [("unlink", "session_missing"), ("rewind", "session_diverged"), ("reject", "rejected")]
    )
    async def test_a_session_that_cannot_be_copied_any_more(self, scripted: Stage, damage: str, reason: str) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            copy, _ = await forked(client)
            [session] = scripted.session_files()
            if damage == "unlink":
                session.unlink()
            elif damage == "reject":
                scripted.fault({"do": "reject", "on": "resume"})
            else:  # somebody rewound to the first answer in the plain CLI, and continued from there
                go_back_without_clew(scripted, session.stem, voice.outside_prompt())
            reply = await true_turn(copy, voice)
            assert (reply.session_resumed, reply.reason) == (False, reason)
            scripted.fault()
            assert (await true_turn(copy, voice)).session_resumed

    async def test_a_session_that_was_continued_in_the_plain_cli_is_copied_up_to_that_point(
        self, scripted: Stage
    ) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            continue_without_clew(scripted, scripted.session_files()[0].stem, voice.outside_prompt())
            copy, _ = await forked(client)
            assert (await true_turn(copy, voice)).session_resumed

    async def test_an_adopted_session_can_be_forked(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            await old.delete()
            done = clew(scripted, "sessions", "adopt", "--all", "--json")
            name = done.json[0]["thread"]
            copy, _ = await forked(client, name, at_round=1)
            assert (await true_turn(copy, voice)).session_resumed


@pytest.mark.real
class TestCodex:
    async def test_it_is_copied_up_to_where_it_was_forked(self, tmp_path: Path, api: ModelApi) -> None:
        voice = TokenModel(api)
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            async with stage.open(agent="codex") as client:
                old = await client.thread("t", cwd=stage.work)
                await rounds(old, voice, 2)
                [session] = stage.codex_files()
                content = session.read_bytes()
                end, _ = await forked(client, new="end")
                unused, _ = await forked(client, "end", "unused")
                late, _ = await forked(client, new="late")
                early, _ = await forked(client, new="early", at_round=1)
                assert "copy" in (await early.preview()).words
                reply = await true_turn(early, voice)
                assert (reply.session_resumed, reply.reason) == (True, None), "up to the first answer"
                assert session.read_bytes() == content
                first = await true_turn(end, voice)
                assert first.session_resumed and first.session_id != session.stem[-36:]
                assert stage.launches[-1].resumes == first.session_id, "the copy was made before the turn"
                assert (await true_turn(unused, voice)).session_resumed, "a fork of a fork"
                assert session.read_bytes() == content, "not a byte of the original was written"
                child, _ = await forked(client, "end", "child")
                assert (await true_turn(child, voice)).session_resumed
                assert (await true_turn(old, voice)).session_id == session.stem[-36:]
                assert (await true_turn(late, voice)).session_resumed, "although the original has continued since"
                for thread in (end, child, early, late, old):
                    assert (await true_turn(thread, voice)).session_resumed
        assert not api.refused_hosts

    async def test_without_a_copy_the_turn_is_fresh(self, tmp_path: Path, api: ModelApi) -> None:
        voice = TokenModel(api)
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            async with stage.open(agent="codex") as client:
                await rounds(await client.thread("t", cwd=stage.work), voice, 2)
                copy, _ = await forked(client, new="copy")
                assert stage.codex is not None
                head, _, rest = stage.codex.read_text().partition("\n")
                refusal = '[ "$1" = app-server ] && echo no server today >&2 && exit 3'
                stage.codex.write_text(f"{head}\n{refusal}\n{rest}")
                reply = await true_turn(copy, voice)
                assert (reply.session_resumed, reply.reason, reply.fallback) == (False, "rejected", True)
                refused, _ = await client.attempts(reply.run)
                assert (refused.outcome, refused.exit_status, refused.stderr_tail) == ("rejected", 3, "no server today")
                assert (await true_turn(copy, voice)).session_id == reply.session_id
            assert not stage.processes()

    async def test_each_agent_continues_from_what_it_may_see(self, tmp_path: Path, api: ModelApi) -> None:
        voice = TokenModel(api)
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            async with stage.open() as client:
                old = await client.thread("t", cwd=stage.work, visibility="own")
                assert old.record.visibility is Visibility.OWN
                await rounds(old, voice, 2)
                await true_turn(old, voice, agent="codex", model=CODEX_MODEL)
                await true_turn(old, voice)
                for number, resumed_ in ((1, True), (2, True), (3, False), (4, True)):
                    copy, _ = await forked(client, at_round=number)
                    reply = await true_turn(copy, voice)
                    assert reply.session_resumed is resumed_, number
                both, _ = await forked(client, new="both", at_round=3)
                assert (await true_turn(both, voice, agent="codex", model=CODEX_MODEL)).session_resumed


async def in_store(where: Path | str, fill: Callable[[Store], object], *args: object, **options: object) -> Forked:
    """Forks a thread of a store, without an agent."""
    engine = Engine(open_store(where), {}, EngineSettings(), runtime_context({}))
    await engine.store.call(fill)
    try:
        return await fork(engine, *args, **options)  # type: ignore[arg-type]
    finally:
        await engine.close()


class TestRecord:
    @pytest.mark.parametrize("kind", ["review", "job", "hook", "chat"])
    async def test_a_thread_of_any_kind_becomes_a_chat_with_the_same_permissions(
        self, tmp_path: Path, postgres: PostgresServer, kind: str
    ) -> None:
        rights = {"permissions": Permissions.READ_ONLY, "trust": Trust.PROJECT, "cwd": "/tree"}

        def fill(store: Store) -> None:
            store.threads.create(a_thread(kind=kind, standing="Be kind.", **rights))
            store.turns.add("thread-1", a_turn("turn-1"))
            store.turns.edit("turn-1", "another", 20.0)

        made = await in_store(postgres.new_store() if kind == "hook" else tmp_path / "clew.db", fill, "maze")
        [thread] = made.threads
        assert (thread.kind, thread.standing) == ("chat", "Be kind.")
        assert {key: getattr(thread, key) for key in rights} == rights
        assert thread.origin is not None and (thread.origin.how, thread.origin.round) == (OriginKind.FORK, None)

    @pytest.mark.parametrize(
        ("args", "options", "error"),
        [
            (("nothing",), {}, NotFound),
            (("maze", "empty"), {}, Conflict),
            (("maze", "no name"), {}, UsageError),
            (("empty",), {}, UsageError),
            (("maze",), {"at_round": 2}, UsageError),
            (("maze",), {"at_round": 0}, UsageError),
            (("maze",), {"at_turn": "turn-9"}, NotFound),
            (("maze",), {"at_turn": ""}, UsageError),
            (("maze",), {"at_turn": "turn-1", "at_round": 1}, UsageError),
        ],
    )
    async def test_an_invalid_fork_is_refused_and_leaves_nothing(
        self, tmp_path: Path, args: tuple[str, ...], options: dict[str, object], error: type[Exception]
    ) -> None:
        def fill(store: Store) -> None:
            store.threads.create(a_thread())
            store.threads.create(a_thread("thread-2", "empty"))
            store.turns.add("thread-1", a_turn("turn-1"))

        with pytest.raises(error):
            await in_store(tmp_path / "clew.db", fill, *args, **options)
        with open_store(tmp_path / "clew.db") as store:
            assert sorted(thread.name for thread in store.threads.recent()) == ["empty", "maze"]

    @pytest.mark.rest
    async def test_the_command_previews_the_next_turn(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            await rounds(await client.thread("t", cwd=scripted.work), voice, 2)
        done = clew(scripted, "threads", "fork", "t", "--at-round", "1")
        assert (done.code, done.out) == (0, "t-fork\n")
        assert "t up to round 1: 2 turns" in done.err and "copy of the session" in done.err
        told = clew(scripted, "threads", "fork", "t", "other", "--json").json
        assert (told["name"], told["of"][0]["name"], told["turns"], told["rounds"]) == ("other", "t", 4, 2)
        assert told["id"] == told["threads"][0]["id"] and told["of"] == told["threads"][0]["origin"]["of"]
        assert told["threads"][0]["next_turn"]["resumes"] is True
        shown = clew(scripted, "threads", "show", "t-fork")
        assert "forked from t at round 1" in shown.out
        listed = {each["name"]: each["origin"] for each in clew(scripted, "threads", "list", "--json").json}
        assert listed["t"] is None and listed["t-fork"]["round"] == 1 and listed["other"]["of"][0]["name"] == "t"
        assert clew(scripted, "threads", "fork", "t", "--at-round", "1", "--at", "x").code == 2
        assert clew(scripted, "threads", "fork", "gone").code == clew(scripted, "threads", "show", "gone").code
        assert "Traceback" not in clew(scripted, "threads", "fork", "t", "other").err


class TestTravel:
    @pytest.mark.rest
    async def test_a_fork_that_was_archived_and_restored_continues_in_a_copy(self, scripted: Stage) -> None:
        voice = TokenModel(scripted.api)
        async with scripted.open() as client:
            old = await client.thread("t", cwd=scripted.work)
            await rounds(old, voice, 2)
            await forked(client, new="copy", at_round=1)
        assert clew(scripted, "threads", "archive", "copy").code == 0
        assert clew(scripted, "threads", "restore", "copy").code == 0
        async with scripted.open() as client:
            copy = await client.find("copy")
            assert copy.record.origin is not None and copy.record.origin.round == 1
            assert (await true_turn(copy, voice)).session_resumed
            assert (await true_turn(await client.find("t"), voice)).session_resumed

    @pytest.mark.rest
    async def test_a_fork_continues_elsewhere_with_the_session_or_with_the_transcript(
        self, tmp_path: Path, api: ModelApi
    ) -> None:
        voice = TokenModel(api)
        with two_machines(tmp_path, api) as [a, b]:
            async with a.open() as client:
                old = await client.thread("t", cwd=a.work)
                await rounds(old, voice, 2)
                await forked(client, new="whole")
                await forked(client, new="part", at_round=1)
                sent = [(await export_thread(client.engine, name, {})).content for name in ("whole", "part")]
            async with b.open() as client:
                for content, goes_on in zip(sent, (True, False), strict=True):
                    came = await import_thread(client.engine, read_export(content), cwd=str(b.work))
                    assert came.threads[0].origin is not None
                    copy = await client.find(came.threads[0].name)
                    assert (await true_turn(copy, voice)).session_resumed is goes_on
                    assert (await true_turn(copy, voice)).session_resumed

    @pytest.mark.rest
    async def test_files_of_a_version_without_forks_are_read(self, tmp_path: Path, api: ModelApi) -> None:
        voice = TokenModel(api)
        with two_machines(tmp_path, api) as [a, b]:
            async with a.open() as client:
                await rounds(await client.thread("t", cwd=a.work), voice, 1)
                file = unpack((await export_thread(client.engine, "t", {})).content)
            assert clew(a, "threads", "archive", "t").code == 0
            [archive] = (a.clew_home / "archive").glob("*.json")
            content = json.loads(archive.read_bytes())
            del content["thread"]["origin"]
            for pin in content["pins"]:
                del pin["borrowed_at"]
            archive.write_text(json.dumps(content | {"schema": 7}))
            assert clew(a, "threads", "restore", "t").code == 0
            parts = dict(file.parts)
            for part, table, column in ((HISTORY, "threads", "origin"), (STATE, "pins", "borrowed_at")):
                body = from_json(parts[part])
                for row in body[table]:
                    del row[column]
                parts[part] = as_json(body)
            about = {key: file.manifest[key] for key in ("redacted", "thread")} | {"schema": 7}
            async with b.open() as client:
                await import_thread(client.engine, read_export(pack(about, parts)), cwd=str(b.work))
            for stage in (a, b):
                async with stage.open() as client:
                    thread = await client.find("t")
                    assert thread.record.origin is None
                    assert (await true_turn(thread, voice)).session_resumed
