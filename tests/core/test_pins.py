"""Pins: their states, and how they are reconciled with a session's file."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from clew.core.history import History, Role, Turn, digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import (
    NOTHING_OBSERVED,
    Absorbed,
    IllegalMove,
    Mark,
    Observed,
    PartlyAbsorbed,
    Pending,
    Pin,
    PinState,
    Runtime,
    absorb,
    ends_with,
    has_diverged,
    is_unconfirmed_copy,
    is_valid,
    move,
    reconcile,
)
from clew.core.record import replace

LEGAL = {
    ("provisional", "good"),
    ("provisional", "poisoned"),
    ("provisional", "retired"),
    ("good", "poisoned"),
    ("good", "retired"),
}

U1 = Turn(TurnId("u1"), Role.USER, "first")
A1 = Turn(TurnId("a1"), Role.ASSISTANT, "one", "claude")
U2 = Turn(TurnId("u2"), Role.USER, "second")
A2 = Turn(TurnId("a2"), Role.ASSISTANT, "two and a half", "claude", partial=True)
BEFORE: History = (U1, A1, U2)


def make_pin(**changes: Any) -> Pin:
    pin = Pin(
        PinId("p"),
        ThreadId("t"),
        "claude",
        "m",
        SessionId("s"),
        PinState.GOOD,
        "/project",
        Runtime("claude", "/bin/claude", "Claude Code", True, "/c"),
        absorbed=(Absorbed.of(U1), Absorbed.of(A1)),
        pending=Pending("uuid-2", (Absorbed.of(U2),), "standing-2"),
        standing="standing-1",
        mark=Mark(10, "e1"),
    )
    return replace(pin, **changes)


def saw(**more: Any) -> Observed:
    return Observed(**{"exists": True, "mark": Mark(20, "e2"), "holds_pending": True, **more})


class TestMoves:
    @pytest.mark.parametrize(("before", "after"), list(product(PinState, PinState)))
    def test_states_change_only_by_the_table(self, before: PinState, after: PinState) -> None:
        pin = make_pin(state=before)
        if before is after:
            assert move(pin, after) is pin
        elif (before.value, after.value) in LEGAL:
            assert move(pin, after) == replace(pin, state=after)
        else:
            with pytest.raises(IllegalMove):
                move(pin, after)
        assert pin.state is before


class TestIsValid:
    def test_a_pin_that_absorbed_nothing_is_valid_for_any_history(self) -> None:
        assert is_valid(make_pin(absorbed=()), ())

    def test_it_is_valid_for_a_longer_history_and_not_for_a_shorter_one(self) -> None:
        assert is_valid(make_pin(), BEFORE)
        assert not is_valid(make_pin(), BEFORE[:1])

    @pytest.mark.parametrize(
        "change", [{"text": "x"}, {"role": Role.ASSISTANT}, {"id": TurnId("x")}], ids=["text", "role", "id"]
    )
    def test_the_digest_changes_with_text_role_and_id(self, change: dict[str, Any]) -> None:
        assert digest(replace(U1, **change)) != digest(U1)
        assert not is_valid(make_pin(), (replace(U1, **change), A1))

    def test_the_digest_accepts_lone_surrogates(self) -> None:
        assert digest(replace(U1, text="\ud800")) != digest(replace(U1, text="\ud801"))


class TestReconcile:
    def test_without_a_pending_turn_nothing_changes(self) -> None:
        pin = make_pin(pending=None)
        assert reconcile(pin, saw(), BEFORE) is pin

    @pytest.mark.parametrize(
        "observed",
        [
            NOTHING_OBSERVED,
            Observed(exists=False),
            Observed(exists=True, holds_pending=None),
            saw(continued_outside=True),
            saw(exists=None),
        ],
        ids=["no readable file", "file missing", "pending unknown", "continued outside", "existence unknown"],
    )
    def test_an_inconclusive_file_leaves_the_pin_unchanged(self, observed: Observed) -> None:
        pin = make_pin()
        assert reconcile(pin, observed, BEFORE) is pin

    def test_a_prompt_that_never_arrived_is_no_longer_pending_and_nothing_else_changes(self) -> None:
        pin = make_pin()
        assert reconcile(pin, saw(holds_pending=False), BEFORE) == replace(pin, pending=None)

    def test_a_first_prompt_that_never_arrived_leaves_the_pin_unconfirmed(self) -> None:
        pin = make_pin(absorbed=(), state=PinState.PROVISIONAL)
        assert reconcile(pin, saw(holds_pending=False), BEFORE) is pin

    def test_an_unconfirmed_copy_stays_pending_until_its_prompt_arrived(self) -> None:
        copy = make_pin(state=PinState.PROVISIONAL, mark=None)
        assert is_unconfirmed_copy(copy) and reconcile(copy, saw(holds_pending=False), BEFORE) is copy
        arrived = reconcile(copy, saw(), BEFORE)
        assert arrived.pending is None and not is_unconfirmed_copy(arrived), (
            "its prompt is after everything that was copied"
        )
        assert not is_unconfirmed_copy(make_pin(state=PinState.PROVISIONAL, mark=None, absorbed=())), (
            "it holds nothing yet"
        )

    def test_a_prompt_that_arrived_is_absorbed_with_its_standing_text_and_the_files_mark(self) -> None:
        reconciled = reconcile(make_pin(), saw(), BEFORE)
        assert reconciled.absorbed == tuple(Absorbed.of(turn) for turn in BEFORE)
        assert (reconciled.pending, reconciled.standing, reconciled.mark) == (None, "standing-2", Mark(20, "e2"))

    def test_its_state_does_not_change(self) -> None:
        assert reconcile(make_pin(state=PinState.PROVISIONAL), saw(), BEFORE).state is PinState.PROVISIONAL

    def test_a_partial_answer_that_the_file_has_completely_is_absorbed(self) -> None:
        reconciled = reconcile(make_pin(), saw(answer_text=A2.text), (*BEFORE, A2))
        assert reconciled.absorbed[-1] == Absorbed.of(A2)
        assert reconciled.partly_absorbed is None

    def test_a_partial_answer_that_the_file_has_in_part_is_partly_absorbed(self) -> None:
        reconciled = reconcile(make_pin(), saw(answer_text="two and"), (*BEFORE, A2))
        assert reconciled.absorbed[-1] == Absorbed.of(U2)
        assert reconciled.partly_absorbed is not None
        assert reconciled.pending is None

    def test_a_partial_answer_that_the_file_lacks_is_not_absorbed(self) -> None:
        reconciled = reconcile(make_pin(), saw(answer_text=""), (*BEFORE, A2))
        assert reconciled.absorbed[-1] == Absorbed.of(U2)
        assert reconciled.partly_absorbed is None

    @pytest.mark.parametrize(
        ("said", "history"),
        [
            ("text that the thread does not have", (*BEFORE, A2)),
            ("two and a half, and more that came after the stop", (*BEFORE, A2)),
            (A2.text, (*BEFORE, replace(A2, text="edited meanwhile"))),
            (A2.text, BEFORE),
            (A2.text, (*BEFORE, replace(U1, id=TurnId("u3"), text=A2.text))),
        ],
        ids=["other text", "more text", "answer edited", "answer removed", "a user's turn follows"],
    )
    def test_text_that_the_thread_does_not_have_leaves_it_unconfirmed(self, said: str, history: History) -> None:
        pin = make_pin()
        assert reconcile(pin, saw(answer_text=said), history) is pin

    def test_a_prompt_that_was_edited_meanwhile_is_absorbed_as_sent_and_the_pin_is_invalid(self) -> None:
        history = (U1, A1, replace(U2, text="edited"))
        reconciled = reconcile(make_pin(), saw(), history)
        assert reconciled.absorbed[-1] == Absorbed.of(U2)
        assert not is_valid(reconciled, history)

    def test_a_partly_absorbed_answer_is_cleared_when_the_catch_up_arrived(self) -> None:
        history = (*BEFORE, A2)
        held = reconcile(make_pin(), saw(answer_text="two and"), history)
        prompt = replace(U1, id=TurnId("u3"))
        pending = Pending("uuid-3", (Absorbed.of(A2), Absorbed.of(prompt)), None)
        reconciled = reconcile(replace(held, pending=pending), saw(), (*history, prompt))
        assert reconciled.partly_absorbed is None
        assert is_valid(reconciled, (*history, prompt))

    def test_it_is_idempotent(self) -> None:
        history = (*BEFORE, A2)
        once = reconcile(make_pin(), saw(answer_text=A2.text), history)
        assert reconcile(once, saw(answer_text=A2.text), history) == once


@pytest.mark.parametrize(
    ("pending", "observed", "diverged"),
    [
        (False, Observed(exists=True, mark=Mark(200, "e2")), True),
        (False, Observed(exists=True, mark=Mark(200, "e1")), False),  # bookkeeping of the CLI
        (False, Observed(exists=False), False),
        (True, Observed(exists=True, mark=Mark(200, "e2"), holds_pending=True), False),  # it grew by our own prompt
        (True, Observed(exists=True, mark=Mark(200, "e2")), False),  # not known
        (True, Observed(exists=True, mark=Mark(200, "e2"), holds_pending=False), True),  # it grew by somebody else's
        (True, Observed(exists=True, mark=Mark(100, "e1"), holds_pending=False), False),
        (True, Observed(exists=True, mark=Mark(300, "e3"), holds_pending=True, continued_outside=True), True),
    ],
)
def test_a_session_has_diverged_when_somebody_else_added_to_it(
    pending: bool, observed: Observed, diverged: bool
) -> None:
    pin = make_pin(mark=Mark(100, "e1"), pending=Pending("uuid", (), None) if pending else None)
    assert has_diverged(pin, observed) is diverged


@pytest.mark.parametrize(
    ("said", "whole", "part"),
    [("one", True, None), ("", False, None), ("on", False, "on"), ("another", None, None), ("one more", None, None)],
)
def test_a_session_absorbs_as_much_of_an_answer_as_its_file_has(
    said: str, whole: bool | None, part: str | None
) -> None:
    """`whole` is None: the file has text that is not the answer's, so nothing of the attempt is absorbed."""
    pin = make_pin(absorbed=(), pending=Pending("uuid", (Absorbed.of(U1),), None))
    observed = Observed(exists=True, mark=Mark(20, "e2"), holds_pending=True, answer_text=said)
    after = absorb(pin, observed, A1)
    if whole is None:
        assert after == pin
        return
    assert after.absorbed == ((Absorbed.of(U1), Absorbed.of(A1)) if whole else (Absorbed.of(U1),))
    assert (ends_with(after, A1), after.pending, after.mark) == (whole, None, Mark(20, "e2"))
    assert after.partly_absorbed == (PartlyAbsorbed.of(A1, len(part)) if part else None)


def test_a_damaged_file_changes_nothing() -> None:
    pin = make_pin()
    assert reconcile(pin, Observed(exists=True, damaged=True, holds_pending=True), BEFORE) == pin


@pytest.mark.parametrize("absorbed", [Absorbed.of(U1), Absorbed(U1.id, None)], ids=["shown", "left out"])
def test_another_turn_with_the_same_text_is_not_the_absorbed_one(absorbed: Absorbed) -> None:
    pin = make_pin(pending=None, absorbed=(absorbed, Absorbed.of(A1)))
    assert is_valid(pin, (U1, A1))
    assert not is_valid(pin, (replace(U1, id=TurnId("another")), A1))


def test_a_session_without_a_known_mark_has_not_diverged() -> None:
    assert not has_diverged(make_pin(pending=None, mark=None), Observed(exists=True, mark=Mark(200, "e2")))
    assert not has_diverged(make_pin(pending=None, mark=Mark(100, "e1")), Observed(exists=True))


def test_a_borrowed_session_may_grow() -> None:
    """It belongs to another thread."""
    grown = Observed(exists=True, mark=Mark(200, "e2"))
    pin = make_pin(pending=None, mark=Mark(100, "e1"))
    assert has_diverged(pin, grown)
    assert not has_diverged(replace(pin, borrowed_at="e1"), grown)
