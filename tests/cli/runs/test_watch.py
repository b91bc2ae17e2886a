"""`clew runs watch`: shows a run of another process live."""

from __future__ import annotations

import json
import signal
import sqlite3
from typing import Any

import pytest

from clew.cli.ui.state_labels import WHO_RECOVERS
from cli.conftest import TIMEOUT_S


def beginning(process: Any) -> bytes:
    """The first bytes that the process prints, which may arrive in several pieces."""
    return b"".join(process.stdout.read(1) for _ in range(len(b"so far")))


@pytest.mark.parametrize("how", ["id", "newest", "thread"])
def test_a_run_of_another_process_is_shown_from_its_first_event_to_its_end(cli: Any, how: str) -> None:
    daemon, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    which = {"id": [run[:10]], "newest": [], "thread": ["--thread", "t"]}[how]
    watching = cli.start("runs", "watch", *which)
    assert beginning(watching) == b"so far"

    cli.api.release()
    out, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 0
    assert f"so far{out.decode()}" == cli.turns("t")[-1]["text"] + "\n"
    assert f"run {run[:8]} of t: !hang text so far" in err.decode()
    assert "fresh: first turn of the thread · " in err.decode().splitlines()[-1]
    assert daemon.wait(TIMEOUT_S) == 0


@pytest.mark.rest
def test_the_active_run_is_watched_rather_than_the_queued_one(cli: Any) -> None:
    _, [first, second] = cli.daemon("!hang text so far", "second")
    cli.api.wait_for_hanging(1)
    watching = cli.start("runs", "watch", "--thread", "t")
    assert beginning(watching) == b"so far"
    later = cli.start("runs", "watch", second)
    assert f"run {first[:8]} is running in it" in [later.stderr.readline() for _ in range(2)][1].decode()

    cli.api.release()

    assert watching.wait(TIMEOUT_S) == 0
    assert later.communicate(timeout=TIMEOUT_S)[0] == b"ack: second\n"


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("one", 0),
        ("!fail 429 rate_limit_error Slow down", 5),
        ("!fail 401 authentication_error invalid x-api-key", 4),
        ("!fail 400 invalid_request_error Nonsense", 1),
        ("!hang text so far", 6),
    ],
)
def test_a_run_that_is_over_is_shown_at_once_and_ends_as_ask_did(cli: Any, prompt: str, code: int) -> None:
    limit = ["--timeout", "3s"] if code == 6 else []
    asked = cli.run("ask", "-t", "t", *limit, prompt)
    [run] = cli.run("runs", "list", "--json").json

    done = cli.run("runs", "watch", run["id"])

    assert (done.code, done.out) == (asked.code, asked.out)
    assert done.code == code
    printed = [line for line in asked.err.splitlines() if not line.startswith("new thread")]
    assert done.err.splitlines()[1:] == printed


def test_a_cancelled_run_ends_the_watch_as_cancelled(cli: Any) -> None:
    _, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    watching = cli.start("runs", "watch", run)
    assert beginning(watching) == b"so far"

    cli.run("runs", "cancel", run)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 7
    assert b"clew: The run was cancelled." in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_watching_and_not_the_run(cli: Any, number: signal.Signals) -> None:
    daemon, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    watching = cli.start("runs", "watch")
    assert beginning(watching) == b"so far"

    watching.send_signal(number)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 7
    assert f"no longer watched; run {run[:8]} continues" in err.decode()
    assert cli.run("runs", "show", run, "--json").json["status"] == "running"
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
    assert cli.run("runs", "show", run, "--json").json["status"] == "answered"


def test_json_is_one_event_per_line_and_nothing_else(cli: Any) -> None:
    _, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    watching = cli.start("runs", "watch", run, "--json")
    assert json.loads(watching.stdout.readline())["kind"] == "attempt_started"

    cli.api.release()
    out = watching.stdout.read()

    assert watching.wait(TIMEOUT_S) == 0
    events = [json.loads(line) for line in out.decode().splitlines()]
    assert [event["seq"] for event in events] == list(range(2, len(events) + 2))
    assert all(set(event) == {"seq", "at", "kind", "body"} for event in events)
    assert events[0]["kind"] == "session_started"
    assert (events[-1]["kind"], events[-1]["body"]["status"]) == ("run_ended", "answered")
    again = cli.run("runs", "watch", run, "--json").out.splitlines()
    assert [json.loads(line) for line in again][1:] == events, "the same from the store"


@pytest.mark.rest
def test_a_watch_ends_when_the_process_of_its_run_is_killed(cli: Any) -> None:
    daemon, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    watching = cli.start("runs", "watch", run)
    assert beginning(watching) == b"so far"

    daemon.kill()
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 1
    assert f"the process of run {run[:8]} is gone; {WHO_RECOVERS}" in err.decode()
    shown = cli.run("runs", "show", run, "--json").json
    assert (shown["status"], shown["gone"]) == ("running", True), "watching does not end the run"
    assert cli.run("ask", "-t", "t", "next").out == "ack: next\n"
    assert cli.run("runs", "show", run, "--json").json["status"] == "interrupted", "the next ask ends it"


READING = (
    ("threads", "list"),
    ("threads", "show", "t"),
    ("threads", "search", "far"),
    ("threads", "archives"),
    ("threads", "export", "t", "--output", "-"),
    ("runs", "list"),
    ("jobs", "list"),
    ("review", "list", "--all"),
    ("hooks", "events"),
    ("hooks", "sessions"),
    ("pair", "--list-sessions"),
    ("sessions", "list"),
    ("stats",),
    ("doctor",),
)


@pytest.mark.rest
def test_commands_that_only_read_change_nothing(cli: Any) -> None:
    daemon, [run] = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)
    daemon.kill()
    daemon.wait()
    cli.run("doctor")  # probes what the agents can do, and stores it

    def rows() -> list[Any]:
        with sqlite3.connect(cli.stage.clew_home / "clew.db") as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [(table, database.execute(f"SELECT * FROM {table}").fetchall()) for table in sorted(tables)]

    before = rows()
    said = {args: cli.run(*args) for args in READING}
    assert rows() == before
    assert {args: done.code for args, done in said.items() if done.code not in (0, 1)} == {}
    assert "running, its process is gone" in said["runs", "list"].out
    assert "running, its process is gone" in said["threads", "list"].out
    assert f"1 left by a crash ({WHO_RECOVERS})" in said["doctor",].out
    assert cli.run("ask", "-t", "other", "next").code == 0
    assert cli.run("runs", "show", run, "--json").json["status"] == "interrupted"


@pytest.mark.rest
def test_a_question_of_the_run_is_shown_with_how_to_answer_it(cli: Any) -> None:
    daemon, [run] = cli.daemon('!tool Bash {"command": "touch made"}')
    watching = cli.start("runs", "watch", run)
    printed = [watching.stderr.readline().decode() for _ in range(3)]
    assert printed[1:] == [
        "Bash wants permission: touch made\n",
        f"  clew runs answer {run[:8]} --allow, or --deny\n",
    ]

    cli.run("runs", "answer", run, "--allow")
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert b"wants permission" not in err
    assert "wants permission" not in cli.run("runs", "watch", run).err, "answered long ago"


def test_a_terminal_shows_what_the_watched_run_does(cli: Any) -> None:
    daemon, [run] = cli.daemon("!hang start")
    cli.api.wait_for_hanging(1)
    terminal = cli.terminal("runs", "watch", run)
    terminal.read_until(r"\d+s .{0,9}thinking")
    narrow = cli.terminal("runs", "watch", run, COLUMNS="15")
    narrow.read_until(r"\d+s .{0,9}thin[^ ]{0,3}…")  # with room for the ^C that the terminal echoes
    terminal.type("\x03")
    narrow.type("\x03")
    assert narrow.end()[0] == 7

    code, shown = terminal.end()

    assert code == 7
    assert f"no longer watched; run {run[:8]} continues" in shown
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0


def test_nothing_to_watch_is_one_line(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")

    for args, words in (
        ([], "No run is active."),
        (["--thread", "t"], "No run is active in t."),
        (["nonsense"], "'nonsense' is not a run."),
        (["--thread", "t", "x"], "Give an ID or --thread, not both."),
    ):
        done = cli.run("runs", "watch", *args)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"clew: {words}\n")
