"""`clew runs`"""

from __future__ import annotations

import re
from typing import Any


def test_runs_are_listed_and_shown(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    run = cli.run("ask", "-t", "t", "two", "--json").json["run"]

    listed = cli.run("runs", "list", "--thread", "t", "--json").json
    assert [one["prompt"] for one in listed] == ["two", "one"]
    assert run[:8] in cli.run("runs", "list").out
    shown = cli.run("runs", "show", run[:8], "--json").json
    assert (shown["id"], shown["thread"], shown["session_resumed"]) == (run, "t", True)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["success"]


def test_a_run_is_shown_in_words(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    run = cli.run("ask", "-t", "t", "--permissions", "all", '!tool Bash {"command": "ls /nowhere"}', "--json").json[
        "run"
    ]

    text = cli.run("runs", "show", run[:8]).out

    lines = dict(line.split(None, 1) for line in text.splitlines())
    assert lines["run"] == run
    assert lines["session"].startswith("resumed · ")
    assert " cached), " in lines["tokens"]
    assert re.match(r"\$0\.\d{4} \(\$0\.\d{4} with the whole transcript, an estimate\)", lines["cost"])
    assert re.match(r"1 +resumed, success after \d+\.\d s", lines["attempt"])
    assert lines["tools"] == "· Bash ls /nowhere  failed"
    [tool] = cli.run("runs", "show", run, "--json").json["tools"]
    assert tool == {"name": "Bash", "input": {"command": "ls /nowhere"}, "status": "failed"}


def test_a_run_of_another_process_is_cancelled_and_the_end_told(cli: Any) -> None:
    process = cli.start("ask", "-t", "t", "!hang text so far")
    cli.api.wait_for_hanging(1)
    [run] = cli.run("runs", "list", "--json").json
    assert run["status"] == "running"

    done = cli.run("runs", "cancel", run["id"][:8])
    out, _ = process.communicate(timeout=30)

    assert done.code == 0
    assert f"run {run['id'][:8]}: cancelled" in done.err
    assert (process.returncode, out) == (7, b"so far\n")
    assert "is over already: cancelled" in cli.run("runs", "cancel", run["id"]).err


def test_all_that_goes_on_in_a_thread_is_cancelled(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    second = cli.start("ask", "-t", "t", "second")
    second.stderr.readline()

    done = cli.run("runs", "cancel", "--thread", "t")

    assert done.code == 0
    for process in (first, second):
        process.communicate(timeout=30)
        assert process.returncode == 7
