"""The expected price of a turn: what is read from the cache, what is new, and what it costs."""

from __future__ import annotations

import pytest

from clew.core.costs.forecast import (
    Forecast,
    Pricing,
    SessionSize,
    StartSize,
    fresh_usage,
    resumed_usage,
    transcript_usage,
)
from clew.core.costs.usage import CACHE_READ, CACHE_WRITE

START = StartSize(22_000, 2_000, is_cached=True)
COLD_START = StartSize(22_000, 2_000, is_cached=False)
SESSION = SessionSize(30_000, is_measured=True, is_cached=True, last_answer_tokens=500)
OLD_SESSION = SessionSize(30_000, is_measured=True, is_cached=False, last_answer_tokens=500)
WRITTEN = Pricing(0.001)


@pytest.mark.parametrize(
    ("session", "start", "cached"),
    [
        (SESSION, START, 29_500),
        (SESSION, COLD_START, 29_500),
        (OLD_SESSION, START, 20_000),
        (OLD_SESSION, COLD_START, 0),
    ],
)
def test_a_session_is_read_from_the_cache_while_the_cache_lives(
    session: SessionSize, start: StartSize, cached: int
) -> None:
    found = WRITTEN.forecast(resumed_usage(session, start, 400, WRITTEN))
    new = 30_100 - cached
    assert (found.cached_tokens, found.new_tokens) == (cached, new)
    assert found.cost_usd == pytest.approx(0.001 * (cached * CACHE_READ + new * CACHE_WRITE))


@pytest.mark.parametrize(("start", "cached"), [(START, 20_000), (COLD_START, 0)])
def test_a_fresh_session_shares_its_beginning_with_others(start: StartSize, cached: int) -> None:
    usage = fresh_usage(start, 4_000, WRITTEN)
    assert (usage.cache_read_input_tokens, usage.new_tokens) == (cached, 23_000 - cached)


def test_new_tokens_are_charged_as_the_agents_runs_were() -> None:
    plain = Pricing(0.001, is_written=False)
    usage = resumed_usage(SESSION, START, 400, plain)
    assert (usage.input_tokens, usage.cache_creation_input_tokens) == (600, 0)
    assert plain.forecast(usage).cost_usd == pytest.approx(0.001 * (2_950 + 600))


def test_without_a_price_the_cost_is_unknown_and_the_tokens_are_not() -> None:
    assert Pricing().forecast(Pricing().usage(10, 20)) == Forecast(10, 20, None)


@pytest.mark.parametrize("session", [SESSION, OLD_SESSION, SessionSize(10, is_measured=False, is_cached=True)])
@pytest.mark.parametrize("start", [START, COLD_START, StartSize(0, 0, is_cached=True)])
def test_the_transcript_is_never_expected_to_be_cheaper(session: SessionSize, start: StartSize) -> None:
    resumed = resumed_usage(session, start, 400, WRITTEN)
    other = transcript_usage(resumed, start, 40_000)
    assert other.units >= resumed.units
    assert other.new_tokens >= min(10_000, other.shown_tokens)


def test_an_answer_that_is_longer_than_the_session_is_not_subtracted_twice() -> None:
    odd = SessionSize(10, is_measured=True, is_cached=True, last_answer_tokens=50)
    usage = resumed_usage(odd, START, 40, WRITTEN)
    assert (usage.cache_read_input_tokens, usage.new_tokens) == (0, 20)
