"""What resuming saved, and what reviews and hooks did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.hooks import HookCounts
from clew.api.wire.reviews import Measures
from clew.api.wire.shape import Doc, Money, Shape, Time
from clew.api.wire.usage import Usage
from clew.core.costs.savings import transcript_new_tokens, transcript_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew.core.costs.savings import DailySavings
    from clew.core.costs.savings import Savings as SavingsRecord
    from clew.core.runs.run import Run


class Day(Shape):
    day: str
    runs: int
    resumed: int
    cost_usd: Money
    transcript_usd: Annotated[Money, Doc("As in the total, which is the sum of the days")]
    plain_resume_usd: Annotated[Money, Doc("As in the total, which is the sum of the days")]
    shown_tokens: int
    output_tokens: int


class RunFigures(Shape):
    """A run as a point of a chart."""

    run_id: str
    at: Time
    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None
    rewound_to: int | None
    shown_tokens: int
    cache_read_tokens: int
    new_tokens: Annotated[int, Doc("Shown to the model and not read from the cache")]
    transcript_tokens: Annotated[int, Doc("An estimate of what the whole transcript would have shown")]
    transcript_new_tokens: Annotated[
        int, Doc("An estimate of its part that would not be cached; without an estimate, `new_tokens`")
    ]
    cost_usd: Money
    estimate_usd: Money | None
    plain_resume_usd: Money | None


StatDimension = Literal["kind", "project", "agent", "model", "day"]


class StatFigures(Shape):
    """The figures of some runs."""

    runs: int
    decided: Annotated[int, Doc("Runs for which it was decided whether to resume; resume_rate is about them")]
    resumed: int
    rewound: int
    resume_rate: float | None
    usage: Usage
    cost_usd: Money
    unpriced_runs: Annotated[int, Doc("Runs that used tokens and have no reported price: they are not in cost_usd")]
    transcript_usd: Annotated[Money, Doc("As in the total, which is the sum of the groups")]
    saved_usd: Money
    saved_share: float | None
    estimated_runs: Annotated[int, Doc("Runs that have an estimate for transcript_usd")]


class StatGroup(StatFigures):
    """The figures of the runs that have one name in common."""

    name: Annotated[str | None, Doc("Null: the model is not known")]


class GroupedStats(Shape):
    by: StatDimension
    groups: Annotated[list[StatGroup], Doc("The dearest first; days in order")]
    total: StatFigures


class Savings(Shape):
    """What resuming saved."""

    runs: Annotated[int, Doc("Without turns that were made outside Clew: they count nowhere here")]
    resumed: int
    rewound: Annotated[int, Doc("How many of the resumed runs continued their session from an earlier turn")]
    resume_rate: float | None
    fresh: Annotated[dict[str, int], Doc("The number of fresh runs, by reason")]
    outcomes: dict[str, int]
    fallbacks: int
    usage: Usage
    cost_usd: Money
    unpriced_runs: Annotated[int, Doc("Runs that used tokens and have no reported price: they are not in cost_usd")]
    transcript_usd: Annotated[
        Money, Doc("An estimate of what the runs would have cost with transcripts; a run without one counts as paid")
    ]
    saved_usd: Money
    saved_share: float | None
    estimated_runs: Annotated[int, Doc("Runs that have this estimate")]
    plain_resume_usd: Annotated[
        Money, Doc("An estimate of the cost with a plain --resume every turn; a run without one counts as paid")
    ]
    plain_resume_runs: Annotated[int, Doc("Runs that have this estimate")]


class Stats(Savings):
    by: Annotated[StatDimension | None, Doc("As in the request")]
    groups: Annotated[
        list[StatGroup] | None,
        Doc("The same runs by what `by` says, the dearest first; days in order. Null without `by`"),
    ]
    by_day: list[Day]
    by_turn: list[RunFigures]
    reviews: Measures
    hooks: HookCounts


def stats(
    total: SavingsRecord,
    grouped: GroupedStats | None,
    days: Iterable[DailySavings],
    runs: Iterable[Run],
    reviews: Measures,
    hooks: HookCounts,
) -> Stats:
    return Stats.of(
        total,
        fresh=dict(total.fresh),
        outcomes=dict(total.outcomes),
        usage=Usage.of(total.usage),
        by=None if grouped is None else grouped.by,
        groups=None if grouped is None else grouped.groups,
        by_day=[_day(each) for each in days],
        by_turn=[_run_figures(run) for run in runs],
        reviews=reviews,
        hooks=hooks,
    )


def stat_figures(found: SavingsRecord) -> StatFigures:
    return StatFigures.of(found, usage=Usage.of(found.usage))


def stat_group(name: str | None, found: SavingsRecord) -> StatGroup:
    return StatGroup.of(found, usage=Usage.of(found.usage), name=name)


def _day(found: DailySavings) -> Day:
    date = datetime.fromtimestamp(found.day * 86_400, UTC).date()
    return Day.of(found, found.usage, day=date.isoformat())


def _run_figures(run: Run) -> RunFigures:
    return RunFigures.of(
        run,
        run.usage,
        run_id=run.id,
        at=run.ended_at or run.created_at,
        cache_read_tokens=run.usage.cache_read_input_tokens,
        transcript_tokens=transcript_tokens(run),
        transcript_new_tokens=transcript_new_tokens(run),
    )
