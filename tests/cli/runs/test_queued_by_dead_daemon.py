"""How the command line shows prompts that a daemon left queued when it ended: only what still holds."""

from __future__ import annotations

from typing import Any

import pytest

from cli.conftest import TIMEOUT_S

pytestmark = pytest.mark.rest


@pytest.fixture
def left(cli: Any) -> str:
    """A prompt that a killed daemon left queued."""
    daemon, [_, second] = cli.daemon("!hang start", "second")
    cli.api.wait_for_hanging(1)
    daemon.kill()
    daemon.wait()
    cli.run("ask", "-t", "elsewhere", "hello")  # the next ask ends the run of the dead daemon
    return str(second)


def test_an_ask_says_what_is_queued_before_it(cli: Any, left: str) -> None:
    done = cli.run("ask", "-t", "t", "third")

    assert (done.code, done.out) == (0, "ack: third\n")
    printed = [line for line in done.err.splitlines() if "queued" in line]
    assert printed == ["1 prompt was queued before this one; queued prompts run with the next clew serve"]
    assert "queued" not in cli.run("ask", "-t", "other", "hello").err


def test_a_watch_does_not_show_a_wait_that_is_over(cli: Any, left: str) -> None:
    watching = cli.start("runs", "watch", left)
    printed = [watching.stderr.readline().decode() for _ in range(2)]
    cli.run("runs", "remove", left)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert printed[0].startswith(f"run {left[:8]} of t: second")
    assert printed[1] == "no process is running it: it continues with the next clew serve\n"
    assert "is running in it" not in err.decode()


def test_a_run_that_never_started_is_listed_with_the_time_it_was_queued(cli: Any, left: str) -> None:
    rows = {line.split()[0]: line for line in cli.run("runs", "list").out.splitlines()}
    [row] = [line for run, line in rows.items() if left.startswith(run)]

    assert "queued until the next clew serve" in row
    assert row.count("queued") == 2
    assert "s ago" in row
    shown = cli.run("runs", "show", left).out
    assert "queued     " in shown
    assert "started" not in shown


def test_continue_names_the_thread_that_it_continues(cli: Any) -> None:
    cli.run("ask", "-t", "fix-login", "one")

    done = cli.run("ask", "-c", "two")

    assert done.err.splitlines()[0] == "continuing fix-login"
    assert done.out == "ack: two\n"
