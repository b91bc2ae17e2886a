"""`clew runs`"""

from __future__ import annotations

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
    assert "attempt 1" in cli.run("runs", "show", run).out


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
