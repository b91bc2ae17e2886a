"""Commands on saved threads: every effect is reported, and each is complete or not done at all."""

from __future__ import annotations

import fcntl
import re
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from clew.cli.ui.tables import cells, cut
from clew.core.thread import Thread
from clew.errors import Busy
from clew.store.store import Store
from clew.testing.stage import Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread, a_turn

DAY_S = 86_400.0


async def put(stage: Stage, *threads: Thread, pair: str | None = None) -> None:
    """Stores threads with one old turn each; the first two may belong to a pair."""

    def make(store: Store) -> None:
        with store.transaction():
            for thread in threads:
                store.threads.create(thread)
                store.turns.add(thread.id, a_turn(f"turn-{thread.id}"))
            if pair is not None:
                names = {"instructor_thread_id": threads[0].id, "worker_thread_id": threads[1].id}
                store.pairs.create(a_pair(name=pair, cwd=str(stage.work), **names))

    async with stage.open() as client:
        await client.engine.store.call(make)


def a_couple(**changes: Any) -> list[Thread]:
    return [a_thread(f"id-{part}", f"pair-two-{part}", kind="pair", **changes) for part in ("instructor", "worker")]


def archive_files(stage: Stage) -> list[Path]:
    return sorted((stage.clew_home / "archive").glob("*.json"))


async def test_deleting_one_thread_of_a_pair_deletes_both_and_says_so(cli: Any) -> None:
    await put(cli.stage, *a_couple(), pair="two")

    planned = cli.run("threads", "delete", "pair-two-worker", "--dry-run")
    assert planned.err == "would delete: pair-two-worker and pair-two-instructor (2 turns)\n"
    done = cli.run("threads", "delete", "pair-two-worker", "pair-two-instructor", "--yes", "--json")

    [file] = archive_files(cli.stage)
    assert done.json == [
        {"thread": "pair-two-worker", "others": ["pair-two-instructor"], "turns": 2, "archive": str(file)}
    ]
    assert "deleted pair-two-worker and pair-two-instructor (clew threads restore pair-two-worker" in done.err
    assert cli.run("threads", "restore", "pair-two-worker").code == 0
    async with cli.stage.open() as client:
        assert (await client.pairs.find("two")).pair.worker_thread_id == "id-worker"
        assert len(await client.threads()) == 2


@pytest.mark.rest
async def test_a_pair_is_archived_and_deleted_by_its_own_name(cli: Any) -> None:
    await put(cli.stage, *a_couple(), pair="two")
    both = {"pair-two-instructor", "pair-two-worker"}

    sent = cli.run("threads", "export", "two", "--json").json
    assert (sent["file"], set(sent["threads"])) == ("two.clew", both)
    for way in (("archive",), ("delete", "--yes")):
        [gone] = cli.run("threads", way[0], "two", "pair-two-worker", *way[1:], "--json").json
        assert {gone["thread"], *gone["others"]} == both
        assert cli.run("threads", "list", "--kind", "all", "--json").json == []
        assert cli.run("threads", "restore", "pair-two-worker").code == 0
    url = f"file://{cli.stage.work}/remote"
    pushed = cli.run("threads", "push", url, "pair-two-worker", "two")
    assert pushed.out == "two  pushed\n", "once, and under the pair's name"
    assert [each["name"] for each in cli.run("threads", "pull", url, "--json").json["threads"]] == ["two"]
    assert cli.run("threads", "pull", url, "two").out == "two  nothing new\n"
    assert cli.run("threads", "delete", "two", "--yes").code == 0
    pulled = cli.run("threads", "pull", url, "two")
    assert (pulled.code, pulled.out) == (0, "two  pulled\n"), pulled.err
    assert {each["name"] for each in cli.run("threads", "list", "--kind", "all", "--json").json} == both


async def test_an_open_question_of_a_run_that_is_over_keeps_a_thread_from_the_archive_but_not_from_delete(
    scripted: Stage,
) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one"))
        raw = sqlite3.connect(scripted.clew_home / "clew.db", isolation_level=None)
        raw.execute(  # only a crash would leave it so
            "INSERT INTO questions (run_id, id, thread_id, tool, input, is_form, state, asked_at)"
            " SELECT id, 'q', thread_id, 'AskUserQuestion', '{}', 1, 'open', 1 FROM runs"
        )
        raw.close()
        with pytest.raises(Busy, match="a question is open"):
            await client.archives.archive("t")
        assert (await thread.delete()).archive is not None
        assert await client.threads() == []


async def test_restoring_several_threads_starts_only_when_all_are_found(cli: Any) -> None:
    await put(cli.stage, a_thread("1", "a"), a_thread("2", "b"))
    archived = cli.run("threads", "archive", "a", "b", "--json").json
    assert [(one["thread"], one["turns"]) for one in archived] == [("a", 1), ("b", 1)]

    refused = cli.run("threads", "restore", "a", "b", "nope")
    assert (refused.code, "There is no archive of 'nope'" in refused.err) == (2, True)
    assert cli.run("threads", "list", "--json").json == []

    Path(archived[1]["archive"]).write_text("{")
    halfway = cli.run("threads", "restore", "a", archived[1]["archive"])
    assert (halfway.code, halfway.err.splitlines()[0][:10]) == (2, "restored a"), "what was restored is reported"


async def test_a_clean_up_that_is_stopped_says_how_much_was_done(cli: Any) -> None:
    await put(cli.stage, *(a_thread(f"id-{number}", f"thread-{number}") for number in range(200)))
    process = cli.start("threads", "clean", "--older-than", "7d")
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)  # so that it cannot get far ahead of the reader
    first = process.stderr.readline().decode()
    assert first.startswith("archived thread-0 (chat, 1 turn): ")

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    lines = err.decode().splitlines()
    assert process.returncode == 7
    gone = len(archive_files(cli.stage))
    assert 0 < gone < 200
    assert lines[-2] == f"clew: Stopped: archived {gone} thread{'s' if gone > 1 else ''}."
    assert sum(line.startswith("archived thread-") for line in [first, *lines]) == gone


@pytest.mark.rest
async def test_a_list_says_that_there_is_more_and_what_it_leaves_out(cli: Any) -> None:
    assert "No threads yet." in cli.run("threads", "list").err
    await put(cli.stage, *a_couple(), pair="two")

    assert "--kind all lists the others" in cli.run("threads", "list").err
    short = cli.run("threads", "list", "--kind", "all", "--limit", "1")
    assert short.out.count("\n") == 2 and "the first 1; --limit and --offset show more" in short.err
    assert cli.run("threads", "list", "--kind", "all", "--limit", "2").err == ""
    assert len(cli.run("threads", "list", "--kind", "all", "--limit", "1", "--json").json) == 1
    wrong = cli.run("threads", "show", "two").err
    assert "two is a pair; its threads are pair-two-instructor and pair-two-worker. Name one of them, or" in wrong
    assert "`clew threads list --kind all` shows all" in cli.run("threads", "show", "xyzzy").err
    assert cli.run("threads", "clean", "--older-than", "7d", "--kind", "all").err.startswith("archived pair-two-")


async def test_renaming_and_setting_print_the_thread_as_it_is_now(cli: Any) -> None:
    await put(cli.stage, a_thread("1", "a", cwd=str(cli.stage.work)))
    assert cli.run("threads", "rename", "a", "b", "--json").json["name"] == "b"
    changed = cli.run("threads", "set", "b", "--permissions", "edits", "--json").json
    assert (changed["name"], changed["permissions"]) == ("b", "edits")


@pytest.mark.parametrize("width", [100, 80, 60, 40])
async def test_a_table_fits_the_terminal_and_does_not_cut_names(cli: Any, width: int) -> None:
    folder = "/home/someone/projects/shop/線と線/the-inner-part-of-it"
    now = time.time()
    await put(cli.stage, *(a_thread(f"{n}", f"fix-login-page-{n}", cwd=folder, updated_at=now) for n in range(2)))

    terminal = cli.terminal("threads", "list", COLUMNS=str(width))
    code, shown = terminal.end()

    header, *rows = shown.splitlines()
    assert code == 0 and header.startswith("NAME") and len(rows) == 2
    assert all(cells(line) <= width for line in (header, *rows)), shown
    assert all(re.match(r"fix-login-page-[01]  ", row) for row in rows)
    assert ("…" in rows[0] and rows[0].endswith("of-it")) or width == 40, "the end of a path tells"
    piped = cli.run("threads", "list").out.splitlines()
    assert all(row.endswith(folder) for row in piped[1:]), "a pipe gets all"


def test_a_cut_cell_fills_its_column() -> None:
    assert (cells("線x"), cells("e\u0301")) == (3, 1)
    assert (cut("abcdef", 4), cut("abcdef", 4, True), cut("abcd", 4)) == ("abc…", "…def", "abcd")
    assert cut("線線線", 4) == "線…", "half a character cannot be drawn"


def test_settings_are_shown_as_they_are_written(cli: Any) -> None:
    shown = cli.run("config", "show", CLEW_TIMEOUT="5400").out
    assert re.search(r"^retention\.archives +30d +default$", shown, re.MULTILINE)
    assert re.search(r"^timeout +1h30m ", shown, re.MULTILINE)
