"""`clew ask -c` without a thread in the directory: the repository's, or the newest session of a plain CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.hosts.chat.latest import repository_of
from transfer.session_files import planted

NONE_YET = "This directory has no threads yet."


@pytest.fixture
def sub(cli: Any) -> Path:
    """A folder of the repository that is the work directory."""
    (cli.stage.work / ".git").mkdir()
    (cli.stage.work / "src" / "deep").mkdir(parents=True)
    return Path(cli.stage.work / "src" / "deep")


def test_a_subfolder_continues_the_thread_of_its_repository_where_that_is(cli: Any, sub: Path) -> None:
    cli.run("ask", "-t", "old", "one")
    cli.run("ask", "-t", "new", "two")

    done = cli.run("ask", "-c", "three", cwd=sub)
    assert done.out == "ack: three\n"
    assert done.err.startswith(f"continuing new\nin {cli.stage.work}\nresumed · ")
    assert cli.run("ask", "-c", "--cwd", str(sub), "four").err.startswith("continuing new\n")
    assert cli.run("threads", "show", "new", "--json").json["cwd"] == str(cli.stage.work), "it did not move"
    explained = cli.run("ask", "-c", "--explain", "--json", "five", cwd=sub).json
    assert explained["thread"] == "new"

    cli.run("ask", "-t", "own", "six", cwd=sub)
    assert cli.run("ask", "-c", "seven", cwd=sub).err.startswith("continuing own\n"), "its own thread comes first"


def test_a_repository_inside_another_one_has_its_own_threads(cli: Any, sub: Path) -> None:
    tree = cli.stage.work / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: elsewhere\n")
    assert (repository_of(str(sub)), repository_of(str(tree))) == (str(cli.stage.work), str(tree))
    cli.run("ask", "-t", "outer", "one")
    assert NONE_YET in cli.run("ask", "-c", "two", cwd=tree).err
    cli.run("ask", "-t", "inner", "three", cwd=tree)
    assert cli.run("ask", "-c", "four", cwd=sub).err.startswith("continuing outer\n")


def test_without_a_repository_a_subfolder_continues_nothing(cli: Any) -> None:
    folder = cli.stage.work / "src"
    folder.mkdir()
    cli.run("ask", "-t", "t", "one")
    done = cli.run("ask", "-c", "two", cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert NONE_YET in done.err and "sessions adopt" not in done.err


def test_without_a_terminal_a_plain_session_is_named_and_nothing_starts(cli: Any, sub: Path) -> None:
    other = cli.stage.folder / "other"
    ids = planted(cli.stage, other, sub.parent)
    done = cli.run("ask", "-c", "go on", cwd=sub)
    assert (done.code, done.out) == (2, "")
    assert NONE_YET in done.err
    assert f"clew sessions adopt {ids[1]} makes a thread of the newest session of claude (“question 1”)" in done.err
    assert cli.stage.launches == []
    assert cli.run("threads", "list", "--json").json == []


def test_on_a_terminal_the_newest_plain_session_is_offered(cli: Any) -> None:
    [session_id] = planted(cli.stage, cli.stage.work)
    terminal = cli.terminal("ask", "-c", "go on")
    terminal.read_until(r"Continue the session “question 0” of claude, .* ago\? \[Y/n\] ")
    terminal.type("n\n")
    code, shown = terminal.end()
    assert code == 2 and session_id in shown
    assert cli.run("threads", "list", "--json").json == []

    terminal = cli.terminal("ask", "-c", "go on")
    terminal.read_until(r"\[Y/n\] ")
    terminal.type("\n")
    terminal.read_until("continuing question-0")
    assert terminal.end()[0] == 0
    assert [turn["outside"] for turn in cli.turns("question-0")] == [True, True, False, False]
