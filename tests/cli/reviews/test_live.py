"""A round of `clew review` while it goes on: the line on a terminal, being stopped, being in the way of another."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from clew.testing.model.scripts import Hang, Text, ToolUse
from cli.conftest import TIMEOUT_S
from reviews.reviewer import Reviewer, answer, finding, repository


@pytest.fixture
def house(cli: Any) -> Any:
    repo = repository(cli.stage.work)
    (repo / "a.py").write_text("def a():\n    return 3\n")
    return cli


@pytest.mark.rest
def test_a_line_tells_how_far_the_round_has_come_and_is_gone_at_the_end(house: Any) -> None:
    said = answer([finding(detail="word " * 40)], summary="One thing.")
    house.api.script.extend(
        [ToolUse("Read", {"file_path": str(house.stage.work / "a.py")}), Text(said, chunks=20, delay_s=0.1)]
    )
    terminal = house.terminal("review", "start")

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


def test_ctrl_c_stops_the_reviewer_gently_and_the_review_goes_on_later(house: Any) -> None:
    house.api.script.append(Hang("text", "so far"))
    process = house.start("review", "start", "--json")
    house.api.wait_for_hanging(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert "stopping…" in err.decode()
    round_ = json.loads(out)
    assert (round_["status"], round_["error"]["code"]) == ("failed", "cancelled")
    assert not house.stage.processes()
    house.api.reply = Reviewer()
    assert house.run("review", "follow", round_["id"]).code == 0


def test_a_second_ctrl_c_ends_a_reviewer_that_will_not_stop(house: Any) -> None:
    house.stage.fault({"do": "hang_after_init", "ignore_term": True})
    process = house.start("review", "start")
    assert "round 1" in process.stderr.readline().decode()
    while not house.stage.launches:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert "stopping…" in process.stderr.readline().decode()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 7
    assert not house.stage.processes()


def test_a_round_that_is_going_on_is_in_the_way_with_8(house: Any) -> None:
    house.api.script.append(Hang())
    process = house.start("review", "start", "--json")
    house.api.wait_for_hanging(1)

    done = house.run("review", "follow", "latest", "And?", "--json")
    assert (done.code, done.json["error"]["code"]) == (8, "busy")
    (shown,) = house.run("review", "list", "--json").json
    assert (shown["status"], len(shown["rounds"])) == ("running", 1)
    house.api.script.append(Text(answer()))  # what hung does not fit
    house.api.release()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["runs"]) == (0, 2)


@pytest.mark.rest
def test_a_time_out_is_6(house: Any) -> None:
    house.api.script.append(Hang("text", "so far"))
    done = house.run("review", "start", "--timeout", "3s", "--json")

    assert (done.code, done.json["error"]["code"]) == (6, "timed_out")
    assert not house.stage.processes()
