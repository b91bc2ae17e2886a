"""What resuming saved: how often Clew resumed, why it did not, the cost, and estimates of two alternatives' cost.

A run counts for the resume rate if a decision was made; a run that was cancelled while it waited does not. Every run
counts for the estimates, whatever its outcome: `alternative_cost_usd` is their only definition, in all sums and on all
days. Turns that were made outside Clew are not counted at all: Clew decided nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from clew.core.costs.usage import CHARS_PER_TOKEN, NO_USAGE, StatRow, Usage
from clew.core.record import Record
from clew.core.runs.run import Run

K = TypeVar("K")
NOT_ENDED = "going_on"
ADDED_UP = ("runs", "rewound", "fallbacks", "cost_usd", "estimated_runs", "plain_resume_runs", "unpriced_runs")


class Savings(Record):
    """The sum over all runs."""

    runs: int = 0
    resumed: int = 0
    fresh: Mapping[str, int] = MappingProxyType({})  # by reason
    outcomes: Mapping[str, int] = MappingProxyType({})
    fallbacks: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    transcript_usd: float = 0.0  # an estimate of what all runs would have cost with transcripts
    estimated_runs: int = 0  # the runs that have that estimate
    plain_resume_usd: float = 0.0  # an estimate of what they would have cost with a plain `--resume` every turn
    plain_resume_runs: int = 0  # the runs that have that estimate
    unpriced_runs: int = 0  # runs that used tokens, but whose agent reported no price: their cost is unknown
    rewound: int = 0  # how many of the resumed runs continued the session from an earlier turn

    @property
    def decided(self) -> int:
        return self.resumed + sum(self.fresh.values())

    @property
    def resume_rate(self) -> float | None:
        return self.resumed / self.decided if self.decided else None

    @property
    def saved_usd(self) -> float:
        """An estimate. Below zero: resuming cost more than transcripts."""
        return self.transcript_usd - self.cost_usd

    @property
    def saved_share(self) -> float | None:
        return self.saved_usd / self.transcript_usd if self.transcript_usd else None


class DailySavings(Savings):
    """The sum over the runs that were created on one day (UTC)."""

    day: int = 0  # days since 1970-01-01


def alternative_cost_usd(cost_usd: float, estimated_cost_usd: float, estimate_usd: float) -> float:
    """What runs would have cost with an alternative: with transcripts, or with a plain `--resume` every turn.

    A run counts with its estimate, or with its cost if it has none, so that the sum can be compared with the cost of
    the same runs. That includes fresh, failed and cancelled runs, and runs without a price (which count as zero on both
    sides). `estimated_cost_usd` is the part of `cost_usd` that the runs with an estimate cost.
    """
    return cost_usd - estimated_cost_usd + estimate_usd


def total_savings(rows: Iterable[StatRow]) -> Savings:
    return Savings(**_sums(list(rows)))


def daily_savings(rows: Iterable[StatRow]) -> list[DailySavings]:
    """The sums by day, oldest first; days without a run are left out."""
    days = _grouped(rows, lambda row: row.day)
    return [DailySavings(**_sums(days[day]), day=day) for day in sorted(days)]


def savings_by(rows: Iterable[StatRow], key: Callable[[StatRow], K]) -> dict[K, Savings]:
    """The sums over the rows that have the same key."""
    return {found: Savings(**_sums(group)) for found, group in _grouped(rows, key).items()}


def _grouped(rows: Iterable[StatRow], key: Callable[[StatRow], K]) -> dict[K, list[StatRow]]:
    groups: dict[K, list[StatRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _sums(rows: Sequence[StatRow]) -> dict[str, Any]:
    fresh: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    for row in rows:
        outcome = row.outcome or NOT_ENDED
        outcomes[outcome] = outcomes.get(outcome, 0) + row.runs
        if not row.session_resumed and row.reason is not None:
            fresh[row.reason] = fresh.get(row.reason, 0) + row.runs
    return {
        **{name: sum(getattr(row, name) for row in rows) for name in ADDED_UP},
        "resumed": sum(row.runs for row in rows if row.session_resumed),
        "fresh": dict(sorted(fresh.items(), key=lambda item: (-item[1], item[0]))),
        "outcomes": dict(sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))),
        "usage": sum((row.usage for row in rows), NO_USAGE),
        "transcript_usd": sum(
            alternative_cost_usd(row.cost_usd, row.estimated_cost_usd, row.estimate_usd) for row in rows
        ),
        "plain_resume_usd": sum(
            alternative_cost_usd(row.cost_usd, row.plain_resume_cost_usd, row.plain_resume_usd) for row in rows
        ),
    }


def transcript_new_tokens(run: Run) -> int:
    """The tokens that would not have come from the cache with the transcript; without an estimate, the run's own."""
    return run.usage.new_tokens if run.estimate_new_tokens is None else run.estimate_new_tokens


def transcript_tokens(run: Run) -> int:
    """The tokens that the model would have been shown with the whole transcript: an estimate; exact if fresh."""
    shown = run.usage.shown_tokens
    return max(shown, run.transcript_chars // CHARS_PER_TOKEN) if run.session_resumed else shown
