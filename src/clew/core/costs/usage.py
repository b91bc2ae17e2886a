"""Tokens and money: what a run used, and what it would have used with a transcript.

There is no price list. The agent reports the cost of a run; that cost divided by the run's weighted tokens is the unit
price, which is also used for the estimate. The weights are the same for every Anthropic model.
"""

from __future__ import annotations

from clew.core.record import Record, fields_of

INPUT = 1.0
CACHE_WRITE = 1.25
CACHE_READ = 0.1
OUTPUT = 5.0

MONEY_DIGITS = 6  # decimals of every amount in JSON
CHARS_PER_TOKEN = 4  # a rule of thumb, good enough for what is shown as an estimate


class Usage(Record):
    """Tokens of one run. `input_tokens` are the uncached ones, as Anthropic counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
        )

    @property
    def shown_tokens(self) -> int:
        """Everything that the model read, cached or not."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens

    @property
    def new_tokens(self) -> int:
        """What the model read that was not in its cache."""
        return self.input_tokens + self.cache_creation_input_tokens

    @property
    def is_written(self) -> bool:
        """Whether new tokens are charged as cache writes. False: the agent's model does not charge for cache writes."""
        return self.cache_creation_input_tokens >= self.input_tokens

    @property
    def units(self) -> float:
        """Tokens weighted by price, in units of one uncached input token."""
        return (
            self.input_tokens * INPUT
            + self.cache_creation_input_tokens * CACHE_WRITE
            + self.cache_read_input_tokens * CACHE_READ
            + self.output_tokens * OUTPUT
        )


NO_USAGE = Usage()


class RequestUsage(Record):
    """What a run's requests to its model used, as the agent reports it."""

    first: Usage
    last: Usage
    count: int

    @property
    def context_tokens(self) -> int:
        """What the session holds after the last request."""
        return self.last.shown_tokens + self.last.output_tokens


class StatRow(Record):
    """The sums over all runs that have the same day, kind, agent, model, reason and outcome. The store counts them."""

    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None  # why fresh; of resumed runs: why the session was rewound or copied
    outcome: str | None  # None: not ended yet
    runs: int
    fallbacks: int
    usage: Usage
    cost_usd: float
    prompt_chars: int
    transcript_chars: int
    estimated_runs: int  # runs that have an estimate …
    estimated_cost_usd: float  # … what they cost …
    estimate_usd: float  # … and what they would have cost with the transcript
    unpriced_runs: int = 0  # runs that used tokens, but whose agent reported no price
    day: int = 0  # when the runs were created: days since 1970-01-01, in UTC
    plain_resume_runs: int = 0  # the same three sums for a plain `--resume` every turn
    plain_resume_cost_usd: float = 0.0
    plain_resume_usd: float = 0.0
    kind: str = "chat"  # of the runs' threads
    directory: str | None = None  # of the runs' threads; None: the runs of all directories are in this row
    rewound: int = 0  # how many of the runs continued a session from an earlier turn


def cost_of_run(total_usd: float, before_usd: float) -> float:
    """A run's own cost, from the session's running total. A total that fell was reset (an older CLI, a new session)."""
    return total_usd - before_usd if total_usd >= before_usd else total_usd


def usage_of_run(total: Usage, before: Usage) -> Usage:
    """A run's own tokens, from the session's running total. A total that fell was reset."""
    spent = {name: getattr(total, name) - getattr(before, name) for name in fields_of(Usage)}
    return total if min(spent.values()) < 0 else Usage(**spent)


def estimate_transcript_usage(used: Usage, first: Usage, transcript_chars: int, uncached_start_tokens: int) -> Usage:
    """What the same turn would have used with the whole transcript pasted into a new session.

    `first` is what the run's first request used; the later requests would have been the same. In the first request a
    new session pays in full for the transcript, which is not cached at that place, and for the `uncached_start_tokens`
    of its own beginning, which no other session shares. It reads the rest from the cache, as far as that was warm. The
    results of earlier tool calls count as read from the cache: a new session would have to repeat those calls, which
    costs at least that much.
    """
    if not used.shown_tokens:
        return used
    if min(getattr(used, name) - getattr(first, name) for name in fields_of(Usage)) < 0:
        first = used
    transcript = transcript_chars // CHARS_PER_TOKEN
    size = max(first.shown_tokens, transcript)
    own = min(uncached_start_tokens, size - transcript)
    read = min(first.cache_read_input_tokens, size - transcript - own)
    more = size - read - first.new_tokens
    written = used.is_written
    return Usage(
        input_tokens=used.input_tokens + (0 if written else more),
        output_tokens=used.output_tokens,
        cache_read_input_tokens=used.cache_read_input_tokens - first.cache_read_input_tokens + read,
        cache_creation_input_tokens=used.cache_creation_input_tokens + (more if written else 0),
    )


def price_like(estimate: Usage, used: Usage, cost_usd: float) -> float:
    """The estimate at the unit price that the run itself was charged."""
    return cost_usd * estimate.units / used.units if used.units else 0.0
