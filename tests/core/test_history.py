"""Histories of which only what is looked at is read, and what a session absorbs of a turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import prompts
from clew.core.history import Absorbed, Role, Visibility, digest, ids_of, outline_of, visible
from core.decision_cases import Reads, long, said, user

TURNS = tuple(
    user(f"u{n}") if n % 2 else said(f"a{n}", agent="codex" if n in (4, 90) else "claude") for n in range(200)
)
PLACES = st.none() | st.integers(-210, 210)


class TestAbsorbed:
    @given(st.text(), st.none() | st.text(min_size=1))
    def test_id_and_digest_are_read_back(self, turn_id: str, digest: str | None) -> None:
        absorbed = Absorbed(turn_id, digest)
        assert (absorbed.turn_id, absorbed.digest) == (turn_id, digest)
        assert Absorbed.from_texts([str(absorbed)]) == (absorbed,)
        assert repr(absorbed) == f"Absorbed({turn_id!r}, {digest!r})"

    @given(
        st.text("1:;", max_size=5), st.text("1:;", min_size=1), st.text("1:;", max_size=5), st.text("1:;", min_size=1)
    )
    def test_only_the_same_id_and_digest_are_equal(self, one: str, first: str, other: str, second: str) -> None:
        assert (Absorbed(one, first) == Absorbed(other, second)) is ((one, first) == (other, second))

    def test_a_turn_is_absorbed_with_its_digest(self) -> None:
        assert Absorbed.of(TURNS[0]) == Absorbed(TURNS[0].id, digest(TURNS[0]))


class TestLongHistory:
    @given(PLACES, PLACES, PLACES, PLACES)
    def test_each_part_is_the_part_of_the_tuple(
        self, first: int | None, stop: int | None, inner: int | None, inner_stop: int | None
    ) -> None:
        part, expected = long(TURNS)[first:stop], TURNS[first:stop]
        assert len(part) == len(expected) and bool(part) is bool(expected)
        assert tuple(part[inner:inner_stop]) == expected[inner:inner_stop]
        assert tuple(outline_of(part)) == tuple(outline_of(expected))
        assert tuple(ids_of(part)) == tuple(ids_of(expected))
        assert tuple(reversed(part)) == expected[::-1] and tuple(part[::-3]) == expected[::-3]
        assert tuple(part) == expected

    @given(st.integers(0, 200), st.integers(0, 200), st.sampled_from(["claude", "codex", "nobody"]))
    def test_an_agent_may_see_the_same_of_it(self, first: int, stop: int, agent: str) -> None:
        for visibility in Visibility:
            seen = visible(long(TURNS)[first:stop], agent, visibility)
            assert tuple(seen) == tuple(visible(TURNS[first:stop], agent, visibility))

    @given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 10_000))
    def test_its_transcript_is_as_long(self, first: int, stop: int, limit: int) -> None:
        part, expected = long(TURNS)[first:stop], TURNS[first:stop]
        assert prompts.fresh_chars("be brief", part, "new", limit) == prompts.fresh_chars(
            "be brief", expected, "new", limit
        )

    @pytest.mark.parametrize("place", [200, -201])
    def test_there_is_no_turn_before_or_after_it(self, place: int) -> None:
        with pytest.raises(IndexError):
            long(TURNS)[place]

    def test_nothing_is_read_until_a_turn_is_looked_at(self) -> None:
        reads = Reads(TURNS)
        history = long(TURNS, reads)
        assert len(history[3:]) == 197
        assert history.chars and outline_of(history) and [*ids_of(history)] and not tuple(history[200:])
        assert visible(history, "claude", Visibility.SHARED) is history[:] is history
        assert len(visible(history, "claude", Visibility.OWN)) == 109
        assert reads.of_turns == []

    def test_only_the_newest_turns_are_read_for_the_last_one(self) -> None:
        reads = Reads(TURNS)
        history = long(TURNS, reads)
        assert history[-1] is TURNS[-1] and history[190:][0] is TURNS[190]
        assert reads.of_turns == [(168, 200)]

    def test_each_turn_is_read_once_and_in_ever_larger_steps(self) -> None:
        reads = Reads(TURNS)
        assert tuple(reversed(long(TURNS, reads))) == TURNS[::-1]
        assert reads.of_turns == [(168, 200), (136, 168), (72, 136), (0, 72)]

    def test_all_turns_are_read_at_once_for_a_transcript(self) -> None:
        reads = Reads(TURNS)
        assert [turn.role for turn in long(TURNS, reads)].count(Role.USER) == 100
        assert reads.of_turns == [(0, 200)]
