"""What a daemon that ended left queued, as the command line tells of it: only what is true now."""

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
    cli.run("ask", "-t", "elsewhere", "hello")  # whoever asks brings to its end what the dead one was doing
    return str(second)


def test_an_ask_says_what_is_queued_before_it(cli: Any, left: str) -> None:
    done = cli.run("ask", "-t", "t", "third")

    assert (done.code, done.out) == (0, "ack: third\n")
    told = [line for line in done.err.splitlines() if "queued" in line]
    assert told == ["1 prompt was queued before this one; queued prompts run with the next clew serve"]
    assert "queued" not in cli.run("ask", "-t", "other", "hello").err


def test_a_watch_does_not_tell_what_was_true_once(cli: Any, left: str) -> None:
    watching = cli.start("runs", "watch", left)
    told = [watching.stderr.readline().decode() for _ in range(2)]
    cli.run("runs", "remove", left)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert told[0].startswith(f"run {left[:8]} of t: second")
    assert told[1] == "no process is running it: it continues with the next clew serve\n"
    assert "is running in it" not in err.decode()


def test_a_run_that_never_started_is_listed_by_how_long_it_is_queued(cli: Any, left: str) -> None:
    rows = {line.split()[0]: line for line in cli.run("runs", "list").out.splitlines()}
    [row] = [line for run, line in rows.items() if left.startswith(run)]

    assert "queued until the next clew serve" in row
    assert row.count("queued") == 2
    assert "s ago" in row
    shown = cli.run("runs", "show", left).out
    assert "queued     " in shown
    assert "started" not in shown


def test_continue_says_which_thread_it_goes_on_in(cli: Any) -> None:
    cli.run("ask", "-t", "fix-login", "one")

    done = cli.run("ask", "-c", "two")

    assert done.err.splitlines()[0] == "continuing fix-login"
    assert done.out == "ack: two\n"
