"""What resuming came to: how often, why not, what it cost, and two estimates of what it would have cost otherwise.

A run counts for the rate when it got as far as a decision; one that was cancelled while it waited does not. For the
estimates every run counts, whatever became of it: `otherwise` is their one definition, in all sums and on all days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

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
    def plain_resume_runs(self) -> int: ...
    @property
    def plain_resume_cost_usd(self) -> float: ...
    @property
    def plain_resume_usd(self) -> float: ...
    @property
    def unpriced_runs(self) -> int: ...
    @property
    def day(self) -> int: ...


class Savings(Record):
    """The sum of all tallies."""

    runs: int = 0
    resumed: int = 0
    fresh: Mapping[str, int] = MappingProxyType({})  # by reason
    outcomes: Mapping[str, int] = MappingProxyType({})
    fallbacks: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    transcript_usd: float = 0.0  # what all runs would have cost with transcripts: an estimate
    estimated_runs: int = 0  # those that have that estimate
    plain_resume_usd: float = 0.0  # what they would have cost with a plain `--resume` every turn: an estimate
    plain_resume_runs: int = 0  # those that have that one
    unpriced_runs: int = 0  # used tokens, and the agent reported no price: what they cost is not known

    @property
    def decided(self) -> int:
        return self.resumed + sum(self.fresh.values())

    @property
    def resume_rate(self) -> float | None:
        return self.resumed / self.decided if self.decided else None

    @property
    def saved_usd(self) -> float:
        """An estimate. Below zero: resuming was dearer than transcripts."""
        return self.transcript_usd - self.cost_usd

    @property
    def saved_share(self) -> float | None:
        return self.saved_usd / self.transcript_usd if self.transcript_usd else None


class Day(Savings):
    """What the runs that were asked for on one day (UTC) came to."""

    day: int = 0  # since 1970-01-01


def otherwise(cost_usd: float, estimated_cost_usd: float, estimate_usd: float) -> float:
    """What runs would have cost another way: with transcripts, or with a plain `--resume` every turn.

    A run counts with its estimate; one that has none counts with what it cost, so that the sum compares with the cost
    of the same runs. Fresh runs, failed and cancelled ones and those without a price (which count as nothing on both
    sides) are no exceptions. `estimated_cost_usd` is what the runs with an estimate cost, of `cost_usd` in all.
    """
    return cost_usd - estimated_cost_usd + estimate_usd


def summed(tallies: Iterable[Tally]) -> Savings:
    return Savings(**_sums(list(tallies)))


def daily(tallies: Iterable[Tally]) -> list[Day]:
    """The same by day, oldest first; days without a run are left out."""
    days: dict[int, list[Tally]] = {}
    for row in tallies:
        days.setdefault(row.day, []).append(row)
    return [Day(**_sums(days[day]), day=day) for day in sorted(days)]


def _sums(rows: Sequence[Tally]) -> dict[str, Any]:
    fresh: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    for row in rows:
        outcome = row.outcome or UNENDED
        outcomes[outcome] = outcomes.get(outcome, 0) + row.runs
        if not row.session_resumed and row.reason is not None:
            fresh[row.reason] = fresh.get(row.reason, 0) + row.runs
    return {
        "runs": sum(row.runs for row in rows),
        "resumed": sum(row.runs for row in rows if row.session_resumed),
        "fresh": dict(sorted(fresh.items(), key=lambda item: (-item[1], item[0]))),
        "outcomes": dict(sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))),
        "fallbacks": sum(row.fallbacks for row in rows),
        "usage": sum((row.usage for row in rows), NO_USAGE),
        "cost_usd": sum(row.cost_usd for row in rows),
        "transcript_usd": sum(otherwise(row.cost_usd, row.estimated_cost_usd, row.estimate_usd) for row in rows),
        "estimated_runs": sum(row.estimated_runs for row in rows),
        "plain_resume_usd": sum(
            otherwise(row.cost_usd, row.plain_resume_cost_usd, row.plain_resume_usd) for row in rows
        ),
        "plain_resume_runs": sum(row.plain_resume_runs for row in rows),
        "unpriced_runs": sum(row.unpriced_runs for row in rows),
    }


def transcript_new_tokens(run: Run) -> int:
    """What would not have come from the cache with the transcript, counted as `otherwise` counts money."""
    return run.usage.new_tokens if run.estimate_new_tokens is None else run.estimate_new_tokens


def transcript_tokens(run: Run) -> int:
    """What the model would have been shown with the whole transcript: an estimate, the truth for a fresh turn."""
    shown = run.usage.shown_tokens
    return max(shown, run.transcript_chars // CHARS_PER_TOKEN) if run.session_resumed else shown
