"""The figures of /metrics as metric families of Prometheus, in its text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from clew.api.views import RunTotals
from clew.core.jobs.job import JobStatus
from clew.core.reviews.review import PathUsage, ReviewMeasures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUND_BUCKETS = (1, 2, 3, 5, 8, 13, 21)
TOKEN_FIELDS = {  # from the label `type` to the field of a usage record
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_creation": "cache_creation_input_tokens",
}

Rows = Iterable[tuple[tuple[str, ...], float]]  # the values of the labels, and a count


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def written(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Families(families))


def of_runs(tallies: Sequence[RunTotals], live: int) -> list[Metric]:
    host = ("kind", "agent")
    outcomes = [((row.kind, row.agent, row.outcome or "unknown"), row.runs) for row in tallies]
    resumed = [((row.kind, row.agent), row.runs) for row in tallies if row.session_resumed]
    rewound = [((row.kind, row.agent), row.rewound) for row in tallies if row.session_resumed]
    fresh = [
        ((row.kind, row.agent, row.reason), row.runs)
        for row in tallies
        if not row.session_resumed and row.reason is not None
    ]
    fallbacks = sum(row.fallbacks for row in tallies)
    tokens = [
        ((row.kind, row.agent, kind), float(getattr(row.usage, field)))
        for row in tallies
        for kind, field in TOKEN_FIELDS.items()
    ]
    costs = [((row.kind, row.agent), row.cost_usd) for row in tallies]
    return [
        _counter("clew_runs_total", "Runs of Clew that ended, by outcome.", (*host, "outcome"), outcomes),
        _counter("clew_runs_resumed_total", "Ended runs that resumed a session.", host, resumed),
        _counter("clew_runs_rewound_total", "Resumed runs that continued from an earlier turn.", host, rewound),
        _counter("clew_runs_fresh_total", "Ended runs in a fresh session, by reason.", (*host, "reason"), fresh),
        CounterMetricFamily(
            "clew_fallbacks_total", "Runs that began in a session and ended in a fresh one.", fallbacks
        ),
        _counter("clew_tokens_total", "Tokens of ended runs; input is without the cache.", (*host, "type"), tokens),
        _counter("clew_cost_usd_total", "Cost of ended runs as agents report it. Some report none.", host, costs),
        GaugeMetricFamily("clew_runs_live", "Runs that are queued, running or waiting.", live),
    ]


def of_jobs(jobs: Mapping[str, int], workers: int) -> list[Metric]:
    by_status = [((status.value,), jobs.get(status.value, 0)) for status in JobStatus]
    return [
        _gauge("clew_jobs", "Jobs by status.", ("status",), by_status),
        GaugeMetricFamily("clew_workers", "Workers that are alive.", workers),
    ]


def of_reviews(found: ReviewMeasures) -> list[Metric]:
    ages = found.expiry_ages_s
    rounds = [(("true",), found.resumed), (("false",), found.rounds - found.resumed)]
    by_model = [
        ((model, resumed), count)
        for model, (asked, resumed_count) in sorted(found.by_model.items())
        for resumed, count in (("true", resumed_count), ("false", asked - resumed_count))
    ]
    misses = [((reason,), count) for reason, count in sorted(found.misses.items())]
    return [
        CounterMetricFamily("clew_reviews_total", "Reviews with a round that has ended.", found.reviews),
        _counter(
            "clew_review_rounds_total", "Rounds that ended, by whether a session was resumed.", ("resumed",), rounds
        ),
        CounterMetricFamily("clew_review_rounds_failed_total", "Rounds that failed.", found.failed),
        _counter("clew_review_follow_ups_total", "Rounds after the first, by model.", ("model", "resumed"), by_model),
        _counter(
            "clew_review_misses_total", "Rounds after the first in a fresh session, by reason.", ("reason",), misses
        ),
        CounterMetricFamily(
            "clew_review_fallbacks_total", "Rounds that began in a session and ended in a fresh one.", found.fallbacks
        ),
        SummaryMetricFamily(
            "clew_review_session_age_at_expiry_seconds",
            "How long sessions had not been used when they were too old to resume.",
            len(ages),
            sum(ages),
        ),
        _rounds_per_review(found.rounds_per_review),
        _by_path(
            found,
            "clew_review_tokens_per_round",
            "Tokens that the model read, cached or not.",
            lambda path: path.usage.shown_tokens,
        ),
        _by_path(found, "clew_review_units_per_round", "Tokens weighted by price.", lambda path: path.usage.units),
        _by_path(found, "clew_review_seconds_per_round", "The duration of a round.", lambda path: path.seconds),
        _by_path(found, "clew_review_cost_usd_per_round", "Cost as agents report it.", lambda path: path.cost_usd),
    ]


def of_hooks(sessions: Mapping[tuple[str, str, str], int], events: Mapping[tuple[str, str], int]) -> list[Metric]:
    return [
        _gauge(
            "clew_hook_sessions",
            "Sessions of hooks, by what the next event would do.",
            ("repo", "agent", "state"),
            sorted(sessions.items()),
        ),
        _gauge(
            "clew_hook_events",
            "Events of forges that are still stored, by state.",
            ("forge", "state"),
            sorted(events.items()),
        ),
    ]


def _counter(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _summed(CounterMetricFamily(name, help_text, labels=labels), rows)


def _gauge(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _summed(GaugeMetricFamily(name, help_text, labels=labels), rows)


def _summed(family: CounterMetricFamily | GaugeMetricFamily, rows: Rows) -> Metric:
    """One sample for each set of labels, in order. A label is text from outside, which may contain a lone surrogate."""
    sums: dict[tuple[str, ...], float] = {}
    for labels, count in rows:
        key = tuple(label.encode("utf-8", "replace").decode() for label in labels)
        sums[key] = sums.get(key, 0) + count
    for key, total in sums.items():
        family.add_metric(key, total)
    return family


def _by_path(found: ReviewMeasures, name: str, help_text: str, total: Callable[[PathUsage], float]) -> Metric:
    family = SummaryMetricFamily(name, f"{help_text} Of rounds after the first.", labels=("resumed",))
    for resumed, path in (("true", found.with_resume), ("false", found.without_resume)):
        family.add_metric((resumed,), path.rounds, total(path))
    return family


def _rounds_per_review(reviews: Mapping[int, int]) -> Metric:
    """Counts the reviews as they are now: another round moves a review to another bucket."""
    buckets = [
        (str(limit), float(sum(count for rounds, count in reviews.items() if rounds <= limit)))
        for limit in ROUND_BUCKETS
    ]
    buckets.append(("+Inf", float(sum(reviews.values()))))
    total = sum(rounds * count for rounds, count in reviews.items())
    return HistogramMetricFamily("clew_review_rounds_per_review", "How many rounds reviews have.", buckets, total)
