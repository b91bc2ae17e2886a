"""The state of each tool call. The page is tested with the same cases: `src/clew/web/page/state.test.ts`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.runs.events import AttemptStarted, ToolFinished, ToolStarted, from_body
from clew.core.runs.tool_calls import ToolLog, ToolState, calls

CASES = json.loads(Path(__file__).parents[1].joinpath("tool_states.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_state_of_a_tool_call(case: dict[str, Any]) -> None:
    found = calls(from_body(kind, body) for kind, body in case["events"])
    assert {call.tool_id: call.state.value for call in found} == case["states"]


def test_every_state_has_a_case() -> None:
    assert {state for case in CASES for state in case["states"].values()} == {state.value for state in ToolState}


def test_what_a_failed_attempt_left_open_is_unfinished() -> None:
    started = ToolStarted("a", "Bash", {})
    [call] = calls([started, AttemptStarted(2, resumed=False, reason="rejected")])
    assert call.state is ToolState.UNFINISHED


def test_the_log_returns_the_call_that_an_event_ends() -> None:
    log = ToolLog()
    assert log.feed(ToolStarted("a", "Bash", {})) is None
    ended = log.feed(ToolFinished("a", is_error=False, output=""))
    assert ended is not None and (ended.tool_id, ended.state) == ("a", ToolState.DONE)
    assert log.feed(ToolFinished("unknown", is_error=False, output="")) is None
    assert log.feed(None) is None
