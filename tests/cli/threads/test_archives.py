"""Saved threads: listed by kind, age, size and cost, searched, archived, restored and cleaned up."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.api.client import Client
from clew.cli.jobs.work import tidy_daily
from clew.core.durations import DAY_S
from clew.errors import Busy, UsageError
from clew.server.worker import DaemonWork, running_worker
from clew.testing.stage import Stage


@pytest.fixture
def talk(cli: Any) -> Any:
    """Two turns and their answers."""
    cli.run("ask", "-t", "talk", "Why does the login fail?")
    cli.run("ask", "-t", "talk", "The queue is open_run()")
    return cli


def change(stage: Stage, statement: str, **values: object) -> None:
    """Changes a row as only time or a crash would."""
    raw = sqlite3.connect(stage.clew_home / "clew.db", isolation_level=None)
    raw.execute("PRAGMA foreign_keys = ON")
    raw.execute(statement, values)
    raw.close()


def age(stage: Stage, name: str, days: float) -> None:
    change(stage, "UPDATE threads SET updated_at = :at WHERE name = :name", at=time.time() - days * DAY_S, name=name)


def names(cli: Any, *options: str) -> list[str]:
    return [one["name"] for one in cli.run("threads", "list", *options, "--json").json]


def archive_files(stage: Stage) -> list[Path]:
    return sorted((stage.clew_home / "archive").glob("*.json"))


async def ask(client: Client, stage: Stage, name: str, *prompts: str, **options: Any) -> Any:
    thread = await client.thread(name, cwd=stage.work, **options)
    for prompt in prompts:
        await (await thread.ask(prompt))
    return thread


async def texts(client: Client, name: str) -> list[str]:
    return [turn.text for turn in await (await client.find(name)).turns()]


@pytest.mark.rest
def test_a_list_shows_kind_size_and_cost_and_is_narrowed_and_sorted(talk: Any, tmp_path: Path) -> None:
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    talk.run("ask", "-t", "small", "x", cwd=inner)
    change(talk.stage, "UPDATE threads SET kind = 'pair' WHERE name = 'small'")
    change(talk.stage, "UPDATE runs SET cost_usd = 5 WHERE thread_id = (SELECT id FROM threads WHERE name = 'small')")
    age(talk.stage, "talk", 8)

    [one] = talk.run("threads", "list", "--agent", "claude", "--json").json
    assert (one["name"], one["kind"], one["turns"]) == ("talk", "chat", 4)
    assert one["chars"] == sum(len(turn["text"]) for turn in talk.turns("talk"))
    assert names(talk, "--kind", "all", "--project", str(inner.parent)) == ["small"]
    assert names(talk, "--kind", "all", "--older-than", "7d", "--newer-than", "2w") == ["talk"]
    assert names(talk, "--kind", "all", "--sort", "cost", "--limit", "1") == ["small"]
    assert names(talk, "--kind", "all", "--sort", "size", "--offset", "1") == ["small"]
    row = talk.run("threads", "list", "--kind", "pair").out.splitlines()[1].split()
    assert row[:2] == ["small", "pair"] and "$5.0000" in row
    wrong = talk.run("threads", "list", "--older-than", "soon")
    assert wrong.code == 2 and "--older-than" in wrong.err


@pytest.mark.rest
def test_a_search_shows_the_thread_the_turn_and_the_words_around_the_hit(talk: Any) -> None:
    first = talk.turns("talk")[0]
    answer, prompt = talk.run("threads", "search", '"login fail"', "--json").json

    assert (answer["role"], prompt["role"]) == ("assistant", "user"), "the newest first; the answer repeats the prompt"
    assert (prompt["thread"], prompt["turn"], prompt["kind"]) == ("talk", first["id"], "chat")
    assert [prompt["snippet"][start:end] for start, end in prompt["hits"]] == ["login fail"]
    shown = talk.run("threads", "search", "LOGIN", "why", "--project", ".", "--limit", "1", "--offset", "1").out
    assert shown.startswith("talk  (chat)  ") and "»login«" in shown and first["id"][:8] in shown
    assert talk.run("threads", "search", "log*", "--kind", "job", "--json").json == []

    talk.run("threads", "truncate", "talk", talk.turns("talk")[2]["id"])
    assert talk.run("threads", "search", "open_run", "--json").json == []
    assert [hit["archived"] for hit in talk.run("threads", "search", "queue", "--all", "--json").json] == [True, True]


@pytest.mark.parametrize("query", ['*** " (((', "'; DROP TABLE turns; -- nothing\u202ehere"])
def test_a_meaningless_search_finds_nothing_and_says_so_in_one_line(cli: Any, query: str) -> None:
    done = cli.run("threads", "search", query)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("Nothing found for") and done.err.count("\n") == 1 and "\u202e" not in done.err


def test_control_characters_in_a_hit_are_made_visible(cli: Any) -> None:
    cli.run("ask", "-t", "t", "-", stdin="a needle \x1b[2J\x07 end")
    out = cli.run("threads", "search", "needle").out
    assert "\x1b" not in out and "\x07" not in out and "␛[2J" in out


@pytest.mark.rest
def test_an_archived_thread_is_restored_completely_and_resumes(talk: Any) -> None:
    before = talk.run("threads", "show", "talk", "--json").json
    done = talk.run("threads", "archive", "talk")

    [file] = archive_files(talk.stage)
    assert done.code == 0 and str(file) in done.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert talk.run("threads", "search", "login", "--all", "--json").json == []
    [listed] = talk.run("threads", "archives", "--json").json
    assert (listed["name"], listed["kind"], listed["turns"], listed["problem"]) == ("talk", "chat", 4, None)
    assert file.name in talk.run("threads", "archives").out

    back = talk.run("threads", "restore", "talk")
    assert back.code == 0 and "restored talk (4 turns); the next turn resumes" in back.err
    after = talk.run("threads", "show", "talk", "--json").json
    assert after.pop("updated_at") > before.pop("updated_at"), "a restored thread counts as used"
    assert after == before
    assert len(talk.run("threads", "search", "login", "--json").json) == 2
    assert talk.run("ask", "-t", "talk", "And now?", "--json").json["session_resumed"] is True
    assert file.exists(), "the archive stays"


async def test_without_its_session_file_a_restored_thread_starts_fresh_with_its_history(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await ask(client, scripted, "t", "one")
        archive = (await thread.delete()).archive
        for file in scripted.session_files():
            file.unlink()
        assert (await client.archives.restore(str(archive))).resumable == 0
        reply = await (await (await client.find("t")).ask("two"))
    assert (reply.session_resumed, reply.reason) == (False, "no_pin")
    assert "one" in scripted.prompt and "ack: one" in scripted.prompt


async def test_a_second_restore_is_a_copy_under_another_name_and_other_ids(scripted: Stage) -> None:
    async with scripted.open() as client:
        await ask(client, scripted, "t", "one")
        await client.archives.archive("t")
        await client.archives.restore("t")
        again = await client.archives.restore("t")
        first, second = await client.find("t"), await client.find("t-2")
        assert again.is_copy and again.resumable == 0, "a session has one thread"
        assert await texts(client, "t") == await texts(client, "t-2") == ["one", "ack: one"]
        assert {turn.id for turn in await first.turns()}.isdisjoint(turn.id for turn in await second.turns())
        resumed = [(await (await thread.ask("two"))).session_resumed for thread in (first, second)]
    assert resumed == [True, False]


async def test_odd_texts_and_every_row_survive_an_archive(scripted: Stage) -> None:
    odd = "NUL \0, half \ud83d, two halves that are no character \ud83d\ude00, the escape \x1a0000"
    async with scripted.open() as client:
        thread = await ask(client, scripted, "t", "one", "two", "three")
        turns = await thread.turns()
        await thread.edit(turns[0].id, odd)
        await thread.truncate(turns[4].id)
        whole = await client.engine.store.call(lambda store: store.threads.dump(thread.record.id))
        await client.archives.archive("t")
        await client.archives.restore("t")
        again = await client.engine.store.call(lambda store: store.threads.dump(thread.record.id))
    assert len(whole["turns"]) == 6 and whole["turns"][0]["text"] == odd
    for part in (whole, again):
        del part["thread"]["version"], part["thread"]["updated_at"]
    differ = [table for table in whole if whole[table] != again[table]]
    assert not differ, ascii([(whole[table], again[table]) for table in differ])


def wrong_schema(content: dict[str, Any]) -> None:
    content["schema"] = 9999


def no_thread(content: dict[str, Any]) -> None:
    del content["thread"]


def foreign_column(content: dict[str, Any]) -> None:
    content["turns"][0]["x) VALUES (1); DROP TABLE turns; --"] = 1


def wrong_type(content: dict[str, Any]) -> None:
    content["turns"][0]["position"] = {"a": 1}


def no_such_status(content: dict[str, Any]) -> None:
    content["runs"][0]["status"] = "levitating"


def turn_of_another(content: dict[str, Any]) -> None:
    content["turns"][0]["thread_id"] = "somebody else's"


def bad_name(content: dict[str, Any]) -> None:
    content["thread"]["name"] = "../../etc"


def one_id_twice(content: dict[str, Any]) -> None:
    content["turns"].append(content["turns"][0])


def rows_that_are_none(content: dict[str, Any]) -> None:
    content["runs"] = [1, None, "x"]


async def test_a_damaged_archive_is_refused_in_one_line_and_nothing_is_restored(
    scripted: Stage, tmp_path: Path
) -> None:
    harms: tuple[Callable[[dict[str, Any]], None], ...] = (
        wrong_schema,
        no_thread,
        foreign_column,
        wrong_type,
        no_such_status,
        turn_of_another,
        bad_name,
        one_id_twice,
        rows_that_are_none,
    )
    bad = tmp_path / "bad.json"
    async with scripted.open() as client:
        await ask(client, scripted, "t", "one")
        whole = (await client.archives.archive("t")).path.read_text("utf-8")  # type: ignore[union-attr]
        for harm in harms:
            content = json.loads(whole)
            harm(content)
            bad.write_text(json.dumps(content))
            with pytest.raises(UsageError) as caught:
                await client.archives.restore(str(bad))
            assert "\n" not in caught.value.message and str(bad) in caught.value.message, harm
            assert ("newer Clew" in caught.value.message) is (harm is wrong_schema)
        for text in (whole[:-200], "", "[]", "[" * 100_000, "\0"):
            bad.write_text(text)
            with pytest.raises(UsageError, match="damaged"):
                await client.archives.restore(str(bad))
        assert await client.threads() == []
        (archive_files(scripted)[0].parent / "odd.json").write_text("{")
        assert sorted(str(file.problem) for file in await client.archives.files()) == ["None", "damaged"]
        assert (await client.archives.restore("t")).turns == 2, "the whole one still comes back"


def test_what_cannot_be_restored_is_reported_in_one_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for given in (str(tmp_path / "bad.json"), "nobody", str(tmp_path)):
        done = cli.run("threads", "restore", given)
        assert done.code == 2 and "Traceback" not in done.err and len(done.err.splitlines()) <= 2


async def test_a_file_from_elsewhere_gets_no_extra_permissions(scripted: Stage, tmp_path: Path) -> None:
    async with scripted.open() as client:
        await ask(client, scripted, "t", "one", permissions="all", trust="project")
        archived = await client.archives.archive("t")
        assert archived.path is not None
        restored = await client.archives.restore(str(archived.path))
        assert (restored.threads[0].permissions, restored.threads[0].trust) == ("all", "project")
        await client.archives.archive("t")
        [file, *_] = archive_files(scripted)
        restored = await client.archives.restore(str(file.rename(tmp_path / "gift.json")))
        assert restored.is_narrowed
        assert (restored.threads[0].permissions, restored.threads[0].trust) == ("ask", "user")


@pytest.mark.rest
def test_the_name_of_a_thread_wins_over_a_file_of_the_same_name(talk: Any) -> None:
    talk.run("threads", "archive", "talk")
    (talk.stage.work / "talk").write_text("notes of mine")
    refused = talk.run("threads", "restore", "./talk")
    assert (refused.code, "is damaged" in refused.err) == (2, True)
    assert talk.run("threads", "restore", "talk").code == 0
    assert names(talk) == ["talk"]


@pytest.mark.rest
def test_a_restored_thread_is_not_cleaned_up_at_once(talk: Any) -> None:
    age(talk.stage, "talk", 100)
    assert talk.run("threads", "export", "talk").code == 0
    assert talk.run("threads", "clean", "--older-than", "7d").code == 0
    assert names(talk) == []
    talk.run("threads", "restore", "talk")
    talk.run("threads", "import", "talk.clew", "--name", "came")
    assert talk.run("threads", "clean", "--older-than", "7d").err == "Nothing to clean.\n"
    assert names(talk) == ["came", "talk"], "the last used first"
    assert talk.turns("talk")[0]["created_at"] == talk.turns("came")[0]["created_at"]


NOBODY = "~nosuchuser-of-this-machine/x"


@pytest.mark.parametrize(
    "args",
    [
        ("threads", "restore", "a" * 300),
        ("threads", "restore", NOBODY),
        ("threads", "import", "a" * 300),
        ("threads", "import", NOBODY),
        ("threads", "import", "there", "--cwd", "a" * 300),
        ("threads", "import", "there", "--identity", NOBODY),
        ("threads", "export", "talk", "--output", "a" * 300),
        ("threads", "export", "talk", "--output", NOBODY),
        ("threads", "export", "talk", "--passphrase-file", NOBODY),
        ("threads", "list", "--offset", "9" * 20),
        ("threads", "search", "login", "--offset", "9" * 20),
        ("ask", "hello", "--instructions", NOBODY),
        ("review", "export", "latest", "--output", NOBODY),
        ("review", "import", NOBODY),
        ("hooks", "fire", NOBODY),
        ("hooks", "import-sessions", NOBODY),
    ],
    ids=" ".join,
)
def test_impossible_names_and_numbers_are_refused_in_one_line(talk: Any, args: tuple[str, ...]) -> None:
    (talk.stage.work / "there").write_bytes(b"age-encryption.org/v1\n-> X25519 a\n")
    done = talk.run(*args)
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err and "internal error" not in done.err


@pytest.mark.rest
def test_a_row_of_a_list_is_always_one_line(talk: Any) -> None:
    change(talk.stage, "UPDATE threads SET cwd = :cwd, kind = :kind", cwd="/a\nb\tc\x1b[2J", kind="wild\x1b[2J\n")
    out = talk.run("threads", "list", "--kind", "all").out
    assert len(out.splitlines()) == 2 and "\x1b" not in out
    assert "/a␊b␉c␛[2J" in out and "wild␛[2J␊" in out


async def test_a_thread_in_use_is_neither_archived_nor_cleaned(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("busy", cwd=scripted.work)
        run = await thread.ask("!hang text wait")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, 60.0)
        age(scripted, "busy", 30)
        with pytest.raises(Busy, match="a run is active"):
            await client.archives.archive("busy")
        cleaned = await client.archives.clean(7 * DAY_S)
        run.kill()
        await run.reply()
        assert cleaned.archived == () and [name for name, _ in cleaned.kept] == ["busy"]
        assert archive_files(scripted) == [] and len(await client.threads()) == 1


QUEUED = "UPDATE runs SET status = 'queued', asked = '{\"lasting\": true}', owner_host = 'far', owner_pid = 1"
OPEN = (
    "INSERT INTO questions (run_id, id, thread_id, tool, input, is_form, state, asked_at)"
    " SELECT id, 'q', thread_id, 'Bash', '{}', 0, 'open', 1 FROM runs"
)


@pytest.mark.parametrize(("statement", "why"), [(QUEUED, "a prompt is queued"), (OPEN, "a question is open")])
async def test_a_waiting_run_or_question_keeps_its_thread(scripted: Stage, statement: str, why: str) -> None:
    async with scripted.open() as client:
        await ask(client, scripted, "old", "one")
        change(scripted, statement)
        age(scripted, "old", 30)
        cleaned = await client.archives.clean(7 * DAY_S)
        assert cleaned.archived == () and why in cleaned.kept[0][1]


async def test_an_active_job_keeps_its_thread_and_an_ended_one_is_restored_with_it(scripted: Stage) -> None:
    async with scripted.open() as client:
        await ask(client, scripted, "old", "one")
        change(
            scripted,
            "INSERT INTO jobs (id, thread_id, number, prompt, cwd, agent, permissions, status, key, limits, checkpoint,"
            " keep_files, tries, runs, resume_count, troubles, conflicts, cancel_requested, created_at)"
            " SELECT 'job', id, 1, 'one', cwd, agent, 'ask', 'queued', 'k', '{}', 0, 0, 0, 0, 0, 0, '[]', 0, 1"
            " FROM threads",
        )
        age(scripted, "old", 30)
        assert "a job has not ended" in (await client.archives.clean(7 * DAY_S)).kept[0][1]
        change(scripted, "UPDATE jobs SET status = 'succeeded', ended_at = 2")
        assert [one.name for one in (await client.archives.clean(7 * DAY_S, kind="chat")).archived] == ["old"]
        await client.archives.restore("old")
        job = await client.engine.store.call(lambda store: store.jobs.find("job"))
        assert job is not None and job.status == "succeeded"


PAIR = (
    "INSERT INTO pairs (id, name, task, cwd, agent, instructor_thread_id, worker_thread_id, models, thinking,"
    " max_rounds, last_round, number, phase, is_finished, asking, asked_at, asked_again, message, changed_files,"
    " created_at, updated_at) SELECT 'pair', 'p', 'task', i.cwd, 'claude', i.id, w.id, '[]', 0, 1, 1, 1, 'done',"
    " 1, '', 1, 0, '', '[]', 1, 1 FROM threads AS i, threads AS w WHERE i.name = 'one' AND w.name = 'two'"
)


async def test_the_two_threads_of_a_pair_are_archived_and_restored_together(scripted: Stage) -> None:
    async with scripted.open() as client:
        for name in ("one", "two"):
            await ask(client, scripted, name, name)
        change(scripted, PAIR)
        age(scripted, "one", 30)
        kept = (await client.archives.clean(7 * DAY_S)).kept
        assert "the other thread of its pair" in kept[0][1]
        age(scripted, "two", 30)
        [archived] = (await client.archives.clean(7 * DAY_S)).archived
        assert archived.turns == 4 and await client.threads() == [] and len(archive_files(scripted)) == 1
        back = await client.archives.restore(archived.name)
        assert {thread.name for thread in back.threads} == {"one", "two"} and back.resumable == 2
        pairs = await client.engine.store.call(lambda store: store.threads.dump(back.threads[0].id)["pairs"])
        assert [pair["id"] for pair in pairs] == ["pair"]


async def test_a_daemon_and_a_worker_clean_once_a_day(scripted: Stage) -> None:
    async with scripted.open(**{"retention.threads": "90d"}) as client:
        for way in ("daemon", "worker"):
            await ask(client, scripted, way, "one")
            age(scripted, way, 100)
            await client.engine.store.call(lambda store: store.key_values.set("threads_tidied_at", "1.0"))
            async with asyncio.timeout(60):
                if way == "daemon":
                    async with running_worker(client, DaemonWork(0), first_sweep_s=0.0):
                        while await client.threads():
                            await client.views.written()
                else:
                    tidying = asyncio.create_task(tidy_daily(client, first_s=0.0))
                    while await client.threads():
                        await client.views.written()
                    tidying.cancel()
        assert len(archive_files(scripted)) == 2


@pytest.mark.rest
def test_clean_archives_what_is_old_and_a_dry_run_only_says_so(talk: Any) -> None:
    age(talk.stage, "talk", 8)
    said = talk.run("threads", "clean", "--older-than", "7d", "--dry-run")
    assert "would archive talk (chat, 4 turns)" in said.err and archive_files(talk.stage) == []
    assert talk.run("threads", "clean", "--older-than", "7d", "--kind", "review").err == "Nothing to clean.\n"

    done = talk.run("threads", "clean", "--older-than", "7d", "--json").json
    assert [one["thread"] for one in done["archived"]] == ["talk"] and done["archived"][0]["archive"]
    assert names(talk) == [] and len(archive_files(talk.stage)) == 1


@pytest.mark.rest
def test_without_arguments_clean_does_what_the_settings_say(talk: Any) -> None:
    talk.run("threads", "archive", "talk")
    talk.run("threads", "restore", "talk")
    age(talk.stage, "talk", 100)
    assert talk.run("threads", "clean").err == "Nothing to clean.\n", "threads are kept unless the setting says so"
    [file] = archive_files(talk.stage)
    month_ago = time.time() - 31 * DAY_S
    os.utime(file, (0, 0))
    assert talk.run("threads", "clean").err == "Nothing to clean.\n", "its name says that it is new"
    file = file.rename(file.with_name(f"talk-{int(month_ago)}-abc.json"))
    os.utime(file)
    assert talk.run("threads", "clean").err == "Nothing to clean.\n", "it has just been put there"
    os.utime(file, (month_ago, month_ago))

    said = talk.run("threads", "clean", "--dry-run", CLEW_RETENTION_THREADS="90d").err
    assert "would archive talk" in said and f"would remove the archive {file.name}" in said and file.exists()
    assert talk.run("threads", "clean", CLEW_RETENTION_ARCHIVES="none").err == "Nothing to clean.\n"
    talk.run("threads", "clean", CLEW_RETENTION_THREADS="90d")
    assert not file.exists() and names(talk) == [] and len(archive_files(talk.stage)) == 1


async def test_a_day_passes_between_two_clean_ups_of_any_processes(scripted: Stage) -> None:
    async with scripted.open(**{"retention.threads": "90d"}) as client:
        await ask(client, scripted, "old", "one")
        age(scripted, "old", 100)
        first = await client.archives.tidy_if_due()
        assert first is not None and [one.name for one in first.archived] == ["old"]
        assert await client.archives.tidy_if_due() is None
        await client.engine.store.call(lambda store: store.key_values.set("threads_tidied_at", "1.0"))
        assert await client.archives.tidy_if_due() is not None
