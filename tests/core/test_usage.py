"""Tokens and money."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.usage import NO_USAGE, Usage, cost_of_run, estimate_transcript_usage, price_like, usage_of_run

COUNTS = st.integers(0, 10**7)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS)


def test_usages_add_up_field_by_field() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
    assert sum([Usage(1, 2, 3, 4)] * 3, NO_USAGE) == Usage(3, 6, 9, 12)


def test_shown_tokens_are_all_but_the_output() -> None:
    assert Usage(1, 100, 20, 300).shown_tokens == 321


def test_units_weigh_writes_reads_and_output() -> None:
    assert Usage(100, 0, 0, 0).units == 100
    assert Usage(0, 100, 0, 0).units == 500
    assert Usage(0, 0, 100, 0).units == 10
    assert Usage(0, 0, 0, 100).units == 125


@pytest.mark.parametrize(
    ("total", "before", "own"), [(0.5, 0.2, 0.3), (0.2, 0.2, 0.0), (0.1, 0.2, 0.1), (0.0, 0.2, 0.0), (0.4, 0.0, 0.4)]
)
def test_a_runs_cost_is_what_the_total_grew_by_or_the_total_when_it_began_anew(
    total: float, before: float, own: float
) -> None:
    assert cost_of_run(total, before) == pytest.approx(own)


@given(USAGES, USAGES)
def test_a_runs_usage_is_what_the_total_grew_by(before: Usage, own: Usage) -> None:
    assert usage_of_run(before + own, before) == own


def test_a_total_that_fell_began_anew() -> None:
    assert usage_of_run(Usage(5, 9, 0, 0), Usage(4, 10, 0, 0)) == Usage(5, 9, 0, 0)


class TestEstimate:
    def test_the_transcript_is_written_and_the_fixed_part_read(self) -> None:
        used = Usage(10, 200, 30_000, 100)
        estimate = estimate_transcript_usage(used, prompt_chars=400, transcript_chars=40_000)
        assert estimate == Usage(0, 200, 20_110, 10_000)

    def test_a_resumed_turn_of_a_long_thread_is_estimated_dearer_by_transcript(self) -> None:
        used = Usage(0, 300, 42_000, 500)
        estimate = estimate_transcript_usage(used, prompt_chars=400, transcript_chars=80_000)
        assert estimate.units > 2 * used.units
        assert price_like(estimate, used, 0.03) == pytest.approx(0.03 * estimate.units / used.units)

    @given(USAGES, st.integers(0, 10**7), st.integers(0, 10**7))
    def test_it_is_never_negative_and_never_shows_less_than_was_shown(
        self, used: Usage, prompt_chars: int, transcript_chars: int
    ) -> None:
        estimate = estimate_transcript_usage(used, prompt_chars, transcript_chars)
        assert estimate.output_tokens == used.output_tokens
        assert min(estimate.cache_read_input_tokens, estimate.cache_creation_input_tokens) >= 0
        assert estimate.shown_tokens >= used.shown_tokens

    def test_a_run_that_used_nothing_has_no_unit_price(self) -> None:
        assert price_like(Usage(1, 1, 1, 1), NO_USAGE, 0.5) == 0.0

    @given(USAGES, st.floats(0, 1000))
    def test_the_run_itself_is_priced_at_its_own_cost(self, used: Usage, cost: float) -> None:
        assert price_like(used, used, cost) == pytest.approx(cost if used.units else 0.0)
