"""Each way to end has its own exit code, one line of text and a hint; and no process is left running."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clew.cli.ui.formatting import local_time
from clew.testing.stage import MODEL, SUBSCRIPTION
from cli.conftest import TIMEOUT_S

COMMAND = [sys.executable, "-m", "clew.cli"]
FAILURES = [
    pytest.param("!fail 401 authentication_error invalid x-api-key", 4, "auth", id="auth"),
    pytest.param("!fail 429 rate_limit_error Slow down", 5, "usage_limit", id="usage limit"),
    pytest.param("!fail 500 api_error Internal server error", 1, "failed", id="failed"),
    pytest.param(
        "!fail 400 invalid_request_error Your credit balance is too low to access the Anthropic API. Please go to "
        "Plans & Billing to upgrade or purchase credits.",
        10,
        "billing",
        id="billing",
    ),
    pytest.param("!fail 404 not_found_error model: claude-nonexistent-9", 1, "wrong_model", id="wrong model"),
]


@pytest.mark.parametrize(("prompt", "code", "name"), FAILURES)
def test_each_failure_has_its_exit_code(both: Any, prompt: str, code: int, name: str) -> None:
    done = both.run("ask", "-t", "t", "--json", prompt)

    assert done.code == code
    reply = done.json
    assert reply["error"]["code"] == name
    assert reply["error"]["hint"]
    assert reply["status"] == "failed"
    lines = [line for line in done.err.splitlines() if line.startswith("clew: ")]
    assert len(lines) == 1
    assert "fresh: first turn of the thread" in done.err
    assert "Traceback" not in done.err
    assert both.turns("t")[0]["text"] == prompt


def test_a_wrong_model_says_so_and_how_to_choose_another(both: Any) -> None:
    done = both.run("ask", "-t", "t", "--model", "claude-nope", "!fail 404 not_found_error model: claude-nope")

    assert "cannot use this model" in done.err
    assert "--model" in done.err and "clew threads set NAME --model" in done.err
    assert both.run("ask", "-t", "t", "--model", MODEL, "hello").code == 0


def test_a_first_turn_that_is_too_long_is_not_called_a_failed_resume(both: Any) -> None:
    done = both.run("ask", "-t", "t", "!toolong")

    assert done.code == 1
    assert "resume" not in done.err
    assert "fresh: first turn of the thread" in done.err and "does not fit the model's context" in done.err
    assert len(both.stage.launches) == 1, "the same prompt would fit no better the second time"


def test_a_usage_limit_says_when_it_resets(both: Any) -> None:
    both.stage.account = SUBSCRIPTION
    resets_at = int(time.time()) + 3600
    done = both.run("ask", "-t", "t", "--json", f"!limit {resets_at}")

    assert (done.code, done.json["error"]["code"], done.json["error"]["resets_at"]) == (5, "usage_limit", resets_at)
    assert f"It resets at {local_time(resets_at)}." in done.err
    assert "--wait-for-limit" in done.err


@pytest.mark.rest
def test_wait_for_limit_waits_for_the_usage_limit(both: Any) -> None:
    both.stage.account = SUBSCRIPTION
    done = both.run("ask", "-t", "t", "--wait-for-limit", f"do it\n!limit {int(time.time()) + 2}")

    assert done.code == 0, done.err
    assert "waiting for the account's usage limit until " in done.err
    assert done.err.rstrip().splitlines()[-1].startswith("resumed")
    assert done.out.startswith("ack: ")


def test_a_missing_agent_is_3_and_leaves_no_thread(cli: Any) -> None:
    done = cli.run("ask", "hello", CLEW_CLAUDE_PATH="/nowhere/claude")

    assert done.code == 3
    assert done.err.startswith("clew: agents.claude.path is /nowhere/claude")
    assert cli.run("threads", "list", "--json").json == []


@pytest.mark.rest
def test_a_time_out_is_6_and_keeps_the_partial_answer(both: Any) -> None:
    done = both.run("ask", "-t", "t", "--timeout", "20s", "!hang text so far")

    assert (done.code, done.out) == (6, "so far\n")
    assert "took too long" in done.err
    assert "fresh: first turn of the thread" in done.err
    last = both.turns("t")[-1]
    assert (last["role"], last["text"], last["partial"]) == ("assistant", "so far", True)


def test_busy_is_8_at_once_and_stores_nothing(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)

    done = cli.run("ask", "-t", "t", "--no-wait", "--json", "second")

    assert done.code == 8
    assert done.json["error"]["code"] == "busy"
    assert (done.json["run"], done.json["status"]) == (None, None)
    cli.api.release()
    first.communicate(timeout=TIMEOUT_S)
    assert first.returncode == 0
    assert len(cli.turns("t")) == 2


def test_a_store_that_cannot_be_read_is_9(cli: Any) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    (cli.stage.clew_home / "clew.db").write_bytes(b"this is no database " * 400)

    done = cli.run("ask", "hello", "--json")

    assert done.code == 9
    assert done.json["error"]["code"] == "store"
    assert "Traceback" not in done.err


@pytest.mark.rest
def test_a_second_ask_waits_visibly_and_then_answers(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    second = cli.start("ask", "-t", "t", "second")

    waiting = second.stderr.readline().decode()
    assert waiting.startswith("waiting for the thread: run ")
    assert waiting.rstrip().endswith("is running in it")
    cli.api.release()
    first.communicate(timeout=TIMEOUT_S)
    out, err = second.communicate(timeout=TIMEOUT_S)

    assert (first.returncode, second.returncode) == (0, 0)
    assert out == b"ack: second\n"
    assert b"resumed" in err
    assert [turn["text"] for turn in cli.turns("t")][2:] == ["second", "ack: second"]


def test_no_more_agents_than_allowed_run_and_the_wait_is_shown(cli: Any) -> None:
    first = cli.start("ask", "-t", "one", "!hang start", CLEW_MAX_AGENTS="1")
    cli.api.wait_for_hanging(1)
    second = cli.start("ask", "-t", "two", "hello", CLEW_MAX_AGENTS="1")

    lines = [second.stderr.readline().decode() for _ in range(2)]
    assert "waiting for a free slot" in lines[1]
    cli.api.release()
    first.communicate(timeout=TIMEOUT_S)
    out, _ = second.communicate(timeout=TIMEOUT_S)
    assert out == b"ack: hello\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_agent_gracefully_with_7(cli: Any, number: signal.Signals) -> None:
    _is_stopped(cli, number)


@pytest.mark.real
def test_ctrl_c_stops_the_real_agent_gracefully(real: Any, cli_on: Any) -> None:
    _is_stopped(cli_on(real), signal.SIGINT)


def _is_stopped(cli: Any, number: signal.Signals) -> None:
    process = cli.start("ask", "-t", "t", "--json", "!hang text so far")
    cli.api.wait_for_hanging(1)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert "stopping…" in err.decode()
    reply = json.loads(out)
    assert (reply["status"], reply["error"]["code"]) == ("cancelled", "cancelled")
    assert not cli.stage.processes()
    assert cli.run("ask", "-t", "t", "go on").code == 0


@pytest.mark.rest
@pytest.mark.parametrize(
    "command", [["ask", "!hang text so far"], ["jobs", "submit", "--wait", "!hang text so far"]], ids=["ask", "jobs"]
)
def test_sigint_stops_a_background_command_of_a_script(cli: Any, command: list[str]) -> None:
    """A shell without job control starts background commands with SIGINT ignored."""
    shell = cli.in_script(*command)
    pid = int(shell.stdout.readline())
    cli.api.wait_for_hanging(1)
    os.kill(pid, signal.SIGINT)
    out, err = shell.communicate(timeout=60)
    assert out.decode().splitlines()[-1] == "ended 7", err.decode()
    assert not cli.stage.processes()


def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_will_not_stop(cli: Any) -> None:
    cli.stage.fault({"do": "hang_after_init", "ignore_term": True})
    process = cli.start("ask", "-t", "t", "hello")
    while not cli.stage.launches:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert "new thread" in process.stderr.readline().decode()
    assert "stopping…" in process.stderr.readline().decode()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert not cli.stage.processes()


def test_ctrl_c_while_waiting_for_the_thread_sends_nothing(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    second = cli.start("ask", "-t", "t", "second")
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=TIMEOUT_S)

    assert second.returncode == 7
    cli.api.release()
    first.communicate(timeout=TIMEOUT_S)
    assert len(cli.turns("t")) == 2


def test_a_closed_pipe_ends_it_quietly(cli: Any) -> None:
    process = cli.start("ask", "!slow 200 0.02")
    process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read().decode()

    assert process.wait(TIMEOUT_S) != 0
    assert "Traceback" not in err
    assert "Broken" not in err
    assert not cli.stage.processes()


@pytest.mark.rest
@pytest.mark.parametrize("command", ["ask hello", "threads list --json", "--help", "config show"])
def test_an_output_that_cannot_be_written_is_one_line(cli: Any, command: str) -> None:
    words = " ".join([*map(shlex.quote, COMMAND), command])
    for shell in (f"{words} >/dev/full", f"{words} >&- 2>&-", f"{words} 2>/dev/full"):
        done = subprocess.run(
            ["sh", "-c", shell], env=cli.environ(), cwd=cli.stage.work, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr
        if ">/dev/full" in shell and "2>" not in shell:
            assert done.stderr.splitlines()[-1] == b"clew: the output cannot be written: No space left on device"


@pytest.fixture
def broken_python(tmp_path: Path) -> str:
    """A Python whose asyncio does not work: an error that Clew does not expect."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import asyncio\ndef run(main):\n    main.close()\n    raise RuntimeError('a bug')\nasyncio.run = run\n"
    )
    return str(folder)


def test_an_internal_error_is_one_line_and_a_file_that_only_the_owner_reads(cli: Any, broken_python: str) -> None:
    done = cli.run("stats", "--json", PYTHONPATH=broken_python)

    line, hint = done.err.splitlines()
    assert (done.code, line) == (1, "clew: internal error: RuntimeError: a bug")
    [report] = cli.stage.clew_home.glob("error-*.txt")
    assert str(report) in hint
    assert report.stat().st_mode & 0o077 == 0
    assert "Traceback" in report.read_text()
    assert done.json["error"]["message"] == "internal error: RuntimeError: a bug"


def test_clew_debug_shows_the_traceback(cli: Any, broken_python: str) -> None:
    assert "Traceback" in cli.run("stats", PYTHONPATH=broken_python, CLEW_DEBUG="1").err
