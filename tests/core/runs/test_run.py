"""A run's states, and how a run ends."""

from __future__ import annotations

from itertools import product

import pytest

from clew.core.outcome import Outcome
from clew.core.runs.run import LIVE, IllegalStatus, RunStatus, advance, status_after

LEGAL = {
    "queued": "running cancelled failed interrupted",
    "running": "waiting answered cancelled timed_out failed interrupted",
    "waiting": "running answered cancelled timed_out failed interrupted",
    "answered": "",
    "cancelled": "",
    "timed_out": "",
    "failed": "",
    "interrupted": "",
}


@pytest.mark.parametrize(("before", "after"), list(product(RunStatus, RunStatus)))
def test_statuses_change_only_by_the_table(before: RunStatus, after: RunStatus) -> None:
    if before is after or after.value in LEGAL[before.value].split():
        assert advance(before, after) is after
    else:
        with pytest.raises(IllegalStatus):
            advance(before, after)


def test_live_runs_are_those_that_can_still_change() -> None:
    assert {status.value for status in LIVE} == {name for name, moves in LEGAL.items() if moves}


ENDS = {Outcome.SUCCESS: "answered", Outcome.CANCELLED: "cancelled", Outcome.TIMED_OUT: "timed_out"}


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_ends_a_run(outcome: Outcome) -> None:
    assert status_after(outcome).value == ENDS.get(outcome, "failed")
