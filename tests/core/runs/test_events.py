"""Events, their stored form, and the answer that is built from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.runs.answer import AnswerBuilder, join_messages
from clew.core.runs.events import (
    KINDS,
    AgentRetried,
    AttemptStarted,
    Compacted,
    Event,
    FellBack,
    MessageSaid,
    QuestionAnswered,
    QuestionAsked,
    QuestionWithdrawn,
    RunEnded,
    RunQueued,
    SessionStarted,
    TextStreamed,
    TextWithdrawn,
    TokensCounted,
    ToolFinished,
    ToolStarted,
    Warned,
    from_body,
    to_body,
)

EVENTS: list[Event] = [
    RunQueued("thread", "r1"),
    AttemptStarted(2, False, "rejected", 3),
    SessionStarted("s1", "m1"),
    TextStreamed("é\u2028\x00"),
    TextWithdrawn(),
    MessageSaid("hi", "e1"),
    ToolStarted("toolu_1", "Bash", {"command": "ls", "nested": {"list": [1, None, True]}}),
    ToolFinished("toolu_1", True, "no", ran=False),
    TokensCounted(Usage(1, 2, 3, 4)),
    QuestionAsked("q1", "AskUserQuestion", {"questions": [{"question": "?"}]}, is_form=True),
    QuestionAnswered("q1", False, "no", "policy"),
    QuestionWithdrawn("q1"),
    AgentRetried(1, 0.5, "overloaded"),
    Compacted(),
    FellBack("rejected"),
    Warned("session_not_saved", "…"),
    RunEnded("answered", "success", Usage(1, 2, 3, 4), 0.25, "done"),
]


class TestBodies:
    def test_every_kind_is_among_the_examples(self) -> None:
        assert {type(event) for event in EVENTS} == set(KINDS.values())
        assert all(KINDS[event.kind] is type(event) for event in EVENTS)

    @pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
    def test_every_kind_survives_a_round_trip(self, event: Event) -> None:
        assert from_body(event.kind, json.loads(json.dumps(to_body(event)))) == event

    @pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
    def test_fields_of_a_later_version_are_dropped(self, event: Event) -> None:
        assert from_body(event.kind, {**to_body(event), "later": 1}) == event

    def test_fields_of_a_later_versions_usage_are_dropped(self) -> None:
        event = RunEnded("answered", "success", Usage(1, 2, 3, 4))
        body = to_body(event)
        body["usage"] = {**body["usage"], "thinking_tokens": 7}
        assert from_body("run_ended", body) == event

    def test_a_kind_of_a_later_version_is_none(self) -> None:
        assert from_body("teleported", {"x": 1}) is None

    def test_fields_that_have_defaults_may_be_missing(self) -> None:
        assert from_body("run_ended", {"status": "failed", "outcome": "failed"}) == RunEnded(
            "failed", "failed", NO_USAGE
        )

    def test_state_changes_are_urgent_and_text_is_not(self) -> None:
        not_urgent = {event.kind for event in EVENTS if not event.urgent}
        spoken = {"text_streamed", "text_withdrawn", "message_said"}
        reports = {
            "session_started",
            "tokens_counted",
            "agent_retried",
            "compacted",
        }  # a session is stored with its pin
        assert not_urgent == spoken | reports | {"tool_started", "tool_finished"}


def built(*events: Event) -> AnswerBuilder:
    answer = AnswerBuilder()
    for event in events:
        answer.feed(event)
    return answer


class TestAnswer:
    @given(st.lists(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4), max_size=4))
    def test_streamed_pieces_and_whole_messages_give_the_same_text(self, messages: list[list[str]]) -> None:
        streamed: list[Event] = []
        for pieces in messages:
            streamed += [TextStreamed(piece) for piece in pieces]
            streamed.append(MessageSaid("".join(pieces), "e"))
        whole = ["".join(pieces) for pieces in messages]
        assert built(*streamed).text == built(*(MessageSaid(text) for text in whole)).text == join_messages(whole)

    def test_it_grows_piece_by_piece(self) -> None:
        answer = AnswerBuilder()
        texts = []
        for event in (MessageSaid("one"), TextStreamed("tw"), TextStreamed("o"), MessageSaid("two")):
            answer.feed(event)
            texts.append(answer.text)
        assert texts == ["one", "one\n\ntw", "one\n\ntwo", "one\n\ntwo"]

    def test_empty_messages_leave_no_gap(self) -> None:
        assert join_messages(["", "a", "", "b", ""]) == "a\n\nb"

    def test_withdrawn_pieces_do_not_count(self) -> None:
        answer = built(MessageSaid("one"), TextStreamed("tw"), TextWithdrawn(), TextStreamed("two"))
        assert answer.text == "one\n\ntwo"

    def test_a_new_attempt_starts_empty(self) -> None:
        answer = built(MessageSaid("old", "e1"), TextStreamed("half"), AttemptStarted(2, False, "rejected"))
        assert (answer.text, answer.message_id) == ("", None)
        answer.feed(TextStreamed("new"))
        assert answer.text == "new"

    @pytest.mark.parametrize(
        ("events", "message_id"),
        [
            ([MessageSaid("a", "e1"), MessageSaid("b", "e2")], "e2"),
            ([MessageSaid("a", "e1"), MessageSaid("b", None)], "e1"),
            ([TextStreamed("a")], None),
        ],
    )
    def test_it_keeps_the_last_messages_id(self, events: list[Any], message_id: str | None) -> None:
        assert built(*events).message_id == message_id

    def test_other_events_add_no_text(self) -> None:
        silent = [event for event in EVENTS if not isinstance(event, TextStreamed | MessageSaid | AttemptStarted)]
        assert built(MessageSaid("a"), *silent).text == "a"
