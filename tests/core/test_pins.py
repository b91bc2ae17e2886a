"""Pins: their states, and how they are reconciled with a session's file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from clew.core.history import Absorbed, History, Role, Turn, digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import (
    NOTHING_OBSERVED,
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
    missed,
    move,
    reconcile,
    standing_count,
)
from clew.core.record import replace
from clew.core.session import SessionEntry, SessionState, SessionTurn
from core.decision_cases import Reads, long

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
    return Observed(**{"state": SessionState.SAME, "mark": Mark(20, "e2"), "holds_pending": True, **more})


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
            Observed(state=SessionState.GONE),
            Observed(state=SessionState.SAME, holds_pending=None),
            saw(state=SessionState.BRANCHED),
            saw(state=SessionState.DAMAGED),
            saw(state=None),
        ],
        ids=["no readable file", "file missing", "pending unknown", "branched", "damaged", "existence unknown"],
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
        assert not is_unconfirmed_copy(make_pin(state=PinState.GOOD, mark=None)), "its agent has no readable files"

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


OUTSIDE = SessionTurn(SessionEntry("e9", Role.USER, "outside", is_prompt=True), ())


@pytest.mark.parametrize(
    ("observed", "diverged"),
    [
        (Observed(SessionState.SAME), False),
        (Observed(SessionState.GONE), False),
        (Observed(SessionState.COMPACTED, compacted=True), False),
        (Observed(SessionState.BRANCHED), True),
        (Observed(SessionState.GREW, outside=(OUTSIDE,)), True),  # it was not brought in
        (Observed(SessionState.GREW, before=(OUTSIDE,)), True),
        (NOTHING_OBSERVED, False),
    ],
)
def test_a_session_has_diverged_when_it_branched_or_holds_turns_that_were_not_brought_in(
    observed: Observed, diverged: bool
) -> None:
    assert has_diverged(observed) is diverged


@pytest.mark.parametrize(
    ("said", "whole", "part"),
    [("one", True, None), ("", False, None), ("on", False, "on"), ("another", None, None), ("one more", None, None)],
)
def test_a_session_absorbs_as_much_of_an_answer_as_its_file_has(
    said: str, whole: bool | None, part: str | None
) -> None:
    """`whole` is None: the file has text that is not the answer's, so nothing of the attempt is absorbed."""
    pin = make_pin(absorbed=(), pending=Pending("uuid", (Absorbed.of(U1),), None))
    observed = Observed(state=SessionState.SAME, mark=Mark(20, "e2"), holds_pending=True, answer_text=said)
    after = absorb(pin, observed, A1)
    if whole is None:
        assert after == pin
        return
    assert after.absorbed == ((Absorbed.of(U1), Absorbed.of(A1)) if whole else (Absorbed.of(U1),))
    assert (ends_with(after, A1), after.pending, after.mark) == (whole, None, Mark(20, "e2"))
    assert after.partly_absorbed == (PartlyAbsorbed.of(A1, len(part)) if part else None)


def test_a_session_that_holds_nothing_ends_with_no_turn() -> None:
    assert not ends_with(make_pin(absorbed=()), A1)


@pytest.mark.parametrize("absorbed", [Absorbed.of(U1), Absorbed(U1.id, None)], ids=["shown", "left out"])
def test_another_turn_with_the_same_text_is_not_the_absorbed_one(absorbed: Absorbed) -> None:
    another = replace(U1, id=TurnId("another"))
    pin = make_pin(pending=None, absorbed=(absorbed, Absorbed.of(A1)))
    assert is_valid(pin, (U1, A1))
    assert not is_valid(pin, (another, A1))
    assert not is_valid(replace(pin, absorbed=(absorbed,)), (another,))


@pytest.mark.parametrize("stored", [digest(U1)[:8], "", "another"])
def test_a_turn_is_unchanged_only_if_its_whole_digest_is_the_same(stored: str) -> None:
    pin = make_pin(pending=None, absorbed=(Absorbed(U1.id, stored),))
    assert is_valid(pin, (U1,)) is (stored == "")  # without a digest it was left out, so its text does not matter
    assert is_valid(pin, long((U1,))) is (stored == "")


@pytest.mark.parametrize("held", [(U1, A1), (U1,), (A1,), (U1, U2), (U2, A1), (A1, U1), ()])
def test_what_a_session_missed_is_the_same_if_only_that_is_read(held: Sequence[Turn]) -> None:
    pin = make_pin(pending=None, absorbed=tuple(map(Absorbed.of, held)))
    whole = (*BEFORE, A2)
    assert missed(pin, long(whole)) == missed(pin, whole) == tuple(turn for turn in whole if turn not in held)
    reads = Reads(tuple(Turn(TurnId(f"t{n}"), Role.USER, f"text {n}") for n in range(100)))
    pin = replace(pin, absorbed=tuple(map(Absorbed.of, reads.all[:98])))
    assert missed(pin, long(reads.all, reads)) == reads.all[98:] and reads.of_turns == [(68, 100)]


def outside(name: str, role: Role = Role.USER) -> Turn:
    return Turn(TurnId(name), role, f"text of {name}", "claude", outside=True)


class TestStanding:
    """How much of what a session absorbed stands in the thread."""

    TURNS = tuple(Turn(TurnId(f"t{n}"), Role.USER if n % 2 else Role.ASSISTANT, f"text {n}") for n in range(1, 7))
    OUTSIDE = (outside("o1"), outside("o2", Role.ASSISTANT))

    def count(self, absorbed: Sequence[Turn], seen: Sequence[Turn]) -> int:
        pin = make_pin(pending=None, absorbed=tuple(map(Absorbed.of, absorbed)))
        count = standing_count(pin, seen)
        assert is_valid(pin, seen) is (count == len(absorbed))
        return count

    def test_everything_stands_in_a_straight_conversation(self) -> None:
        assert self.count(self.TURNS[:4], self.TURNS) == 4

    @pytest.mark.parametrize("place", range(4))
    def test_nothing_after_an_edited_turn_stands(self, place: int) -> None:
        edited = replace(self.TURNS[place], text="edited")
        assert self.count(self.TURNS[:4], (*self.TURNS[:place], edited, *self.TURNS[place + 1 :])) == place

    @pytest.mark.parametrize("kept", range(4))
    def test_nothing_that_was_removed_stands(self, kept: int) -> None:
        assert self.count(self.TURNS[:4], self.TURNS[:kept]) == kept

    def test_the_only_turn_of_a_session_does_not_stand_after_an_edit(self) -> None:
        assert self.count(self.TURNS[:1], (replace(self.TURNS[0], text="edited"),)) == 0

    def test_a_turn_before_the_absorbed_ones_that_the_session_lacks_invalidates_it(self) -> None:
        assert self.count(self.TURNS[2:4], self.TURNS) == 0
        assert self.count((self.TURNS[0], self.TURNS[2]), self.TURNS) == 1
        assert self.count((*self.TURNS[:2], *self.TURNS[4:]), self.TURNS) == 2

    def test_turns_in_another_order_do_not_stand(self) -> None:
        assert self.count((*self.TURNS[:2], *self.TURNS[4:6], *self.TURNS[2:4]), self.TURNS) == 2

    def test_outside_turns_stand_beside_what_the_thread_did_meanwhile(self) -> None:
        """The session holds them, and lacks what the thread has before them."""
        seen = (*self.TURNS[:4], *self.OUTSIDE)
        held = (*self.TURNS[:2], *self.OUTSIDE)
        assert self.count(held, seen) == 4
        pin = make_pin(pending=None, absorbed=tuple(map(Absorbed.of, held)))
        assert missed(pin, seen) == self.TURNS[2:4]

    def test_they_still_stand_after_the_session_was_given_what_it_lacked(self) -> None:
        seen = (*self.TURNS[:4], *self.OUTSIDE, *self.TURNS[4:])
        held = (*self.TURNS[:2], *self.OUTSIDE, *self.TURNS[2:])
        assert self.count(held, seen) == 8
        edited = tuple(replace(turn, text="edited") if turn.id == "t3" else turn for turn in seen)
        assert self.count(held, edited) == 4, "up to the turn that was given later and has changed"
        assert self.count(held, tuple(turn for turn in seen if turn.id != "o1")) == 2

    def test_outside_turns_that_were_given_later_than_turns_after_them_stand(self) -> None:
        seen = (*self.TURNS[:2], *self.OUTSIDE, *self.TURNS[2:4])
        assert self.count((*self.TURNS[:4], *self.OUTSIDE), seen) == 6
        assert self.count(self.TURNS[:4], seen) == 2, "until then, turns are in it that follow what it lacks"

    def test_an_own_turn_after_one_that_the_session_lacks_does_not_stand(self) -> None:
        seen = (*self.TURNS[:2], *self.OUTSIDE, *self.TURNS[2:])
        assert self.count((*self.TURNS[:2], self.OUTSIDE[1], *self.TURNS[2:4]), seen) == 3
