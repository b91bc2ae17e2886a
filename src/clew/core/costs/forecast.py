"""What a turn is expected to use, before it runs: an estimate, without the answer and without tool calls.

A turn's first request holds what the session holds and what is sent; at four characters a token, what is sent is known.
What the session holds is read from the cache while the cache lives (`CACHE_LIFE_S`), else it is new again, except for
the beginning that all sessions of the agent share. The session's last answer was never part of a request, so it is new
in any case. A fresh session reads that shared beginning from the cache, if it is there, and pays for the rest.

The other way, the whole transcript in a fresh session, is estimated as it is for a run that has ended: ADR 13.
"""

from __future__ import annotations

from clew.core.costs.usage import CHARS_PER_TOKEN, Usage, estimate_transcript_usage
from clew.core.record import Record


class Forecast(Record):
    """What a turn's first request is expected to read."""

    cached_tokens: int  # from the cache
    new_tokens: int  # not from the cache
    cost_usd: float | None  # of both, without the answer; None: no price is known


class StartSize(Record):
    """The beginning of a new session: system prompt, tools and the agent's own notes."""

    tokens: int
    uncached_tokens: int  # the part that no other session shares
    is_cached: bool  # the shared part was used a short time ago

    @property
    def cached_tokens(self) -> int:
        return max(0, self.tokens - self.uncached_tokens) if self.is_cached else 0


class SessionSize(Record):
    """What a session holds."""

    tokens: int
    is_measured: bool  # False: it is an estimate from the texts of its turns
    is_cached: bool
    last_answer_tokens: int = 0


class Pricing(Record):
    """How an agent's model charges."""

    unit_usd: float | None = None  # the price of one uncached input token; None: not known
    is_written: bool = True  # new tokens are charged as cache writes

    def usage(self, cached_tokens: int, new_tokens: int) -> Usage:
        return Usage(
            input_tokens=0 if self.is_written else new_tokens,
            cache_read_input_tokens=cached_tokens,
            cache_creation_input_tokens=new_tokens if self.is_written else 0,
        )

    def forecast(self, usage: Usage) -> Forecast:
        cost_usd = None if self.unit_usd is None else self.unit_usd * usage.units
        return Forecast(usage.cache_read_input_tokens, usage.new_tokens, cost_usd)


def resumed_usage(session: SessionSize, start: StartSize, prompt_chars: int, pricing: Pricing) -> Usage:
    """A turn that resumes that session and sends that many characters."""
    if session.is_cached:
        cached = max(0, session.tokens - session.last_answer_tokens)
    else:
        cached = min(start.cached_tokens, session.tokens)
    return pricing.usage(cached, session.tokens - cached + prompt_chars // CHARS_PER_TOKEN)


def fresh_usage(start: StartSize, prompt_chars: int, pricing: Pricing) -> Usage:
    """A turn that starts a fresh session with that many characters."""
    cached = start.cached_tokens
    return pricing.usage(cached, start.tokens - cached + prompt_chars // CHARS_PER_TOKEN)


def transcript_usage(resumed: Usage, start: StartSize, transcript_chars: int) -> Usage:
    """The same turn as the resumed one, with the whole transcript in a fresh session."""
    return estimate_transcript_usage(resumed, resumed, transcript_chars, start.uncached_tokens)
