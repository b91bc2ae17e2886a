"""A running round of `clew review`: its status line, how it is stopped, and a second round at the same time."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from clew.testing.model.scripts import Hang, Text, ToolUse
from cli.conftest import TIMEOUT_S
from reviews.reviewer import Reviewer, answer, finding, repository


@pytest.fixture
def repo_cli(cli: Any) -> Any:
    repo = repository(cli.stage.work)
    (repo / "a.py").write_text("def a():\n    return 3\n")
    return cli


@pytest.mark.rest
def test_a_status_line_shows_the_progress_and_disappears_at_the_end(repo_cli: Any) -> None:
    said = answer([finding(detail="word " * 40)], summary="One thing.")
    repo_cli.api.script.extend(
        [ToolUse("Read", {"file_path": str(repo_cli.stage.work / "a.py")}), Text(said, chunks=20, delay_s=0.1)]
    )
    terminal = repo_cli.terminal("review", "start")

    terminal.read_until(r"review \d{4}-\d\d-\d\d-001, round 1: 1 file, claude")
    terminal.read_until(r"\ds .*answering · 1 tool · [\d,]+ characters written")
    code, shown = terminal.end()

    assert code == 0
    after = shown[shown.rindex("One thing.") :]
    assert "F1 high\x1b[0m  a.py:2  It returns the wrong number" in after
    details = [line for line in after.splitlines() if "word" in line]
    assert len(details) > 1 and all(line.startswith("    word") and len(line) < 80 for line in details)
    assert "characters written" not in after
    assert "round 1 of " in after


def test_ctrl_c_stops_the_reviewer_gracefully_and_the_review_can_continue(repo_cli: Any) -> None:
    repo_cli.api.script.append(Hang("text", "so far"))
    process = repo_cli.start("review", "start", "--json")
    repo_cli.api.wait_for_hanging(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert "stopping…" in err.decode()
    round_ = json.loads(out)
    assert (round_["status"], round_["error"]["code"]) == ("failed", "cancelled")
    assert not repo_cli.stage.processes()
    repo_cli.api.reply = Reviewer()
    assert repo_cli.run("review", "follow", round_["id"]).code == 0


def test_a_second_ctrl_c_ends_a_reviewer_that_will_not_stop(repo_cli: Any) -> None:
    repo_cli.stage.fault({"do": "hang_after_init", "ignore_term": True})
    process = repo_cli.start("review", "start")
    assert "round 1" in process.stderr.readline().decode()
    while not repo_cli.stage.launches:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert "stopping…" in process.stderr.readline().decode()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert not repo_cli.stage.processes()


def test_a_second_round_at_the_same_time_exits_with_8(repo_cli: Any) -> None:
    repo_cli.api.script.append(Hang())
    process = repo_cli.start("review", "start", "--json")
    repo_cli.api.wait_for_hanging(1)

    done = repo_cli.run("review", "follow", "latest", "And?", "--json")
    assert (done.code, done.json["error"]["code"]) == (8, "busy")
    (shown,) = repo_cli.run("review", "list", "--json").json
    assert (shown["status"], len(shown["rounds"])) == ("running", 1)
    repo_cli.api.script.append(Text(answer()))  # the answer of the reviewer that hung is not valid
    repo_cli.api.release()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["runs"]) == (0, 2)


@pytest.mark.rest
def test_a_time_out_is_6(repo_cli: Any) -> None:
    repo_cli.api.script.append(Hang("text", "so far"))
    done = repo_cli.run("review", "start", "--timeout", "3s", "--json")

    assert (done.code, done.json["error"]["code"]) == (6, "timed_out")
    assert not repo_cli.stage.processes()
