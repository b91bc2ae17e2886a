"""The outcome: its class, and what follows from it by the design's table."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from clew.core.decision import Reason
from clew.core.ids import PinId, SessionId, ThreadId
from clew.core.outcome import CONSEQUENCES, Diagnosis, Outcome, StopReason, classify, falls_back, pin_after
from clew.core.pins import Pin, PinState, Runtime
from clew.core.record import replace

# The design's table: class, the pin's next state ("": unchanged), the reason for which the same run continues fresh.
TABLE = [
    (Outcome.SUCCESS, "good", None),
    (Outcome.REJECTED, "retired", Reason.REJECTED),
    (Outcome.POISONED, "poisoned", Reason.POISONED),
    (Outcome.OVERFLOW, "retired", Reason.OVERFLOW),
    (Outcome.USAGE_LIMIT, "", None),
    (Outcome.AUTH, "", None),
    (Outcome.BILLING, "", None),
    (Outcome.WRONG_MODEL, "", None),
    (Outcome.MEDIA_REMOVED, "", None),
    (Outcome.OVERLOADED, "", None),
    (Outcome.NETWORK, "", None),
    (Outcome.OUR_LIMIT, "", None),
    (Outcome.CANCELLED, "", None),
    (Outcome.TIMED_OUT, "", None),
    (Outcome.KILLED, "", None),
    (Outcome.FAILED, "", None),
]
STATE_CHANGING = {Outcome.SUCCESS, Outcome.FAILED, Outcome.MEDIA_REMOVED} | {row[0] for row in TABLE if row[1]}


def make_pin(**changes: Any) -> Pin:
    runtime = Runtime("claude", "/bin/claude", "Claude Code", True, "/c")
    pin = Pin(PinId("p"), ThreadId("t"), "claude", "m", SessionId("s"), PinState.GOOD, "/project", runtime)
    return replace(pin, **changes)


class TestTable:
    def test_it_has_a_row_for_every_outcome_and_no_other(self) -> None:
        assert [row[0] for row in TABLE] == list(Outcome)
        assert set(CONSEQUENCES) == set(Outcome)

    @pytest.mark.parametrize(("outcome", "state", "fallback"), TABLE)
    def test_each_row_matches_the_design(self, outcome: Outcome, state: str, fallback: Reason | None) -> None:
        consequence = CONSEQUENCES[outcome]
        assert (consequence.pin or "") == state
        assert consequence.fallback is fallback

    @pytest.mark.parametrize(("outcome", "state", "fallback"), TABLE[1:])
    @pytest.mark.parametrize("before", [PinState.GOOD, PinState.PROVISIONAL])
    def test_the_pin_changes_by_the_table(
        self, outcome: Outcome, state: str, fallback: Reason | None, before: PinState
    ) -> None:
        assert pin_after(make_pin(state=before), outcome).state == (state or before)


class TestClassify:
    ANSWERED = Diagnosis(answered=True)
    SILENT = Diagnosis(answered=False)

    @pytest.mark.parametrize(
        ("stop", "outcome"),
        [
            (StopReason.CANCELLED, Outcome.CANCELLED),
            (StopReason.TIMED_OUT, Outcome.TIMED_OUT),
            (StopReason.IDLE, Outcome.TIMED_OUT),
        ],
    )
    @pytest.mark.parametrize("diagnosis", [ANSWERED, SILENT, Diagnosis(False, Outcome.AUTH)])
    def test_our_own_stop_comes_first(self, diagnosis: Diagnosis, stop: StopReason, outcome: Outcome) -> None:
        assert classify(diagnosis, stopped=stop, exit_status=-9) is outcome

    @pytest.mark.parametrize("exit_status", [0, 1, -9, 143, None])
    def test_an_answer_is_a_success_whatever_the_exit_status(self, exit_status: int | None) -> None:
        assert classify(self.ANSWERED, stopped=None, exit_status=exit_status) is Outcome.SUCCESS

    @pytest.mark.parametrize("exit_status", [0, 1, -9, 143, None])
    @pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.USAGE_LIMIT])
    def test_what_the_adapter_recognised_comes_before_the_exit_status(
        self, outcome: Outcome, exit_status: int | None
    ) -> None:
        assert classify(Diagnosis(False, outcome), stopped=None, exit_status=exit_status) is outcome

    @pytest.mark.parametrize("exit_status", [-9, -15, -11, 137, 143])
    def test_a_signal_means_that_it_was_killed(self, exit_status: int) -> None:
        assert classify(self.SILENT, stopped=None, exit_status=exit_status) is Outcome.KILLED

    @pytest.mark.parametrize("exit_status", [0, 1, 2, None])
    def test_no_answer_is_a_failure_whatever_the_exit_status_says(self, exit_status: int | None) -> None:
        assert classify(self.SILENT, stopped=None, exit_status=exit_status) is Outcome.FAILED


class TestFallback:
    @pytest.mark.parametrize(("outcome", "resumed"), list(product(Outcome, [True, False])))
    def test_never_after_a_tool_has_run(self, outcome: Outcome, resumed: bool) -> None:
        assert falls_back(outcome, resumed=resumed, tool_ran=True, can_shorten=True) is None

    @pytest.mark.parametrize(("outcome", "state", "fallback"), TABLE)
    def test_a_resumed_attempt_falls_back_by_the_table(
        self, outcome: Outcome, state: str, fallback: Reason | None
    ) -> None:
        assert falls_back(outcome, resumed=True, tool_ran=False, can_shorten=False) is fallback

    @pytest.mark.parametrize("outcome", Outcome)
    def test_a_fresh_attempt_falls_back_only_to_a_shorter_transcript(self, outcome: Outcome) -> None:
        expected = Reason.OVERFLOW if outcome is Outcome.OVERFLOW else None
        assert falls_back(outcome, resumed=False, tool_ran=False, can_shorten=True) is expected
        assert falls_back(outcome, resumed=False, tool_ran=False, can_shorten=False) is None


class TestAfter:
    def test_the_first_unexplained_failure_keeps_the_pin_and_the_second_in_a_row_retires_it(self) -> None:
        once = pin_after(make_pin(), Outcome.FAILED)
        assert (once.state, once.failures) == (PinState.GOOD, 1)
        assert pin_after(once, Outcome.FAILED).state is PinState.RETIRED

    def test_a_second_removed_image_in_a_row_retires_the_pin(self) -> None:
        once = pin_after(make_pin(), Outcome.MEDIA_REMOVED)
        assert (once.state, once.failures) == (PinState.GOOD, 1)
        assert pin_after(once, Outcome.MEDIA_REMOVED).state is PinState.RETIRED

    @pytest.mark.parametrize("outcome", sorted(set(Outcome) - STATE_CHANGING))
    def test_explained_failures_never_retire_it(self, outcome: Outcome) -> None:
        pin = make_pin()
        for _ in range(5):
            pin = pin_after(pin, outcome)
        assert (pin.state, pin.failures) == (PinState.GOOD, 0)

    def test_a_poisoned_pin_stays_poisoned_also_after_a_failure(self) -> None:
        assert pin_after(make_pin(failures=1), Outcome.POISONED).state is PinState.POISONED

    @pytest.mark.parametrize("outcome", list(Outcome)[1:])
    def test_it_changes_nothing_else(self, outcome: Outcome) -> None:
        pin = make_pin()
        left = pin_after(pin, outcome)
        assert replace(left, state=pin.state, failures=pin.failures) == pin
