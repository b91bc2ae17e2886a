"""`clew runs`: list, show, cancel, edit, remove and send."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cli.conftest import TIMEOUT_S


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
    run = cli.run(
        "ask", "-t", "t", "--permissions", "all", '!tool Bash {"command": "ls /nowhere/at/all"}', "--json"
    ).json["run"]

    text = cli.run("runs", "show", run[:8]).out

    lines = dict(line.split(None, 1) for line in text.splitlines())
    assert lines["run"] == run
    assert lines["session"].startswith("resumed · ")
    assert " cached), " in lines["tokens"]
    assert re.match(r"\$0\.\d{4} \(\$0\.\d{4} with the whole transcript, an estimate\)", lines["cost"])
    assert re.match(r"1 +resumed, success after \d+\.\d s", lines["attempt"])
    assert lines["tools"] == "· Bash ls /nowhere/at/all  failed"
    [tool] = cli.run("runs", "show", run, "--json").json["tools"]
    assert tool == {"name": "Bash", "input": {"command": "ls /nowhere/at/all"}, "status": "failed"}


def test_a_run_of_another_process_is_cancelled_and_its_end_is_reported(cli: Any) -> None:
    process = cli.start("ask", "-t", "t", "!hang text so far")
    cli.api.wait_for_hanging(1)
    [run] = cli.run("runs", "list", "--json").json
    assert run["status"] == "running"

    done = cli.run("runs", "cancel", run["id"][:8])
    out, _ = process.communicate(timeout=TIMEOUT_S)

    assert done.code == 0
    assert f"run {run['id'][:8]}: cancelled" in done.err
    assert (process.returncode, out) == (7, b"so far\n")
    assert "has already ended: cancelled" in cli.run("runs", "cancel", run["id"]).err


def test_all_active_runs_of_a_thread_are_cancelled(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    second = cli.start("ask", "-t", "t", "second")
    second.stderr.readline()

    done = cli.run("runs", "cancel", "--thread", "t")

    assert done.code == 0
    for process in (first, second):
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 7


@pytest.mark.rest
def test_a_queued_run_gets_another_prompt(cli: Any) -> None:
    daemon, [_, second] = cli.daemon("!hang start", "second")
    cli.api.wait_for_hanging(1)

    done = cli.run("runs", "edit", second[:12], "-", stdin="rather this")

    assert done.code == 0
    assert done.err == f"run {second[:8]} will ask: rather this\n"
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
    assert [turn["text"] for turn in cli.turns("t")][2:] == ["rather this", "ack: rather this"]
    assert cli.stage.prompt == "rather this"


def test_a_run_that_has_started_is_neither_edited_nor_removed(cli: Any) -> None:
    daemon, [run] = cli.daemon("!hang start")
    cli.api.wait_for_hanging(1)

    for args in (["edit", run, "too late"], ["remove", run]):
        done = cli.run("runs", *args)
        assert (done.code, done.err.splitlines()[0]) == (2, "clew: The run has started: it is running.")
    assert cli.run("runs", "edit", run, " ").code == 2
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
    assert cli.run("runs", "remove", run).code == 2
    assert len(cli.turns("t")) == 2


@pytest.mark.rest
def test_a_queued_run_is_removed(cli: Any) -> None:
    daemon, [_, second, third] = cli.daemon("!hang start", "second", "third")
    cli.api.wait_for_hanging(1)

    removed = cli.run("runs", "remove", second)
    cancelled = cli.run("runs", "cancel", third)

    assert (removed.code, removed.err) == (0, f"run {second[:8]} is removed: cancelled\n")
    assert cancelled.code == 0
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
    assert len(cli.turns("t")) == 2
    assert "second" not in str(cli.api.main_requests[-1].body)


@pytest.mark.rest
def test_a_stop_holds_a_daemons_prompts_until_they_are_sent(cli: Any) -> None:
    daemon, [first, second] = cli.daemon("!hang start", "second")
    cli.api.wait_for_hanging(1)
    waiting = cli.start("ask", "-t", "t", "a terminal's")
    waiting.stderr.readline()

    assert cli.run("runs", "cancel", first).code == 0
    assert waiting.communicate(timeout=TIMEOUT_S)[0] == b"ack: a terminal's\n"
    assert cli.run("runs", "show", second, "--json").json["held"] is True
    assert [line.split()[2] for line in cli.run("runs", "list").out.splitlines() if "second" in line] == ["held"]
    sent = cli.run("runs", "send", second)

    assert (sent.code, sent.err) == (0, f"run {second[:8]} starts: second\n")
    assert daemon.wait(TIMEOUT_S) == 0
    assert [turn["text"] for turn in cli.turns("t")][-2:] == ["second", "ack: second"]
    late = cli.run("runs", "send", second)
    assert (late.code, late.err.splitlines()[0]) == (2, "clew: The run has started: it is answered.")


def test_a_prompt_that_a_killed_process_left_queued_can_be_edited_and_removed(cli: Any) -> None:
    daemon, [_, second, third] = cli.daemon("!hang start", "second", "third")
    cli.api.wait_for_hanging(1)
    daemon.kill()
    daemon.wait()

    assert "queued until the next clew serve" in cli.run("runs", "list").out
    assert cli.run("runs", "edit", second, "rather this").code == 0
    assert cli.run("runs", "show", second, "--json").json["prompt"] == "rather this"
    assert cli.run("runs", "remove", third).code == 0
    assert cli.run("runs", "show", third, "--json").json["status"] == "cancelled"


def test_an_ask_waits_for_the_run_of_a_daemon(cli: Any) -> None:
    daemon, [run] = cli.daemon("!hang start")
    cli.api.wait_for_hanging(1)
    asking = cli.start("ask", "-t", "t", "second")
    assert asking.stderr.readline().decode() == f"waiting for the thread: run {run[:8]} is running in it\n"

    cli.api.release()

    assert asking.communicate(timeout=TIMEOUT_S)[0] == b"ack: second\n"
    assert asking.returncode == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert [turn["text"] for turn in cli.turns("t")][2:] == ["second", "ack: second"]


def test_an_ask_does_not_wait_for_what_a_killed_daemon_left_queued(cli: Any) -> None:
    daemon, [_, second] = cli.daemon("!hang start", "second")
    cli.api.wait_for_hanging(1)
    daemon.kill()
    daemon.wait()

    done = cli.run("ask", "-t", "t", "third")

    assert (done.code, done.out) == (0, "ack: third\n")
    assert cli.run("runs", "show", second, "--json").json["status"] == "queued"
    shown = cli.run("threads", "show", "t", "--json").json
    assert shown["queued"] == [{"run": second, "prompt": "second"}]
    assert [turn["text"] for turn in shown["turns"]] == ["!hang start", "third", "ack: third"]
