"""The decision: each guard, their order, visibility, and what each prompt holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from clew.core import prompts
from clew.core.decision import (
    GUARDS,
    MEANING,
    Abilities,
    Decision,
    Fresh,
    Policy,
    Reason,
    Resume,
    candidate,
    fresh,
    with_shorter_transcript,
)
from clew.core.history import Absorbed, History, Role, Visibility, text_digest, visible
from clew.core.ids import PinId, SessionId, TurnId
from clew.core.pins import (
    Mark,
    Observed,
    Pending,
    Pin,
    PinState,
    is_valid,
    reconcile,
)
from clew.core.record import replace
from clew.core.session import SessionEntry, SessionState, SessionTurn
from core.decision_cases import HISTORY, RUNTIME, ask, make_pin, make_request, said, user

# For every guard, a change to a case that would be resumed. Changes for different guards can be combined.
World = dict[str, Any]


def of_pin(**changes: Any) -> Callable[[World], World]:
    return lambda world: {**world, "pins": tuple(replace(pin, **changes) for pin in world["pins"])}


def of_request(**changes: Any) -> Callable[[World], World]:
    return lambda world: {**world, "request": replace(world["request"], **changes)}


def of_policy(**changes: Any) -> Callable[[World], World]:
    return lambda world: {**world, "policy": replace(world["policy"], **changes)}


def of_observed(**changes: Any) -> Callable[[World], World]:
    return lambda world: {**world, "observed": replace(world["observed"], **changes)}


def edited(world: World) -> World:
    return {**world, "history": (replace(world["history"][0], text="edited"), *world["history"][1:])}


OUTSIDE_TURN = SessionTurn(SessionEntry("e9", Role.USER, "outside", is_prompt=True), ())

VIOLATIONS: dict[Reason, Callable[[World], World]] = {
    Reason.DISABLED: of_policy(enable_resume=False),
    Reason.UNSUPPORTED: lambda world: {**world, "abilities": Abilities(resume=False, choose_id=True)},
    Reason.FORCED_FRESH: of_request(force_fresh=True),
    Reason.FIRST_TURN: lambda world: {**world, "history": ()},
    Reason.NO_PIN: lambda world: {**world, "pins": ()},
    Reason.POISONED: of_pin(state=PinState.POISONED),
    Reason.HISTORY_CHANGED: edited,
    Reason.WORK_DIR_CHANGED: of_request(work_dir="/elsewhere"),
    Reason.RUNTIME_CHANGED: of_request(runtime=replace(RUNTIME, binary="/opt/openclaude")),
    Reason.EXPIRED: of_policy(max_age_s=99.0),
    Reason.WORN_OUT: of_policy(max_resumes=3),
    Reason.SESSION_MISSING: of_observed(state=SessionState.GONE),
    Reason.SESSION_DIVERGED: of_observed(outside=(OUTSIDE_TURN,)),
    Reason.SESSION_DAMAGED: of_observed(state=SessionState.DAMAGED),
    Reason.CANNOT_FORK: of_pin(borrowed_at="e1"),
    Reason.UNCONFIRMED: of_pin(pending=Pending("uuid", (Absorbed.of(user("u9")),), None)),
}


def world() -> World:
    return {
        "request": make_request(),
        "history": HISTORY,
        "pins": (make_pin(),),
        "abilities": Abilities(resume=True, choose_id=True),
        "observed": Observed(state=SessionState.SAME, mark=Mark(100, "e1")),
        "policy": Policy(),
    }


def test_a_straight_conversation_is_resumed_with_the_new_prompt_alone() -> None:
    decision = ask()
    assert isinstance(decision, Resume)
    assert (decision.session_id, decision.prompt, decision.reason) == ("s1", "and now?", None)
    assert (decision.copies, decision.rewind) == (False, None)
    assert decision.shown == (Absorbed.of(make_request().prompt),)


def test_the_guards_are_in_the_designs_order() -> None:
    assert [reason.value for reason, _ in GUARDS] == [
        "disabled",
        "unsupported",
        "forced_fresh",
        "first_turn",
        "no_pin",
        "poisoned",
        "history_changed",
        "work_dir_changed",
        "runtime_changed",
        "expired",
        "worn_out",
        "session_missing",
        "session_diverged",
        "session_damaged",
        "cannot_fork",
        "unconfirmed",
    ]
    assert set(VIOLATIONS) == {reason for reason, _ in GUARDS}


def test_every_reason_has_a_meaning_to_show() -> None:
    assert set(MEANING) == set(Reason)
    assert all(MEANING.values())


@pytest.mark.parametrize("reason", VIOLATIONS)
def test_each_guard_alone_starts_fresh_with_its_own_reason_and_the_whole_transcript(reason: Reason) -> None:
    case = VIOLATIONS[reason](world())
    decision = ask(**case)
    assert isinstance(decision, Fresh)
    assert decision.reason is reason
    assert all(turn.text in decision.prompt for turn in case["history"])
    assert decision.prompt.endswith("and now?")
    assert decision.skipped_session == (None if reason is Reason.NO_PIN else "s1"), "the session that is not resumed"


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(VIOLATIONS)))
def test_of_two_adjacent_guards_the_earlier_gives_the_reason(earlier: Reason, later: Reason) -> None:
    decision = ask(**VIOLATIONS[earlier](VIOLATIONS[later](world())))
    assert isinstance(decision, Fresh)
    assert decision.reason is earlier


@pytest.mark.parametrize("first", range(len(VIOLATIONS)))
def test_when_all_later_guards_object_too_the_first_gives_the_reason(first: int) -> None:
    case = world()
    for reason in reversed(list(VIOLATIONS)[first:]):
        case = VIOLATIONS[reason](case)
    assert ask(**case).reason is list(VIOLATIONS)[first]


class TestBoundaries:
    @pytest.mark.parametrize(("max_age_s", "resumed"), [(100.0, True), (99.9, False), (None, True)])
    def test_a_session_is_expired_only_beyond_its_age(self, max_age_s: float | None, resumed: bool) -> None:
        assert isinstance(ask(policy=Policy(max_age_s=max_age_s)), Resume) is resumed

    @pytest.mark.parametrize(("max_resumes", "resumed"), [(4, True), (3, False), (None, True)])
    def test_a_session_is_worn_out_at_its_count(self, max_resumes: int | None, resumed: bool) -> None:
        assert isinstance(ask(policy=Policy(max_resumes=max_resumes)), Resume) is resumed

    @pytest.mark.parametrize("state", [SessionState.SAME, SessionState.GREW, SessionState.COMPACTED])
    def test_a_session_that_grew_is_resumed_once_its_turns_have_come_in(self, state: SessionState) -> None:
        assert isinstance(ask(observed=Observed(state)), Resume)
        left_out = ask(observed=Observed(state, outside=(OUTSIDE_TURN,)))
        assert left_out.reason is Reason.SESSION_DIVERGED

    def test_a_session_that_branched_off_is_not_resumed(self) -> None:
        assert ask(observed=Observed(SessionState.BRANCHED)).reason is Reason.SESSION_DIVERGED

    def test_an_agent_whose_file_cannot_be_read_is_still_resumed(self) -> None:
        assert isinstance(ask(observed=Observed()), Resume)

    def test_a_pin_that_absorbed_nothing_is_unconfirmed(self) -> None:
        assert ask(pins=(make_pin(()),)).reason is Reason.UNCONFIRMED

    @pytest.mark.parametrize("field", ["agent", "binary", "product", "can_resume", "config_dir"])
    def test_every_part_of_the_runtimes_identity_counts(self, field: str) -> None:
        other = replace(RUNTIME, **{field: False if field == "can_resume" else "other"})
        assert ask(request=make_request(runtime=other)).reason is Reason.RUNTIME_CHANGED


class TestBorrowed:
    """A session of another thread: it is continued in a copy, or not at all."""

    CAN_COPY = Abilities(resume=True, choose_id=True, fork=True)
    CAN_REWIND = Abilities(resume=True, choose_id=True, fork=True, rewind=True)

    @pytest.mark.parametrize(
        ("abilities", "borrowed_at", "beyond", "resumed"),
        [
            (Abilities(resume=True, choose_id=True), "e1", False, False),  # the agent cannot copy
            (CAN_COPY, "e1", False, True),
            (CAN_COPY, "e1", True, False),  # a copy would hold more than the thread does
            (CAN_COPY, "e1", None, False),  # a copy might hold more
            (CAN_REWIND, "e1", False, True),
            (CAN_REWIND, "e1", True, True),
            (CAN_REWIND, "e1", None, True),
            (CAN_REWIND, "", None, False),  # it is not known where to cut
        ],
    )
    def test_it_is_copied_only_up_to_the_fork(
        self, abilities: Abilities, borrowed_at: str, beyond: bool | None, resumed: bool
    ) -> None:
        pin = make_pin(borrowed_at=borrowed_at, mark=None)
        decision = ask(
            pins=(pin,), abilities=abilities, observed=Observed(state=SessionState.SAME, continues_past_fork=beyond)
        )
        assert isinstance(decision, Resume) is resumed
        assert resumed or decision.reason is Reason.CANNOT_FORK

    def test_its_owner_may_continue_it(self) -> None:
        pin = make_pin(borrowed_at="e1", mark=None)
        seen = Observed(state=SessionState.SAME, mark=Mark(900, "e9"), continues_past_fork=True)
        decision = ask(pins=(pin,), abilities=self.CAN_REWIND, observed=seen)
        assert isinstance(decision, Resume)
        assert (decision.copies, decision.rewind) == (True, None), "in a copy, which is not rewound by the decision"

    def test_later_turns_of_the_thread_are_sent_as_catch_up(self) -> None:
        pin = make_pin(HISTORY[:2], borrowed_at="e1", mark=None)
        decision = ask(pins=(pin,), abilities=self.CAN_REWIND)
        assert isinstance(decision, Resume)
        assert "question u2" in decision.prompt and "question u1" not in decision.prompt


class TestPins:
    def test_the_newest_pin_of_the_agent_and_model_is_the_candidate(self) -> None:
        old, new = make_pin(), make_pin(id=PinId("p2"), session_id=SessionId("s2"))
        other = make_pin(id=PinId("p3"), model="m2")
        of_codex = make_pin(id=PinId("p4"), agent="codex")
        assert candidate((old, new, other, of_codex), "claude", "m1") is new

    def test_retired_pins_are_skipped_and_poisoned_ones_are_not(self) -> None:
        good = make_pin()
        retired = make_pin(id=PinId("p2"), state=PinState.RETIRED)
        assert candidate((good, retired), "claude", "m1") is good
        assert ask(pins=(good, replace(retired, state=PinState.POISONED))).reason is Reason.POISONED

    def test_switching_the_model_and_back_finds_the_old_pin_again(self) -> None:
        elsewhere = ask(request=make_request(model="m2"))
        assert elsewhere.reason is Reason.NO_PIN
        back = ask(pins=(make_pin(), make_pin(id=PinId("p2"), model="m2")))
        assert isinstance(back, Resume)
        assert back.pin.id == "p1"

    def test_turns_of_another_agent_are_sent_as_catch_up_with_their_author_before_the_prompt(self) -> None:
        history = (*HISTORY, user("u3"), said("b3", agent="codex"))
        decision = ask(history=history, request=make_request(prompt=user("u4", "and now?")))
        assert isinstance(decision, Resume)
        assert "answer a2" not in decision.prompt
        places = [decision.prompt.index(part) for part in ("question u3", "## Assistant (codex m1)", "answer b3")]
        assert places == sorted(places)
        assert decision.prompt.endswith("and now?")
        assert [known.turn_id for known in decision.shown] == ["u3", "b3", "u4"]


class TestStanding:
    def test_fresh_carries_the_standing_text_and_remembers_its_digest(self) -> None:
        decision = ask(pins=(), request=make_request(standing="be brief"))
        assert isinstance(decision, Fresh)
        assert "be brief" in decision.prompt
        assert decision.standing == text_digest("be brief")

    @pytest.mark.parametrize("standing", [None, "be brief"])
    def test_an_unchanged_standing_text_is_not_sent_again(self, standing: str | None) -> None:
        known = text_digest(standing) if standing else None
        decision = ask(pins=(make_pin(standing=known),), request=make_request(standing=standing))
        assert decision.prompt == "and now?"
        assert decision.standing == known

    def test_a_new_standing_text_is_sent(self) -> None:
        prompt = ask(request=make_request(standing="be brief")).prompt
        assert prompt == "# Standing instructions\n\nbe brief\n\n# New message\n\nand now?"

    def test_a_changed_standing_text_is_sent_as_a_replacement(self) -> None:
        pins = (make_pin(standing=text_digest("be long")),)
        prompt = ask(pins=pins, request=make_request(standing="be brief")).prompt
        assert prompts.STANDING_CHANGED in prompt
        assert "be brief" in prompt

    @pytest.mark.parametrize("standing", [None, ""])
    def test_a_removed_standing_text_is_revoked(self, standing: str | None) -> None:
        pins = (make_pin(standing=text_digest("be long")),)
        decision = ask(pins=pins, request=make_request(standing=standing))
        assert prompts.STANDING_GONE in decision.prompt
        assert decision.standing is None


class TestForms:
    FORM = "Which?\n<question-form>{}</question-form>"

    def test_a_resumed_turn_after_a_form_says_that_it_was_answered(self) -> None:
        history = (user("u1"), said("a1", self.FORM))
        prompt = ask(history=history, pins=(make_pin(history),)).prompt
        assert prompt == f"{prompts.FORM_ANSWERED}\n\nand now?"

    def test_a_form_in_the_catch_up_or_in_a_users_turn_was_not_answered_in_the_session(self) -> None:
        missed = (*HISTORY[:-1], said("a2", self.FORM, agent="codex"))
        assert prompts.FORM_ANSWERED not in ask(history=missed, pins=(make_pin(missed[:-1]),)).prompt
        typed = (*HISTORY, user("u3", self.FORM))
        assert prompts.FORM_ANSWERED not in ask(history=typed, pins=(make_pin(typed),)).prompt

    def test_a_session_that_has_seen_nothing_is_not_resumed(self) -> None:
        """Not even where there is nothing to see: in the `own` scope, right behind another agent's answer."""
        history = (*HISTORY, user("u4"), said("a4", agent="codex"))
        decision = ask(history=history, pins=(make_pin(()),), policy=Policy(visibility=Visibility.OWN))
        assert isinstance(decision, Fresh)
        assert decision.reason is Reason.UNCONFIRMED

    def test_a_fresh_transcript_replaces_the_form_with_a_note(self) -> None:
        prompt = ask(history=(user("u1"), said("a1", self.FORM)), pins=()).prompt
        assert "<question-form" not in prompt
        assert prompts.FORM_NOTE in prompt

    def test_a_form_in_a_users_turn_is_not_changed(self) -> None:
        prompt = ask(history=(user("u1", self.FORM), said("a1")), pins=()).prompt
        assert self.FORM in prompt


class TestPartialAnswers:
    HISTORY: History = (user("u1"), said("a1"), user("u2"), said("a2", "one two three", partial=True))

    def pin_with_a_part(self) -> Pin:
        """Its last run was interrupted; the session's file has "one two"."""
        cut_off = make_pin(self.HISTORY[:2], pending=Pending("uuid", (Absorbed.of(self.HISTORY[2]),), None))
        observed = Observed(state=SessionState.SAME, mark=Mark(100, "e1"), holds_pending=True, answer_text="one two")
        pin = reconcile(cut_off, observed, self.HISTORY)
        assert pin.partly_absorbed is not None
        return pin

    def test_an_answer_that_the_session_lacks_is_in_the_catch_up(self) -> None:
        decision = ask(history=self.HISTORY, pins=(make_pin(self.HISTORY[:3]),))
        assert isinstance(decision, Resume)
        assert "one two three" in decision.prompt
        assert prompts.CUT_OFF in decision.prompt

    def test_of_an_answer_that_the_session_has_in_part_only_the_rest_is_sent(self) -> None:
        pin = self.pin_with_a_part()
        decision = ask(history=self.HISTORY, pins=(pin,))
        assert isinstance(decision, Resume)
        assert " three" in decision.prompt
        assert "one two" not in decision.prompt

    def test_the_turns_after_it_are_sent_completely(self) -> None:
        history = (*self.HISTORY, user("u3"), said("b3", agent="codex"))
        decision = ask(history=history, pins=(self.pin_with_a_part(),), request=make_request(prompt=user("u4")))
        assert isinstance(decision, Resume)
        places = [decision.prompt.index(part) for part in (" three", "question u3", "answer b3", "question u4")]
        assert places == sorted(places)

    def test_editing_an_answer_invalidates_the_pin_that_has_a_part_of_it(self) -> None:
        pin = self.pin_with_a_part()
        history = (*self.HISTORY[:3], replace(self.HISTORY[3], text="something else entirely", revision=1))
        assert ask(history=history, pins=(pin,)).reason is Reason.HISTORY_CHANGED

    def test_removing_an_answer_invalidates_the_pin_that_has_a_part_of_it(self) -> None:
        pin = self.pin_with_a_part()
        assert ask(history=self.HISTORY[:3], pins=(pin,)).reason is Reason.HISTORY_CHANGED


class TestWorkDone:
    """What a host knows about the work of an interrupted agent."""

    @pytest.mark.parametrize(
        ("held", "is_sent"),
        [(HISTORY[:2], True), (HISTORY[:3], False), (HISTORY, False)],
        ids=["lacks the prompt", "lacks the answer alone", "lacks nothing"],
    )
    def test_a_session_is_told_about_work_only_if_it_lacks_the_prompt_of_it(self, held: History, is_sent: bool) -> None:
        decision = ask(request=make_request(work_done="a file was written"), pins=(make_pin(held),))
        assert isinstance(decision, Resume)
        assert ("a file was written" in decision.prompt) is is_sent

    def test_a_fresh_session_is_always_told(self) -> None:
        assert "a file was written" in ask(request=make_request(work_done="a file was written"), pins=()).prompt


class TestShared:
    def test_an_edited_turn_of_another_agent_that_the_session_absorbed_invalidates_it(self) -> None:
        history = (user("u1"), said("b1", agent="codex"), user("u2"), said("a2"))
        changed = (history[0], replace(history[1], text="edited"), *history[2:])
        assert ask(history=changed, pins=(make_pin(history),)).reason is Reason.HISTORY_CHANGED

    def test_an_edited_turn_that_the_session_never_saw_does_not_invalidate_it(self) -> None:
        history = (*HISTORY, user("u3"), said("b3", "edited", agent="codex"))
        assert isinstance(ask(history=history, request=make_request(prompt=user("u4"))), Resume)

    @pytest.mark.parametrize(
        "history",
        [HISTORY[:3], (), HISTORY[1:], (HISTORY[1], HISTORY[0], *HISTORY[2:]), (user("x"), *HISTORY[1:])],
        ids=["truncated", "emptied", "first removed", "swapped", "another id with the same text"],
    )
    def test_any_change_of_the_prefix_invalidates_the_pin(self, history: History) -> None:
        assert not is_valid(make_pin(), history)
        same_text = (replace(HISTORY[0], id=TurnId("x")), *HISTORY[1:])
        assert not is_valid(make_pin(), same_text)

    def test_an_edited_turn_that_was_left_out_of_the_transcript_does_not_invalidate_it(self) -> None:
        pin = make_pin(absorbed=(Absorbed(TurnId("u1"), None), *(Absorbed.of(turn) for turn in HISTORY[1:])))
        history = (replace(HISTORY[0], text="edited"), *HISTORY[1:])
        assert isinstance(ask(history=history, pins=(pin,)), Resume)


class TestOwn:
    """The chat design's scope rows: claude sees only what follows the last answer of another agent."""

    OWN = Policy(visibility=Visibility.OWN)
    HISTORY: History = (user("u1"), said("b1", agent="codex"), user("u2"), said("a2"), user("u3"), said("a3"))
    SCOPED = HISTORY[2:]

    def ask(self, history: History, pin: Pin | None = None) -> Decision:
        request = make_request(prompt=user("u9", "and now?"))
        return ask(history=history, pins=(pin or make_pin(self.SCOPED),), policy=self.OWN, request=request)

    def test_only_what_follows_the_last_answer_of_another_agent_is_visible(self) -> None:
        assert visible(self.HISTORY, "claude", Visibility.OWN) == self.SCOPED
        assert visible(self.HISTORY, "codex", Visibility.OWN) == ()
        assert visible(self.HISTORY, "claude", Visibility.SHARED) == self.HISTORY

    def test_a_thread_of_one_agent_is_completely_visible(self) -> None:
        assert visible(HISTORY, "claude", Visibility.OWN) == HISTORY

    def test_a_session_that_holds_the_scoped_history_is_resumed(self) -> None:
        assert isinstance(self.ask(self.HISTORY), Resume)

    def test_editing_the_answer_at_the_boundary_keeps_the_session(self) -> None:
        history = (self.HISTORY[0], replace(self.HISTORY[1], text="edited"), *self.SCOPED)
        decision = self.ask(history)
        assert isinstance(decision, Resume)
        assert "edited" not in decision.prompt

    def test_editing_a_turn_inside_the_scope_invalidates_it(self) -> None:
        history = (*self.HISTORY[:2], replace(self.HISTORY[2], text="edited"), *self.HISTORY[3:])
        decision = self.ask(history)
        assert decision.reason is Reason.HISTORY_CHANGED
        assert all(turn.text in decision.prompt for turn in history[2:])
        assert "answer b1" not in decision.prompt

    @pytest.mark.parametrize("kept", [1, 2])
    def test_truncating_at_the_boundary_invalidates_it_because_later_turns_go_too(self, kept: int) -> None:
        assert self.ask(self.HISTORY[:kept]).reason is Reason.HISTORY_CHANGED

    def test_removing_only_the_boundary_moves_the_scope_and_invalidates_it(self) -> None:
        assert self.ask((self.HISTORY[0], *self.SCOPED)).reason is Reason.HISTORY_CHANGED

    def test_a_session_that_holds_turns_from_before_a_new_boundary_is_no_longer_valid(self) -> None:
        history = (*self.HISTORY, user("u4"), said("b4", agent="codex"))
        decision = self.ask(history)
        assert isinstance(decision, Fresh)
        assert decision.reason is Reason.HISTORY_CHANGED
        assert decision.prompt == "and now?"

    def test_an_unanswered_prompt_to_another_agent_is_visible(self) -> None:
        asked = user("u4", "hey codex").replace(agent="codex")
        assert visible((*self.HISTORY, asked), "claude", Visibility.OWN) == (*self.SCOPED, asked)
        decision = self.ask((*self.HISTORY, asked))
        assert isinstance(decision, Resume)
        assert "hey codex" in decision.prompt


class TestCutTranscripts:
    HISTORY: History = tuple(
        turn for n in range(20) for turn in (user(f"u{n}", f"ask{n} " * 40), said(f"a{n}", f"reply{n} " * 40))
    )

    def test_turns_that_were_left_out_are_absorbed_without_a_digest(self) -> None:
        decision = ask(history=self.HISTORY, pins=(), policy=Policy(limit_chars=3000))
        assert isinstance(decision, Fresh)
        assert 0 < decision.omitted < 40
        assert [known.digest is None for known in decision.shown] == [n < decision.omitted for n in range(41)]
        assert [known.turn_id for known in decision.shown] == [turn.id for turn in (*self.HISTORY, user("u3"))]

    def test_a_shorter_policy_leaves_out_more_and_changes_nothing_else(self) -> None:
        policy = Policy(limit_chars=6000, max_resumes=7)
        assert with_shorter_transcript(policy) == replace(policy, limit_chars=1500)
        request = make_request()
        long, short = (
            fresh(request, self.HISTORY, each, Reason.OVERFLOW) for each in (policy, with_shorter_transcript(policy))
        )
        assert short.omitted > long.omitted
        assert short.reason is Reason.OVERFLOW

    def test_a_catch_up_is_cut_as_well(self) -> None:
        decision = ask(history=self.HISTORY, pins=(make_pin(self.HISTORY[:2]),), policy=Policy(limit_chars=3000))
        assert isinstance(decision, Resume)
        assert "left out here" in decision.prompt
        assert decision.shown[0] == Absorbed(TurnId("u1"), None)
        assert decision.shown[-2] == Absorbed.of(self.HISTORY[-1])


# The laws, for random requests.


class TestFullText:
    """A host's prompt may have a long form, which is sent only to a fresh session."""

    def test_of_the_prompt(self) -> None:
        decision = ask(request=make_request(full_prompt="the whole rubric"), pins=())
        assert decision.prompt.endswith("the whole rubric")
        assert "and now?" not in decision.prompt

    def test_of_an_earlier_turn(self) -> None:
        decision = ask(request=make_request(full_prompt="the whole rubric", full_prompt_of=TurnId("u2")), pins=())
        assert decision.prompt.endswith("and now?")
        assert "the whole rubric" in decision.prompt
        assert "question u2" not in decision.prompt
        assert "question u1" in decision.prompt

    @pytest.mark.parametrize("full", [None, "the whole rubric"])
    def test_a_resumed_session_is_sent_the_short_form_and_the_estimate_uses_the_long_one(
        self, full: str | None
    ) -> None:
        decision = ask(request=make_request(full_prompt=full))
        assert isinstance(decision, Resume)
        assert decision.prompt == "and now?"
        estimate = prompts.fresh_chars(None, HISTORY, full or "and now?", Policy().limit_chars)
        assert decision.transcript_chars == estimate
