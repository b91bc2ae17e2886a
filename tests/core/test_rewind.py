"""The decision about a session of which only the beginning stands, and about copies of other sessions."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core import prompts
from clew.core.decision import (
    Abilities,
    Decision,
    Fresh,
    ModelSwitch,
    Policy,
    Reason,
    Resume,
)
from clew.core.history import Absorbed, History, text_digest
from clew.core.ids import PinId, SessionId, TurnId
from clew.core.pins import (
    UNKNOWN_STANDING,
    Mark,
    Observed,
    PartlyAbsorbed,
    Pending,
    PinState,
    SessionEnd,
)
from clew.core.record import replace
from clew.core.session import SessionState
from core.decision_cases import NOW, ask, make_pin, make_request, said, user

CAN_REWIND = Abilities(resume=True, choose_id=True, fork=True, rewind=True)
CAN_COPY = Abilities(resume=True, choose_id=True, fork=True)
LONG: History = tuple(
    user(f"u{n // 2}") if n % 2 == 0 else said(f"a{n // 2}", message_id=f"m{n // 2}") for n in range(2, 10)
)
ENDS = tuple(SessionEnd(f"end-{n}", frozenset({f"m{n}", f"end-{n}"}), prompts=n) for n in range(1, 5))
AS_LEFT = Observed(SessionState.SAME, mark=Mark(100, "e1"), ends=ENDS)


def changed(name: str) -> History:
    return tuple(replace(turn, text="edited") if turn.id == name else turn for turn in LONG)


class TestRewind:
    """A session of which only the beginning stands continues in a copy that ends there."""

    def rewound(self, history: History, **more: Any) -> Decision:
        given = {"pins": (make_pin(LONG),), "abilities": CAN_REWIND, "observed": AS_LEFT, **more}
        return ask(history=history, **given)

    @pytest.mark.parametrize(
        ("edited_turn", "number"), [("u2", 2), ("a2", 2), ("u3", 4), ("a3", 4), ("u4", 6), ("a4", 6)]
    )
    def test_an_edit_rewinds_to_the_last_answer_before_it(self, edited_turn: str, number: int) -> None:
        decision = self.rewound(changed(edited_turn))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert (decision.reason, decision.copies) == (Reason.HISTORY_CHANGED, True)
        assert (decision.rewind.number, decision.rewind.turn_id) == (number, LONG[number - 1].id)
        assert decision.rewind.end_id == f"end-{number // 2}"
        assert len(decision.pin.absorbed) == number
        assert [known.turn_id for known in decision.shown] == [turn.id for turn in LONG[number:]] + ["u3"]
        assert decision.prompt.count("edited") == 1
        assert all(turn.text not in decision.prompt for turn in LONG[:number])

    @pytest.mark.parametrize("kept", [2, 3, 4, 5, 6, 7])
    def test_a_truncation_rewinds_to_the_last_answer_that_is_left(self, kept: int) -> None:
        decision = self.rewound(LONG[:kept])
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == kept // 2 * 2

    @pytest.mark.parametrize(
        "history", [changed("u1"), changed("a1"), LONG[:1]], ids=["prompt", "answer", "answer removed"]
    )
    def test_without_a_whole_turn_before_the_change_it_starts_fresh(self, history: History) -> None:
        decision = self.rewound(history)
        assert isinstance(decision, Fresh) and decision.reason is Reason.HISTORY_CHANGED

    @pytest.mark.parametrize(
        "more",
        [
            {"policy": Policy(rewind=False)},
            {"abilities": CAN_COPY},
            {"observed": replace(AS_LEFT, ends=())},
            {"observed": replace(AS_LEFT, state=SessionState.GONE)},
            {"observed": replace(AS_LEFT, state=SessionState.BRANCHED)},
            {"observed": replace(AS_LEFT, state=SessionState.DAMAGED)},
            {"request": make_request(work_dir="/elsewhere")},
            {"policy": Policy(max_age_s=1.0)},
            {"pins": (make_pin(LONG, state=PinState.POISONED),)},
        ],
    )
    def test_what_forbids_a_resume_forbids_a_rewind(self, more: dict[str, Any]) -> None:
        decision = self.rewound(changed("u3"), **more)
        assert isinstance(decision, Fresh)
        assert decision.reason in (Reason.HISTORY_CHANGED, Reason.POISONED)

    def test_a_request_for_a_fresh_session_is_not_answered_with_a_rewind(self) -> None:
        assert self.rewound(changed("u3"), request=make_request(force_fresh=True)).reason is Reason.FORCED_FRESH

    def test_it_never_ends_before_a_compaction(self) -> None:
        """The agent cannot go back there, so its file names no end there."""
        decision = self.rewound(changed("u4"), observed=replace(AS_LEFT, ends=ENDS[2:]))
        assert isinstance(decision, Resume)
        assert isinstance(self.rewound(changed("u3"), observed=replace(AS_LEFT, ends=ENDS[2:])), Fresh)

    def test_it_never_ends_with_a_partial_answer_or_with_one_that_another_session_gave(self) -> None:
        for change in ({"partial": True}, {"message_id": None}, {"message_id": "of another session"}):
            history = tuple(replace(turn, **change) if turn.id == "a2" else turn for turn in changed("u3"))
            decision = self.rewound(history)
            assert isinstance(decision, Resume) and decision.rewind is not None
            assert decision.rewind.number == 2, change

    def test_it_never_ends_where_the_session_holds_prompts_that_the_pin_does_not_know(self) -> None:
        ends = (ENDS[0], replace(ENDS[1], prompts=3), *ENDS[2:])
        decision = self.rewound(changed("u3"), observed=replace(AS_LEFT, ends=ends))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 2

    def test_prompts_that_were_never_answered_count_as_known(self) -> None:
        """The session holds two prompts in a row, and the pin knows both."""
        history = (user("u0"), *changed("u2"))
        ends = tuple(replace(end, prompts=end.prompts + 1) for end in ENDS)
        decision = self.rewound(history, pins=(make_pin((user("u0"), *LONG)),), observed=replace(AS_LEFT, ends=ends))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 3

    def test_it_never_ends_with_a_prompt(self) -> None:
        history = tuple(replace(turn, message_id="m2") if turn.id == "u2" else turn for turn in changed("a2"))
        decision = self.rewound(history)
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 2

    def test_it_may_end_with_the_sessions_first_turn(self) -> None:
        """A session whose first prompt the thread does not have: it was adopted from within an answer."""
        ends = tuple(replace(end, prompts=end.prompts - 1) for end in ENDS)
        decision = self.rewound(changed("u2")[1:], pins=(make_pin(LONG[1:]),), observed=replace(AS_LEFT, ends=ends))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 1

    def test_it_never_ends_where_the_session_lacks_an_earlier_turn(self) -> None:
        """Outside turns came in before turns that the session already held, and it was given them later."""
        came_in = (replace(user("o1"), outside=True), said("o2", outside=True, message_id="of another session"))
        seen = (*LONG[:2], *came_in, *LONG[2:4], *changed("u3")[4:])
        pin = make_pin((*LONG[:4], *came_in, *LONG[4:]))
        decision = self.rewound(seen, pins=(pin,))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 2, "after the second answer, the session lacked the turns that came in"

    def test_an_end_is_found_by_the_id_of_any_entry_of_the_answer(self) -> None:
        ends = tuple(replace(end, message_ids=end.message_ids | {"another entry"}) for end in ENDS)
        history = tuple(replace(turn, message_id="end-2") if turn.id == "a2" else turn for turn in changed("u3"))
        decision = self.rewound(history, observed=replace(AS_LEFT, ends=ends))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 4

    def test_an_attempt_whose_outcome_is_unknown_is_rewound_past(self) -> None:
        pin = make_pin(LONG, pending=Pending("uuid", (Absorbed.of(user("u9")),), None))
        decision = self.rewound((*LONG, user("u9")), pins=(pin,))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert (decision.reason, decision.rewind.number) == (Reason.UNCONFIRMED, 8)
        assert decision.pin.pending is None and "question u9" in decision.prompt

    def test_a_part_of_an_answer_that_was_taken_back_is_rewound_past(self) -> None:
        part = said("a9", "one two three", partial=True)
        pin = make_pin((*LONG, user("u9")), partly_absorbed=PartlyAbsorbed.of(part, 3))
        decision = self.rewound((*LONG, user("u9")), pins=(pin,))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert (decision.rewind.number, decision.pin.partly_absorbed) == (8, None)

    def test_a_standing_text_that_was_sent_after_the_place_is_sent_again(self) -> None:
        pin = make_pin(LONG, standing=text_digest("be brief"))
        told = replace(AS_LEFT, ends=tuple(replace(end, told_later=True) for end in ENDS))
        for observed, is_sent in ((AS_LEFT, False), (told, True)):
            decision = self.rewound(
                changed("u3"), pins=(pin,), observed=observed, request=make_request(standing="be brief")
            )
            assert isinstance(decision, Resume)
            assert ("be brief" in decision.prompt) is is_sent
            assert (decision.pin.standing == UNKNOWN_STANDING) is is_sent

    def test_the_prompt_says_what_the_dropped_turns_did_to_the_files(self) -> None:
        dropped = "- `b.py` was changed 2 times\n- `c.py` was deleted"
        effects = {
            TurnId("a1"): "- `kept.py` was written",
            TurnId("a3"): dropped,
        }
        decision = self.rewound(LONG[:4], effects=effects)
        assert prompts.WORK_DONE in decision.prompt and prompts.DROPPED_NOTE in decision.prompt
        assert dropped in decision.prompt
        assert "kept.py" not in decision.prompt, "the session remembers that itself"
        assert prompts.WORK_DONE not in self.rewound(LONG[:4]).prompt

    def test_a_borrowed_session_can_be_rewound_before_the_fork(self) -> None:
        pin = make_pin(LONG, borrowed_at="", mark=None)
        decision = self.rewound(changed("u3"), pins=(pin,))
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert decision.rewind.number == 4

    def test_what_the_session_holds_as_a_summary_is_never_more_than_it_holds(self) -> None:
        pin = make_pin(LONG, summarised=6)
        decision = self.rewound(changed("u3"), pins=(pin,))
        assert isinstance(decision, Resume) and decision.pin.summarised == 4


class TestOthers:
    """A copy of another session of the agent, if the newest one cannot be used."""

    OLDER = make_pin(LONG, id=PinId("p0"), session_id=SessionId("s0"))
    OF_M2 = make_pin(LONG, id=PinId("p2"), session_id=SessionId("s2"), model="m2")

    @pytest.mark.parametrize("state", [SessionState.GONE, SessionState.DAMAGED])
    def test_an_older_session_replaces_one_that_is_gone_or_damaged(self, state: SessionState) -> None:
        newest = make_pin(LONG, state=PinState.GOOD)
        decision = ask(
            history=LONG,
            pins=(self.OLDER, newest),
            abilities=CAN_COPY,
            observed=Observed(state),
            others=((self.OLDER, AS_LEFT),),
        )
        assert isinstance(decision, Resume)
        assert (decision.session_id, decision.copies, decision.rewind) == ("s0", True, None)

    def test_one_that_stands_is_not_rewound(self) -> None:
        decision = ask(
            history=LONG,
            pins=(self.OLDER, make_pin(LONG)),
            abilities=CAN_REWIND,
            observed=Observed(SessionState.GONE),
            others=((self.OLDER, AS_LEFT),),
        )
        assert isinstance(decision, Resume)
        assert (decision.session_id, decision.copies, decision.rewind) == ("s0", True, None)

    def test_it_may_be_rewound(self) -> None:
        newest = make_pin(changed("u1"))
        decision = ask(
            history=changed("u3"),
            pins=(self.OLDER, newest),
            abilities=CAN_REWIND,
            observed=replace(AS_LEFT, ends=()),
            others=((self.OLDER, AS_LEFT),),
        )
        assert isinstance(decision, Resume) and decision.rewind is not None
        assert (decision.session_id, decision.rewind.number) == ("s0", 4)

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"observed": Observed(SessionState.BRANCHED)}, Reason.SESSION_DIVERGED),
            ({"abilities": Abilities(resume=True, choose_id=True)}, Reason.SESSION_MISSING),
            ({"policy": Policy(rewind=False)}, Reason.SESSION_MISSING),
            ({"others": ((OLDER, Observed(SessionState.GONE)),)}, Reason.SESSION_MISSING),
            ({"request": make_request(force_fresh=True)}, Reason.FORCED_FRESH),
        ],
    )
    def test_else_the_reason_of_the_newest_session_counts(self, more: dict[str, Any], reason: Reason) -> None:
        given = {"abilities": CAN_COPY, "observed": Observed(SessionState.GONE), "others": ((self.OLDER, AS_LEFT),)}
        decision = ask(history=LONG, pins=(self.OLDER, make_pin(LONG)), **{**given, **more})
        assert isinstance(decision, Fresh) and decision.reason is reason

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"state": PinState.POISONED}, Reason.POISONED),
            ({"work_dir": "/elsewhere"}, Reason.WORK_DIR_CHANGED),
            ({"used_at": NOW - 1000}, Reason.EXPIRED),
            ({"resume_count": 4}, Reason.WORN_OUT),
        ],
    )
    def test_a_session_that_may_not_be_used_is_not_replaced(self, changes: dict[str, Any], reason: Reason) -> None:
        decision = ask(
            history=LONG,
            pins=(self.OLDER, make_pin(LONG, **changes)),
            abilities=CAN_REWIND,
            policy=Policy(max_age_s=500.0, max_resumes=4),
            others=((self.OLDER, AS_LEFT),),
        )
        assert isinstance(decision, Fresh) and decision.reason is reason

    @pytest.mark.parametrize("state", [SessionState.SAME, SessionState.BRANCHED])
    def test_no_other_session_replaces_one_that_branched_off(self, state: SessionState) -> None:
        """Also if the history was changed as well."""
        decision = ask(
            history=changed("u3"),
            pins=(self.OLDER, make_pin(changed("u1"))),
            abilities=CAN_REWIND,
            observed=Observed(state),
            others=((self.OLDER, AS_LEFT),),
        )
        assert isinstance(decision, Resume) is (state is SessionState.SAME)
        assert decision.reason is Reason.HISTORY_CHANGED

    @pytest.mark.parametrize("how", ModelSwitch)
    def test_a_first_turn_on_another_model_gets_a_copy_if_the_policy_says_so(self, how: ModelSwitch) -> None:
        decision = ask(
            history=LONG,
            pins=(self.OF_M2,),
            abilities=CAN_COPY,
            policy=Policy(model_switch=how),
            others=((self.OF_M2, AS_LEFT),),
        )
        assert isinstance(decision, Resume) is (how is ModelSwitch.COPY)
        assert decision.reason is Reason.NO_PIN
        assert decision.prompt.endswith("and now?")
