"""How a session stands to the line with which our last turn ended, and its turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.session import (
    BEFORE_FIRST,
    SessionCall,
    SessionEntry,
    SessionState,
    SessionTurn,
    SessionView,
    SubAgent,
    compare,
    session_turns,
)


def view(*chain: str, **more: Any) -> SessionView:
    """A session that was read completely; with `parent`, only what was added since."""
    return SessionView((), **{"last_entry": chain[-1] if chain else None, "size_bytes": 100, "chain": chain, **more})


class TestCompare:
    def test_no_session_is_gone(self) -> None:
        assert compare(None, "e3") is SessionState.GONE
        assert compare(None, None) is SessionState.GONE

    @pytest.mark.parametrize("left_at", ["e3", None])
    def test_a_session_without_new_lines_is_the_same(self, left_at: str | None) -> None:
        assert compare(view(), left_at) is SessionState.SAME

    def test_a_session_that_still_ends_with_our_line_is_the_same_however_its_file_grew(self) -> None:
        assert compare(view("e1", "e2", "e3", size_bytes=9_000), "e3") is SessionState.SAME

    def test_a_session_whose_chain_continues_after_our_line_grew(self) -> None:
        assert compare(view("e1", "e2", "e3", "e4"), "e3") is SessionState.GREW

    def test_a_part_grew_if_it_follows_our_line(self) -> None:
        assert compare(view("e4", "e5", parent="e3"), "e3") is SessionState.GREW
        assert compare(view("e4", "e5", parent="e2"), "e3") is SessionState.BRANCHED

    def test_a_session_whose_chain_left_ours_branched_although_its_file_grew(self) -> None:
        assert compare(view("e1", "e2", "f3", "f4", size_bytes=9_000), "e3") is SessionState.BRANCHED

    def test_a_session_that_went_back_to_an_earlier_line_branched(self) -> None:
        assert compare(view("e1", "e2"), "e3") is SessionState.BRANCHED

    def test_a_session_that_went_back_to_before_its_first_line_branched(self) -> None:
        assert compare(view(last_entry=BEFORE_FIRST), "e3") is SessionState.BRANCHED

    def test_a_session_that_we_left_empty_can_only_have_grown(self) -> None:
        assert compare(view("e1", "e2"), None) is SessionState.GREW
        assert compare(view("e1", "e2", parent="e0"), None) is SessionState.GREW

    def test_a_session_that_is_not_sound_is_damaged_wherever_its_chain_ends(self) -> None:
        assert compare(view("e1", "e2", "e3", is_sound=False), "e3") is SessionState.DAMAGED
        assert compare(view("e1", "e2", "f3", is_sound=False), "e3") is SessionState.DAMAGED

    @pytest.mark.parametrize(
        ("compacted_at", "state"),
        [
            ("e4", SessionState.COMPACTED),
            ("e2", SessionState.GREW),
            ("e3", SessionState.GREW),
            (None, SessionState.GREW),
        ],
        ids=["after our line", "before our line", "our own line", "never"],
    )
    def test_only_a_compaction_after_our_line_counts(self, compacted_at: str | None, state: SessionState) -> None:
        assert compare(view("e1", "e2", "e3", "e4", "e5", compacted_at=compacted_at), "e3") is state

    def test_a_compaction_in_a_part_is_after_our_line(self) -> None:
        assert compare(view("e4", "e5", parent="e3", compacted_at="e4"), "e3") is SessionState.COMPACTED

    def test_a_session_that_branched_before_it_was_compacted_has_branched(self) -> None:
        assert compare(view("e1", "f2", "f3", compacted_at="f3"), "e3") is SessionState.BRANCHED

    @given(st.lists(st.integers(0, 9), unique=True, max_size=8), st.integers(0, 9))
    def test_a_session_has_grown_exactly_if_our_line_is_an_ancestor_of_its_last(
        self, numbers: list[int], left: int
    ) -> None:
        chain = tuple(f"e{number}" for number in numbers)
        state = compare(view(*chain), f"e{left}")
        if not chain or chain[-1] == f"e{left}":
            assert state is SessionState.SAME
        else:
            assert state is (SessionState.GREW if f"e{left}" in chain else SessionState.BRANCHED)


def asked(name: str, **more: Any) -> SessionEntry:
    return SessionEntry(name, Role.USER, f"text of {name}", is_prompt=True, **more)


def answered(name: str, **more: Any) -> SessionEntry:
    return SessionEntry(name, Role.ASSISTANT, f"text of {name}", is_prompt=False, **more)


NOTE = SessionEntry("note", Role.USER, "a note of the CLI's own", is_prompt=False)


def names(turns: list[SessionTurn]) -> list[tuple[str | None, list[str]]]:
    return [(turn.prompt.id if turn.prompt else None, [entry.id for entry in turn.answers]) for turn in turns]


class TestTurns:
    def test_each_prompt_has_everything_up_to_the_next(self) -> None:
        found = list(session_turns([asked("u1"), answered("a1"), answered("a2"), asked("u2"), answered("a3")]))
        assert names(found) == [("u1", ["a1", "a2"]), ("u2", ["a3"])]
        assert found[0].text == "text of a1\n\ntext of a2"

    def test_a_session_without_entries_has_no_turns(self) -> None:
        assert list(session_turns([])) == []
        assert list(session_turns([NOTE])) == []

    def test_a_part_may_begin_within_an_answer(self) -> None:
        assert names(list(session_turns([answered("a1"), asked("u2")]))) == [(None, ["a1"]), ("u2", [])]

    def test_a_prompt_that_was_never_answered_is_a_turn_of_its_own(self) -> None:
        assert names(list(session_turns([asked("u1"), asked("u2"), answered("a2")]))) == [("u1", []), ("u2", ["a2"])]

    def test_notes_and_tool_results_are_part_of_no_turn(self) -> None:
        assert names(list(session_turns([NOTE, asked("u1"), NOTE, answered("a1"), NOTE]))) == [("u1", ["a1"])]

    def test_a_subagent_belongs_to_the_turn_whose_call_started_it(self) -> None:
        call = SessionCall("call-2", "Agent", {})
        entries = [asked("u1"), answered("a1"), asked("u2"), answered("a2", calls=(call,))]
        helpers = (SubAgent("call-2", "explorer", Usage(input_tokens=5)), SubAgent("", "of an unknown call"))
        first, second = session_turns(entries, helpers)
        assert (first.subagents, second.subagents) == ((), helpers[:1])
        assert second.calls == (call,)

    @given(st.lists(st.sampled_from(["prompt", "answer", "note"]), max_size=12))
    def test_every_prompt_and_every_answer_is_in_exactly_one_turn_in_order(self, kinds: list[str]) -> None:
        make = {"prompt": asked, "answer": answered}
        entries = [make[kind](f"e{n}") if kind in make else NOTE for n, kind in enumerate(kinds)]
        found = [
            entry.id
            for turn in session_turns(entries)
            for entry in (*((turn.prompt,) if turn.prompt else ()), *turn.answers)
        ]
        assert found == [entry.id for entry in entries if entry is not NOTE]


class TestTurn:
    def test_its_usage_includes_that_of_its_subagents(self) -> None:
        answers = (answered("a1", usage=Usage(input_tokens=1)), answered("a2", usage=Usage(output_tokens=2)))
        turn = SessionTurn(asked("u1"), answers, (SubAgent("c", "x", Usage(input_tokens=40)),))
        assert turn.usage == Usage(input_tokens=41, output_tokens=2)
        assert SessionTurn(asked("u1"), ()).usage == NO_USAGE

    def test_its_model_is_the_last_that_is_named(self) -> None:
        answers = (answered("a1", model="m1"), answered("a2", model="m2"), answered("a3"))
        assert SessionTurn(None, answers).model == "m2"
        assert SessionTurn(asked("u1"), ()).model == ""

    def test_a_copy_can_end_only_after_its_last_entry(self) -> None:
        assert SessionTurn(None, (answered("a1"), answered("a2", end_id="end"))).end_id == "end"
        assert SessionTurn(None, (answered("a1", end_id="end"), answered("a2"))).end_id is None
        assert SessionTurn(asked("u1"), ()).end_id is None

    @pytest.mark.parametrize(
        ("answers", "is_complete"),
        [
            ((answered("a1"),), True),
            ((), False),
            ((answered("a1"), answered("a2", complete=False)), False),
            ((answered("a1", complete=False), answered("a2")), True),
            ((answered("a1"), answered("a2", interrupted=True)), False),
        ],
        ids=["answered", "no answer", "not finished", "an earlier entry was not", "cut off"],
    )
    def test_it_is_complete_if_its_last_answer_is(self, answers: tuple[SessionEntry, ...], is_complete: bool) -> None:
        assert SessionTurn(asked("u1"), answers).is_complete is is_complete

    def test_its_times_are_those_of_its_first_and_last_entry(self) -> None:
        answers = (answered("a1", at=2.0), answered("a2", at=3.0))
        whole, unanswered = SessionTurn(asked("u1", at=1.0), answers), SessionTurn(asked("u1", at=1.0), ())
        part = SessionTurn(None, answers)
        assert [(turn.began_at, turn.ended_at) for turn in (whole, unanswered, part)] == [(1, 3), (1, 1), (2, 3)]
