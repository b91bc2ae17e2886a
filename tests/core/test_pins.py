"""Pins: their moves, and what settling takes from a session's file."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from clew.core.history import History, Role, Turn, digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import (
    NOTHING_OBSERVED,
    Absorbed,
    HeldBack,
    IllegalMove,
    Mark,
    Observed,
    Pending,
    Pin,
    PinState,
    Runtime,
    absorb,
    has_diverged,
    holds,
    is_unproven,
    move,
    settle,
    stands,
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
    def test_states_move_by_the_table_and_no_other_way(self, before: PinState, after: PinState) -> None:
        pin = make_pin(state=before)
        if before is after:
            assert move(pin, after) is pin
        elif (before.value, after.value) in LEGAL:
            assert move(pin, after) == replace(pin, state=after)
        else:
            with pytest.raises(IllegalMove):
                move(pin, after)
        assert pin.state is before


class TestStands:
    def test_a_pin_that_holds_nothing_stands_on_anything(self) -> None:
        assert stands(make_pin(absorbed=()), ())

    def test_it_stands_on_a_longer_history_and_not_on_a_shorter_one(self) -> None:
        assert stands(make_pin(), BEFORE)
        assert not stands(make_pin(), BEFORE[:1])

    @pytest.mark.parametrize(
        "change", [{"text": "x"}, {"role": Role.ASSISTANT}, {"id": TurnId("x")}], ids=["text", "role", "id"]
    )
    def test_the_digest_changes_with_text_role_and_id(self, change: dict[str, Any]) -> None:
        assert digest(replace(U1, **change)) != digest(U1)
        assert not stands(make_pin(), (replace(U1, **change), A1))

    def test_the_digest_takes_text_that_is_no_unicode(self) -> None:
        assert digest(replace(U1, text="\ud800")) != digest(replace(U1, text="\ud801"))


class TestSettle:
    def test_without_a_pending_turn_there_is_nothing_to_settle(self) -> None:
        pin = make_pin(pending=None)
        assert settle(pin, saw(), BEFORE) is pin

    @pytest.mark.parametrize(
        "observed",
        [
            NOTHING_OBSERVED,
            Observed(exists=False),
            Observed(exists=True, holds_pending=None),
            saw(went_on=True),
            saw(exists=None),
        ],
        ids=["no file to read", "file gone", "cannot tell", "someone went on", "unknown"],
    )
    def test_a_file_that_does_not_tell_leaves_the_pin_as_it_is(self, observed: Observed) -> None:
        pin = make_pin()
        assert settle(pin, observed, BEFORE) is pin

    def test_a_prompt_that_never_arrived_is_no_longer_pending_and_nothing_else_changes(self) -> None:
        pin = make_pin()
        assert settle(pin, saw(holds_pending=False), BEFORE) == replace(pin, pending=None)

    def test_a_first_prompt_that_never_arrived_leaves_a_pin_that_nothing_confirms(self) -> None:
        pin = make_pin(absorbed=(), state=PinState.PROVISIONAL)
        assert settle(pin, saw(holds_pending=False), BEFORE) is pin

    def test_a_copy_that_nothing_has_borne_out_is_not_believed(self) -> None:
        copy = make_pin(state=PinState.PROVISIONAL, mark=None)
        assert is_unproven(copy) and settle(copy, saw(holds_pending=False), BEFORE) is copy
        arrived = settle(copy, saw(), BEFORE)
        assert arrived.pending is None and not is_unproven(arrived), "its prompt stands after all that was copied"
        assert not is_unproven(make_pin(state=PinState.PROVISIONAL, mark=None, absorbed=())), "it has nothing yet"

    def test_a_prompt_that_arrived_is_absorbed_with_its_standing_text_and_the_files_mark(self) -> None:
        settled = settle(make_pin(), saw(), BEFORE)
        assert settled.absorbed == tuple(Absorbed.of(turn) for turn in BEFORE)
        assert (settled.pending, settled.standing, settled.mark) == (None, "standing-2", Mark(20, "e2"))

    def test_it_stays_in_its_state(self) -> None:
        assert settle(make_pin(state=PinState.PROVISIONAL), saw(), BEFORE).state is PinState.PROVISIONAL

    def test_a_partial_answer_that_the_file_has_whole_is_absorbed(self) -> None:
        settled = settle(make_pin(), saw(said=A2.text), (*BEFORE, A2))
        assert settled.absorbed[-1] == Absorbed.of(A2)
        assert settled.held_back is None

    def test_a_partial_answer_that_the_file_has_in_part_is_held_back(self) -> None:
        settled = settle(make_pin(), saw(said="two and"), (*BEFORE, A2))
        assert settled.absorbed[-1] == Absorbed.of(U2)
        assert settled.held_back is not None
        assert settled.pending is None

    def test_a_partial_answer_that_the_file_lacks_is_not_absorbed(self) -> None:
        settled = settle(make_pin(), saw(said=""), (*BEFORE, A2))
        assert settled.absorbed[-1] == Absorbed.of(U2)
        assert settled.held_back is None

    @pytest.mark.parametrize(
        ("said", "history"),
        [
            ("words that nobody kept", (*BEFORE, A2)),
            ("two and a half, and more that came after the stop", (*BEFORE, A2)),
            (A2.text, (*BEFORE, replace(A2, text="edited meanwhile"))),
            (A2.text, BEFORE),
            (A2.text, (*BEFORE, replace(U1, id=TurnId("u3"), text=A2.text))),
        ],
        ids=["other words", "more words", "answer edited", "answer gone", "a user's turn follows"],
    )
    def test_words_that_the_thread_does_not_have_leave_it_unconfirmed(self, said: str, history: History) -> None:
        pin = make_pin()
        assert settle(pin, saw(said=said), history) is pin

    def test_a_prompt_that_was_edited_meanwhile_is_absorbed_as_it_was_sent_and_no_longer_stands(self) -> None:
        history = (U1, A1, replace(U2, text="edited"))
        settled = settle(make_pin(), saw(), history)
        assert settled.absorbed[-1] == Absorbed.of(U2)
        assert not stands(settled, history)

    def test_an_old_held_back_answer_is_forgotten_once_the_catch_up_arrived(self) -> None:
        history = (*BEFORE, A2)
        held = settle(make_pin(), saw(said="two and"), history)
        prompt = replace(U1, id=TurnId("u3"))
        pending = Pending("uuid-3", (Absorbed.of(A2), Absorbed.of(prompt)), None)
        settled = settle(replace(held, pending=pending), saw(), (*history, prompt))
        assert settled.held_back is None
        assert stands(settled, (*history, prompt))

    def test_settling_twice_is_settling_once(self) -> None:
        history = (*BEFORE, A2)
        once = settle(make_pin(), saw(said=A2.text), history)
        assert settle(once, saw(said=A2.text), history) == once


@pytest.mark.parametrize(
    ("pending", "observed", "diverged"),
    [
        (False, Observed(exists=True, mark=Mark(200, "e2")), True),
        (False, Observed(exists=True, mark=Mark(200, "e1")), False),  # book-keeping of the CLI
        (False, Observed(exists=False), False),
        (True, Observed(exists=True, mark=Mark(200, "e2"), holds_pending=True), False),  # it grew by our own prompt
        (True, Observed(exists=True, mark=Mark(200, "e2")), False),  # nobody can tell
        (True, Observed(exists=True, mark=Mark(200, "e2"), holds_pending=False), True),  # by somebody else's
        (True, Observed(exists=True, mark=Mark(100, "e1"), holds_pending=False), False),
        (True, Observed(exists=True, mark=Mark(300, "e3"), holds_pending=True, went_on=True), True),
    ],
)
def test_a_session_has_diverged_when_it_grew_by_what_is_not_ours(
    pending: bool, observed: Observed, diverged: bool
) -> None:
    pin = make_pin(mark=Mark(100, "e1"), pending=Pending("uuid", (), None) if pending else None)
    assert has_diverged(pin, observed) is diverged


@pytest.mark.parametrize(
    ("said", "held", "held_back"),
    [("one", True, None), ("", False, None), ("on", False, "on"), ("another", None, None), ("one more", None, None)],
)
def test_of_an_answer_the_session_absorbs_what_its_file_has(
    said: str, held: bool | None, held_back: str | None
) -> None:
    """None: the file has words that are not the answer's, so nothing of the attempt is counted."""
    pin = make_pin(absorbed=(), pending=Pending("uuid", (Absorbed.of(U1),), None))
    observed = Observed(exists=True, mark=Mark(20, "e2"), holds_pending=True, said=said)
    after = absorb(pin, observed, A1)
    if held is None:
        assert after == pin
        return
    assert after.absorbed == ((Absorbed.of(U1), Absorbed.of(A1)) if held else (Absorbed.of(U1),))
    assert (holds(after, A1), after.pending, after.mark) == (held, None, Mark(20, "e2"))
    assert after.held_back == (HeldBack.of(A1, len(held_back)) if held_back else None)


def test_a_damaged_file_settles_nothing() -> None:
    pin = make_pin()
    assert settle(pin, Observed(exists=True, damaged=True, holds_pending=True), BEFORE) == pin


@pytest.mark.parametrize("absorbed", [Absorbed.of(U1), Absorbed(U1.id, None)], ids=["shown", "left out"])
def test_another_turn_with_the_same_words_is_not_the_one_that_was_absorbed(absorbed: Absorbed) -> None:
    pin = make_pin(pending=None, absorbed=(absorbed, Absorbed.of(A1)))
    assert stands(pin, (U1, A1))
    assert not stands(pin, (replace(U1, id=TurnId("another")), A1))


def test_where_we_left_it_or_where_it_stands_is_not_known() -> None:
    assert not has_diverged(make_pin(pending=None, mark=None), Observed(exists=True, mark=Mark(200, "e2")))
    assert not has_diverged(make_pin(pending=None, mark=Mark(100, "e1")), Observed(exists=True))


def test_a_borrowed_session_may_grow() -> None:
    """Another thread is its owner."""
    grown = Observed(exists=True, mark=Mark(200, "e2"))
    pin = make_pin(pending=None, mark=Mark(100, "e1"))
    assert has_diverged(pin, grown)
    assert not has_diverged(replace(pin, borrowed_at="e1"), grown)
