"""What resuming came to: how often, why not, what it cost, and an estimate of what the transcript would have cost.

A run counts for the rate when it got as far as a decision; one that was cancelled while it waited does not. The
estimate compares only runs that have one, so that what was paid and what would have been paid belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from clew.core.record import Record
from clew.core.run import Run
from clew.core.usage import CHARS_PER_TOKEN, NO_USAGE, Usage

UNENDED = "going_on"


class Tally(Protocol):
    """What the runs of one kind came to; the store counts them."""

    @property
    def session_resumed(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def runs(self) -> int: ...
    @property
    def fallbacks(self) -> int: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def cost_usd(self) -> float: ...
    @property
    def estimated_runs(self) -> int: ...
    @property
    def estimated_cost_usd(self) -> float: ...
    @property
    def estimate_usd(self) -> float: ...
    @property
    def unpriced_runs(self) -> int: ...


class Savings(Record):
    """The sum of all tallies."""

    runs: int = 0
    resumed: int = 0
    fresh: Mapping[str, int] = MappingProxyType({})  # by reason
    outcomes: Mapping[str, int] = MappingProxyType({})
    fallbacks: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    estimated_runs: int = 0  # those that have an estimate …
    estimated_cost_usd: float = 0.0  # … what they cost …
    transcript_usd: float = 0.0  # … and what they would have cost with the transcript: an estimate
    unpriced_runs: int = 0  # used tokens, and the agent reported no price: what they cost is not known

    @property
    def decided(self) -> int:
        return self.resumed + sum(self.fresh.values())

    @property
    def resume_rate(self) -> float | None:
        return self.resumed / self.decided if self.decided else None

    @property
    def saved_usd(self) -> float:
        """An estimate. Below zero: resuming was dearer."""
        return self.transcript_usd - self.estimated_cost_usd

    @property
    def saved_share(self) -> float | None:
        return self.saved_usd / self.transcript_usd if self.transcript_usd else None


def summed(tallies: Iterable[Tally]) -> Savings:
    rows = list(tallies)
    fresh: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    for row in rows:
        outcome = row.outcome or UNENDED
        outcomes[outcome] = outcomes.get(outcome, 0) + row.runs
        if not row.session_resumed and row.reason is not None:
            fresh[row.reason] = fresh.get(row.reason, 0) + row.runs
    return Savings(
        runs=sum(row.runs for row in rows),
        resumed=sum(row.runs for row in rows if row.session_resumed),
        fresh=dict(sorted(fresh.items(), key=lambda item: (-item[1], item[0]))),
        outcomes=dict(sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))),
        fallbacks=sum(row.fallbacks for row in rows),
        usage=sum((row.usage for row in rows), NO_USAGE),
        cost_usd=sum(row.cost_usd for row in rows),
        estimated_runs=sum(row.estimated_runs for row in rows),
        estimated_cost_usd=sum(row.estimated_cost_usd for row in rows),
        transcript_usd=sum(row.estimate_usd for row in rows),
        unpriced_runs=sum(row.unpriced_runs for row in rows),
    )


class Day(Record):
    """What the runs of one day (UTC) came to."""

    day: int  # since 1970-01-01
    runs: int = 0
    resumed: int = 0
    cost_usd: float = 0.0
    transcript_usd: float = 0.0  # an estimate; a run without one counts with its cost
    shown_tokens: int = 0
    output_tokens: int = 0


def daily(runs: Iterable[Run]) -> list[Day]:
    """By the day on which they were asked for, oldest first; days without a run are left out."""
    days: dict[int, Day] = {}
    for run in runs:
        number = int(run.created_at // 86_400)
        before = days.get(number, Day(number))
        estimate = run.cost_usd if run.estimate_usd is None else run.estimate_usd
        days[number] = Day(
            number,
            before.runs + 1,
            before.resumed + run.session_resumed,
            before.cost_usd + run.cost_usd,
            before.transcript_usd + estimate,
            before.shown_tokens + run.usage.shown_tokens,
            before.output_tokens + run.usage.output_tokens,
        )
    return [days[number] for number in sorted(days)]


def transcript_new_tokens(run: Run) -> int | None:
    """What would not have come from the cache: an estimate, the truth for a fresh turn. None: not known."""
    return run.estimate_new_tokens if run.session_resumed else run.usage.new_tokens


def transcript_tokens(run: Run) -> int:
    """What the model would have been shown with the whole transcript: an estimate, the truth for a fresh turn."""
    shown = run.usage.shown_tokens
    return max(shown, run.transcript_chars // CHARS_PER_TOKEN) if run.session_resumed else shown
