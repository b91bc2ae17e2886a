"""Tokens and money."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.costs.usage import NO_USAGE, Usage, cost_of_run, estimate_transcript_usage, price_like, usage_of_run

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
def test_a_runs_cost_is_the_growth_of_the_total_or_the_total_if_it_was_reset(
    total: float, before: float, own: float
) -> None:
    assert cost_of_run(total, before) == pytest.approx(own)


@given(USAGES, USAGES)
def test_a_runs_usage_is_the_growth_of_the_total(before: Usage, own: Usage) -> None:
    assert usage_of_run(before + own, before) == own


def test_a_total_that_fell_was_reset() -> None:
    assert usage_of_run(Usage(5, 9, 0, 0), Usage(4, 10, 0, 0)) == Usage(5, 9, 0, 0)


class TestEstimate:
    def test_the_transcript_and_a_sessions_own_notes_are_new_and_the_rest_is_read(self) -> None:
        used = Usage(0, 200, 30_000, 100)
        estimate = estimate_transcript_usage(used, used, transcript_chars=40_000, uncached_start_tokens=2_700)
        assert estimate == Usage(0, 200, 30_100 - 12_700, 12_700)

    def test_only_the_first_request_of_a_run_would_have_been_another(self) -> None:
        first, rest = Usage(0, 20, 30_000, 100), Usage(0, 200, 30_100, 5_000)
        estimate = estimate_transcript_usage(first + rest, first, transcript_chars=40_000, uncached_start_tokens=2_700)
        assert estimate == Usage(0, 20, 30_100 - 12_700, 12_700) + rest

    def test_a_model_without_a_price_for_cache_writes_is_charged_for_input(self) -> None:
        used = Usage(500, 200, 9_500, 0)
        estimate = estimate_transcript_usage(used, used, transcript_chars=4_000, uncached_start_tokens=9_000)
        assert estimate == Usage(10_000, 200, 0, 0)

    def test_a_cache_that_had_gone_cold_would_have_been_cold_for_a_new_session_too(self) -> None:
        used = Usage(0, 200, 0, 30_000)
        assert estimate_transcript_usage(used, used, transcript_chars=4_000, uncached_start_tokens=2_700) == used

    def test_a_run_that_was_shown_nothing_would_have_been_shown_nothing(self) -> None:
        assert estimate_transcript_usage(NO_USAGE, NO_USAGE, 40_000, 2_700) == NO_USAGE

    @given(USAGES, USAGES, st.integers(0, 10**7), st.integers(0, 10**5))
    def test_it_is_never_less_than_what_was_used(self, first: Usage, rest: Usage, chars: int, start: int) -> None:
        """A new session shows the model as much, and pays in full for what a resumed one may read from the cache."""
        used = first + rest
        estimate = estimate_transcript_usage(used, first, chars, start)
        assert estimate.output_tokens == used.output_tokens
        assert estimate.new_tokens >= used.new_tokens
        assert 0 <= estimate.cache_read_input_tokens <= used.cache_read_input_tokens
        assert estimate.shown_tokens >= used.shown_tokens
        assert price_like(estimate, used, 1.0) >= (1.0 if used.units else 0.0)

    def test_a_first_request_that_used_more_than_the_run_is_ignored(self) -> None:
        used = Usage(0, 1, 100, 10)
        assert min(estimate_transcript_usage(used, Usage(0, 1, 500, 50), 40, 10).as_dict().values()) >= 0

    def test_a_run_that_used_nothing_has_no_unit_price(self) -> None:
        assert price_like(Usage(1, 1, 1, 1), NO_USAGE, 0.5) == 0.0

    @given(USAGES, st.floats(0, 1000))
    def test_the_run_itself_is_priced_at_its_own_cost(self, used: Usage, cost: float) -> None:
        assert price_like(used, used, cost) == pytest.approx(cost if used.units else 0.0)
