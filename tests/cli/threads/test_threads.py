"""`clew threads`: changes to a conversation, and their effect on its session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import TIMEOUT_S


@pytest.fixture
def talk(cli: Any) -> Any:
    """Two turns and their answers."""
    cli.run("ask", "-t", "talk", "one")
    cli.run("ask", "-t", "talk", "two")
    return cli


@pytest.mark.rest
def test_show_gives_the_thread_and_its_turns(talk: Any) -> None:
    shown = talk.run("threads", "show", "talk", "--json").json

    assert set(shown) >= {"name", "cwd", "agent", "model", "permissions", "trust", "visibility", "turns"}
    assert [turn["role"] for turn in shown["turns"]] == ["user", "assistant"] * 2
    assert set(shown["turns"][1]) >= {"id", "role", "agent", "model", "text", "partial", "created_at"}
    assert shown["turns"][1]["text"] == "ack: one"
    text = talk.run("threads", "show", "talk").out
    assert shown["turns"][0]["id"][:8] in text
    assert "ack: two" in text


@pytest.mark.rest
def test_list_shows_the_last_used_first_and_can_be_narrowed(talk: Any, tmp_path: Path) -> None:
    talk.run("ask", "-t", "other", "hi", cwd=tmp_path)

    assert [one["name"] for one in talk.run("threads", "list", "--json").json] == ["other", "talk"]
    assert [one["name"] for one in talk.run("threads", "list", "--here", "--json").json] == ["talk"]
    assert [one["name"] for one in talk.run("threads", "list", "--cwd", str(tmp_path), "--json").json] == ["other"]
    assert len(talk.run("threads", "list", "--limit", "1", "--json").json) == 1
    headings = talk.run("threads", "list").out.splitlines()[0]
    assert headings.split("  ")[0] == "NAME"
    assert headings.split() == ["NAME", "KIND", "LAST", "USED", "STATE", "TURNS", "CHARS", "COST", "AGENT", "DIRECTORY"]


@pytest.mark.rest
def test_an_edit_of_the_first_turn_keeps_later_turns_and_says_that_the_next_one_starts_fresh(talk: Any) -> None:
    first = talk.turns("talk")[0]["id"]

    done = talk.run("threads", "edit", "talk", first[:8], "uno")

    assert done.code == 0
    assert done.err.splitlines() == [
        f"edited turn 1 ({first[:8]}) of talk; the old text is kept",
        "Nothing before this turn is left to continue from: the next turn starts a fresh session with the whole "
        "transcript.",
    ]
    assert [turn["text"] for turn in talk.turns("talk")] == ["uno", "ack: one", "two", "ack: two"]
    assert talk.run("ask", "-t", "talk", "three", "--json").json["reason"] == "history_changed"
    assert "uno" in talk.stage.prompt


def test_an_edit_of_a_later_turn_rewinds_the_session_and_the_last_line_says_to_where_and_why(talk: Any) -> None:
    third = talk.turns("talk")[2]["id"]

    done = talk.run("threads", "edit", "talk", third, "due")

    assert done.err.splitlines()[1] == (
        "The session rewinds to turn 2: the next turn continues from there, and sends the 2 turns after it. "
        "Files that these turns changed stay as they are."
    )
    shown = talk.run("threads", "show", "talk")
    assert "next turn: Rewinds to turn 2: continues there in a copy of the session" in shown.out
    assert f"\n2  {talk.turns('talk')[1]['id'][:8]}  claude" in shown.out, "a turn has the number that the words name"
    asked = talk.run("ask", "-t", "talk", "three")
    why = "turns that the session holds were edited, removed, hidden or asked again"
    assert asked.err.startswith(f"resumed, rewound to turn 2: {why} · ")
    [run, *_] = talk.run("runs", "list", "--json").json
    assert (run["session_resumed"], run["reason"], run["rewound_to"]) == (True, "history_changed", 2)
    assert run["rewound_to_turn_id"] == talk.turns("talk")[1]["id"]
    assert "rewound to turn 2" in talk.run("runs", "list").out
    assert f"resumed, rewound to turn 2: {why}" in talk.run("runs", "show", run["id"]).out
    assert talk.run("stats", "--json").json["rewound"] == 1
    assert "1  of these rewound to an earlier turn" in talk.run("stats").out


def test_rewind_can_be_switched_off(talk: Any) -> None:
    done = talk.run("threads", "truncate", "talk", talk.turns("talk")[2]["id"], CLEW_REWIND="false")

    assert "The session cannot be rewound to before this turn: the next turn starts a fresh session" in done.err
    asked = talk.run("ask", "-t", "talk", "three", "--json", CLEW_REWIND="false").json

    assert (asked["session_resumed"], asked["reason"], asked["rewound_to"]) == (False, "history_changed", None)


@pytest.mark.rest
def test_an_edit_that_changes_nothing_leaves_the_session_alone(talk: Any) -> None:
    first = talk.turns("talk")[0]["id"]

    done = talk.run("threads", "edit", "talk", first, "-", stdin="one")

    assert "The session is kept: the next turn resumes it." in done.err
    assert talk.run("ask", "-t", "talk", "three", "--json").json["session_resumed"] is True


def test_truncate_archives_that_turn_and_all_after_it(talk: Any) -> None:
    third = talk.turns("talk")[2]["id"]

    done = talk.run("threads", "truncate", "talk", third[:10])

    assert done.err.splitlines() == [
        f"archived 2 turns of talk, from turn 3 ({third[:8]}) on",
        "The session rewinds to turn 2: the next turn continues from there. "
        "Files that these turns changed stay as they are.",
    ]
    assert [turn["text"] for turn in talk.turns("talk")] == ["one", "ack: one"]


def test_a_dry_run_says_what_a_change_would_do_and_changes_nothing(talk: Any) -> None:
    before = talk.turns("talk")

    edited = talk.run("threads", "edit", "talk", "3", "another", "--dry-run")
    truncated = talk.run("threads", "truncate", "talk", "3", "--dry-run")

    assert "The session rewinds to turn 2" in edited.err and "The old text is kept" in edited.err
    assert "Archives 2 turns" in truncated.err and "The session rewinds to turn 2" in truncated.err
    assert talk.turns("talk") == before


def test_a_turn_is_named_by_its_number_and_never_by_a_short_beginning_of_an_id(talk: Any) -> None:
    ids = [turn["id"] for turn in talk.turns("talk")]

    for wanted, message in (
        ("9", "talk has no turn 9: it has 4."),
        ("0", "'0' is not a turn of talk: give a turn's number, or at least 4 characters of its id."),
    ):
        refused = talk.run("threads", "truncate", "talk", wanted)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    assert [turn["id"] for turn in talk.turns("talk")] == ids

    assert f"edited turn 2 ({ids[1][:8]}) of talk" in talk.run("threads", "edit", "talk", "2", "another answer").err
    talk.run("threads", "fork", "talk", "until-two", "--at", "2")
    assert [turn["text"] for turn in talk.turns("until-two")] == ["one", "another answer"]
    done = talk.run("threads", "truncate", "talk", "1")
    assert done.err.splitlines() == [
        f"archived 4 turns of talk, from turn 1 ({ids[0][:8]}) on",
        "Nothing is left to continue from: the next turn starts a fresh session. "
        "Files that these turns changed stay as they are.",
    ]


def test_retry_rewinds_the_session_to_before_the_prompt(talk: Any) -> None:
    second = talk.turns("talk")[2]["id"]

    done = talk.run("threads", "retry", "talk", "3")

    assert (done.code, done.out) == (0, "ack: two\n")
    asked, ended = done.err.splitlines()
    assert asked == (
        f"asking turn 3 ({second[:8]}) again; the 1 turn after it is archived. "
        "Files that these turns changed stay as they are."
    )
    assert ended.startswith("resumed, rewound to turn 2: ")
    assert [turn["text"] for turn in talk.turns("talk")] == ["one", "ack: one", "two", "ack: two"]
    assert talk.stage.prompt.endswith("two"), "the transcript is not sent again"


@pytest.mark.rest
def test_retry_asks_in_a_fresh_session_if_that_is_wanted_or_if_the_run_had_failed(talk: Any) -> None:
    second = talk.turns("talk")[2]["id"]

    wanted = talk.run("threads", "retry", "talk", second, "--fresh-session", "--json").json

    assert (wanted["session_resumed"], wanted["reason"]) == (False, "forced_fresh")
    assert "ack: one" in talk.stage.prompt
    talk.run("ask", "-t", "talk", "!fail 400 invalid_request_error Nobody knows why")
    failed = talk.turns("talk")[-1]["id"]
    talk.run("threads", "edit", "talk", failed, "three")
    again = talk.run("threads", "retry", "talk", failed, "--json").json
    assert (again["session_resumed"], again["reason"]) == (False, "forced_fresh")


def test_an_agents_turn_cannot_be_asked_again(talk: Any) -> None:
    done = talk.run("threads", "retry", "talk", talk.turns("talk")[1]["id"], "--json")

    assert done.code == 2
    assert "is an agent's turn" in done.json["error"]["message"]


@pytest.mark.rest
def test_show_says_why_a_turn_has_no_answer(talk: Any) -> None:
    talk.run("ask", "-t", "talk", "!fail 429 rate_limit_error Slow down")
    talk.run("ask", "-t", "talk", "--timeout", "1s", "!hang start")

    text = talk.run("threads", "show", "talk").out

    assert "Slow down\n(no answer: usage limit)\n" in text
    assert "!hang start\n(no answer: timed out)\n" in text
    assert text.count("(no answer") == 2


def test_delete_counts_archived_turns_separately(talk: Any) -> None:
    talk.run("threads", "truncate", "talk", talk.turns("talk")[1]["id"])

    assert "would delete: talk (1 turn, 3 archived)" in talk.run("threads", "delete", "talk", "--dry-run").err


def test_delete_keeps_an_archive_and_says_where(talk: Any) -> None:
    assert "would delete: talk (4 turns)" in talk.run("threads", "delete", "talk", "--dry-run").err
    assert len(talk.turns("talk")) == 4

    done = talk.run("threads", "delete", "talk", "--yes")

    assert done.code == 0
    archive = Path(done.err.strip().rpartition("its archive is ")[2])
    assert archive.stat().st_mode & 0o077 == 0
    assert [turn["text"] for turn in json.loads(archive.read_text())["turns"]] == ["one", "ack: one", "two", "ack: two"]
    assert talk.run("threads", "show", "talk").code == 2


def test_a_thread_in_use_is_neither_truncated_nor_deleted(cli: Any) -> None:
    process = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    first = cli.turns("t")[0]["id"]

    assert cli.run("threads", "truncate", "t", first).code == 8
    assert cli.run("threads", "delete", "t", "--yes").code == 8
    cli.api.release()
    process.communicate(timeout=TIMEOUT_S)
    assert len(cli.turns("t")) == 2


@pytest.mark.rest
def test_list_finds_threads_by_what_was_said(talk: Any, tmp_path: Path) -> None:
    talk.run("ask", "-t", "other", "about Zebras", cwd=tmp_path)

    def found(*args: str) -> list[str]:
        return [one["name"] for one in talk.run("threads", "list", *args, "--json").json]

    assert found("--search", "zebra") == ["other"]
    assert found("--search", "TALK") == ["talk"]
    assert found("--search", "zebra", "--here") == []
    assert "No such threads." in talk.run("threads", "list", "--search", "giraffe").err


@pytest.mark.rest
def test_list_shows_the_state_and_the_cost(cli: Any) -> None:
    cli.run("ask", "-t", "quiet", "one")
    daemon, [run, *_] = cli.daemon("!hang start", "second", "third", thread="busy")
    cli.api.wait_for_hanging(1)

    text = cli.run("threads", "list").out
    busy, quiet = cli.run("threads", "list", "--json").json

    assert "running, queued 2" in text
    assert (busy["live"], busy["queued"], busy["questions"]) == ({"run": run, "status": "running"}, 2, 0)
    assert (quiet["live"], quiet["queued"], quiet["last_text"]) == (None, 0, "ack: one")
    assert quiet["cost_usd"] > 0
    assert f"${quiet['cost_usd']:.4f}" in text
    cli.run("runs", "cancel", "--thread", "busy")
    assert daemon.wait(TIMEOUT_S) == 0


@pytest.mark.rest
def test_show_lists_queued_prompts_and_open_questions(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    text = cli.run("threads", "show", "t").out
    assert text.endswith("\nnext turn: Resumes the session and sends the new prompt alone.\n")
    assert cli.run("threads", "show", "t", "--json").json["next_turn"]["resumes"] is True
    daemon, [_, second] = cli.daemon("!hang start", "second")
    cli.api.wait_for_hanging(1)

    text = cli.run("threads", "show", "t").out

    assert f"\nqueued: {second[:8]}  second\n" in text
    assert cli.run("threads", "show", "t", "--json").json["queued"] == [{"run": second, "prompt": "second"}]
    cli.run("runs", "cancel", "--thread", "t")
    assert daemon.wait(TIMEOUT_S) == 0


def test_a_thread_can_be_read_without_its_agent(talk: Any) -> None:
    done = talk.run("threads", "show", "talk", CLEW_CLAUDE_PATH="/nowhere/claude")

    assert done.code == 0
    assert "next turn: agents.claude.path is /nowhere/claude" in done.out


def test_settings_of_a_thread_are_changed_and_reported(talk: Any, tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Be brief.")

    done = talk.run(
        *("threads", "set", "talk", "--permissions", "edits", "--trust", "project", "--visibility", "own"),
        *("--instructions", str(rubric), "--name", "tales"),
    )

    assert done.code == 0
    assert done.err.splitlines() == [
        "talk is now called tales",
        "permissions: ask -> edits",
        "trust: user -> project",
        "visibility: shared -> own",
        "instructions: none -> Be brief.",
        "next turn: Resumes the session and sends the instructions with the new prompt.",
    ]
    shown = talk.run("threads", "show", "tales", "--json").json
    assert (shown["permissions"], shown["trust"], shown["visibility"]) == ("edits", "project", "own")
    assert shown["instructions"] == "Be brief."
    assert "instructions: Be brief.\n" in talk.run("threads", "show", "tales").out
    assert "tales has these settings already" in talk.run("threads", "set", "tales", "--permissions", "edits").err
    taken_back = talk.run("threads", "set", "tales", "--instructions", "-", stdin="")
    assert "instructions: Be brief. -> none" in taken_back.err


@pytest.mark.rest
def test_another_directory_and_another_model_start_a_fresh_session(talk: Any, tmp_path: Path) -> None:
    done = talk.run("threads", "set", "talk", "--cwd", str(tmp_path), "--model", "claude-haiku-4-5")

    assert "next turn: Starts a fresh session: " in done.err
    reply = talk.run("ask", "-t", "talk", "three", "--json").json
    assert (reply["session_resumed"], reply["model"]) == (False, "claude-haiku-4-5")
    assert talk.stage.launches[-1].value("--model") == "claude-haiku-4-5"
    assert talk.run("threads", "show", "talk", "--json").json["cwd"] == str(tmp_path)


def test_a_thread_is_renamed_even_while_it_is_used(cli: Any) -> None:
    daemon, _ = cli.daemon("!hang start", thread="old")
    cli.api.wait_for_hanging(1)

    assert cli.run("threads", "set", "old", "--permissions", "edits").code == 8
    done = cli.run("threads", "rename", "old", "new")

    assert (done.code, done.err) == (0, "old is now called new\n")
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
    assert [one["name"] for one in cli.run("threads", "list", "--json").json] == ["new"]


@pytest.mark.rest
def test_bad_settings_are_refused_and_change_nothing(talk: Any) -> None:
    talk.run("ask", "-t", "other", "hi")
    before = talk.run("threads", "show", "talk", "--json").json

    for args in (
        ["rename", "talk", "other"],
        ["rename", "talk", "a/b"],
        ["rename", "nobody", "x"],
        ["set", "talk"],
        ["set", "talk", "--agent", "hal"],
        ["set", "talk", "--cwd", "/nowhere/at/all"],
        ["set", "talk", "--permissions", "some"],
    ):
        done = talk.run("threads", *args)
        assert done.code == 2, args
        assert len(done.err.splitlines()) == 2, done.err
    assert talk.run("threads", "show", "talk", "--json").json == before


@pytest.mark.rest
def test_retry_can_ask_another_model(talk: Any) -> None:
    first = talk.turns("talk")[0]["id"]

    done = talk.run("threads", "retry", "talk", first, "--model", "claude-haiku-4-5", "--json")

    assert (done.code, done.json["model"], done.json["session_resumed"]) == (0, "claude-haiku-4-5", False)
    assert talk.stage.launches[-1].value("--model") == "claude-haiku-4-5"
    assert talk.run("threads", "show", "talk", "--json").json["model"] != "claude-haiku-4-5", "this time only"
    unknown = talk.run("threads", "retry", "talk", first, "--agent", "hal", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "usage")
