"""`clew demo`: it works offline, leaves no files, and measures its numbers."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.cli.demo import demo
from clew.testing import scripted_agent
from cli.conftest import TIMEOUT_S

pytestmark = pytest.mark.rest

REASONS = ["first_turn", None, None, "history_changed", None]


def test_the_tour_resumes_edits_and_compares(both: Any, tmp_path: Any) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = both.run("demo", "--json", TMPDIR=str(scratch))

    assert done.code == 0, done.err
    tour = done.json
    assert [turn["reason"] for turn in tour["resume"]["turns"]] == REASONS
    assert [turn["reason"] for turn in tour["transcript"]["turns"]] == ["disabled"] * 5
    assert tour["resume"]["cost_units"] < tour["transcript"]["cost_units"]
    assert tour["saved_share"] > 0
    assert list(scratch.iterdir()) == []
    assert not both.stage.clew_home.exists()
    assert not both.api.requests  # the tour has its own model API


def test_the_tour_reads_well_in_a_pipe(cli: Any) -> None:
    done = cli.run("demo", "--turns", "4")

    assert done.code == 0
    assert "fresh: first turn of the thread" in done.out
    assert "resumed · " in done.out
    assert "your second prompt (turn 3) now reads: " in done.out
    assert "\n 3 you " in done.out and "\n 4 claude " in done.out, "turns have the numbers that `threads show` prints"
    assert "resumed, rewound to turn 2: " in done.out
    assert "What resuming saved" in done.out
    assert "measured" in done.out
    assert "1 = one uncached input token" in done.out
    assert "The saving grows with every turn." in " ".join(done.out.split())
    assert "- Firefox: Storage, Cookies.  " in done.out
    assert "    redis-cli TTL session:PASTE_THE_VALUE" in done.out
    assert "\x1b[" not in done.out
    assert done.err == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_tour_that_is_stopped_leaves_nothing_behind(cli: Any, tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = cli.start("demo", TMPDIR=str(scratch))
    while process.stdout.readline() and not any(scratch.glob("*/resume/clew/clew.db")):
        pass
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert list(scratch.iterdir()) == []


def test_without_the_claude_cli_the_scripted_agent_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert scripted_agent.VERSION  # imported before PATH is emptied
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [])

    agent = demo.find_agent(None, tmp_path)

    assert agent.path.is_file()
    assert "scripted stand-in" in agent.about
