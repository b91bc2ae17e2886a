"""Figures for Prometheus, in its text format 0.0.4.

All of them are counted from the store at each look, so they hold for every process that uses it and over restarts. A
deleted thread takes its runs along: Prometheus takes a counter that falls for a reset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from clew import job
from clew.core.job import JobStatus
from clew.core.record import Record
from clew.core.review import Measures, PathUsage
from clew.server.access import TheClient
from clew.server.documents import fails
from clew.store.records import Tally

router = APIRouter()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUND_BUCKETS = (1, 2, 3, 5, 8, 13, 21)
TOKENS = {  # the type that a label says, and the field of a usage
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_creation": "cache_creation_input_tokens",
}

Kind = Literal["counter", "gauge", "summary", "histogram"]
Labels = tuple[tuple[str, str], ...]


class Sample(Record):
    value: float
    labels: Labels = ()
    suffix: str = ""  # of a summary or a histogram


class Metric(Record):
    name: str
    kind: Kind
    words: str
    samples: tuple[Sample, ...]


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **fails(body=False),
        200: {"description": "Prometheus text format 0.0.4", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
    tags=["daemon"],
)
async def metrics(client: TheClient) -> Response:
    """For Prometheus; it needs the token like the rest."""
    counts = await client.counts()
    found = [
        *of_runs(counts.tallies, counts.live_runs),
        *of_jobs(counts.jobs, len(await job.workers(client))),
        *of_reviews(await client.reviews.measures()),
        *of_hooks(await client.hooks.counts(), await client.hooks.event_counts()),
    ]
    return Response(written(found), headers={"Content-Type": CONTENT_TYPE})


def of_runs(tallies: Sequence[Tally], live: int) -> list[Metric]:
    resumed = [row for row in tallies if row.session_resumed]
    fresh = [row for row in tallies if not row.session_resumed and row.reason is not None]
    tokens = [
        ((*_host(row), ("type", kind)), float(getattr(row.usage, field)))
        for row in tallies
        for kind, field in TOKENS.items()
    ]
    return [
        _counter(
            "clew_runs_total",
            "Runs that ended, by how.",
            (((*_host(row), ("outcome", row.outcome or "unknown")), row.runs) for row in tallies),
        ),
        _counter(
            "clew_runs_resumed_total", "Ended runs that resumed a session.", ((_host(row), row.runs) for row in resumed)
        ),
        _counter(
            "clew_runs_fresh_total",
            "Ended runs in a fresh session, by why.",
            (((*_host(row), ("reason", row.reason or "")), row.runs) for row in fresh),
        ),
        _counter(
            "clew_fallbacks_total",
            "Runs that began in a session and ended in a fresh one.",
            [((), sum(row.fallbacks for row in tallies))],
        ),
        _counter("clew_tokens_total", "Tokens of ended runs; input is what was not cached.", tokens),
        _counter(
            "clew_cost_usd_total",
            "What agents report that ended runs cost. Some report none.",
            ((_host(row), row.cost_usd) for row in tallies),
        ),
        _gauge("clew_runs_live", "Runs that are queued, running or waiting.", [((), live)]),
    ]


def of_jobs(jobs: Mapping[str, int], workers: int) -> list[Metric]:
    statuses = [status.value for status in JobStatus]
    return [
        _gauge("clew_jobs", "Jobs by status.", [((("status", each),), jobs.get(each, 0)) for each in statuses]),
        _gauge("clew_workers", "Workers that are alive.", [((), workers)]),
    ]


def of_reviews(found: Measures) -> list[Metric]:
    ages = found.expiry_ages_s
    paths = {"true": found.with_resume, "false": found.without_resume}
    by_model = [
        ((("model", model), ("resumed", word)), count)
        for model, (asked, resumed) in sorted(found.by_model.items())
        for word, count in (("true", resumed), ("false", asked - resumed))
    ]
    misses = [((("reason", reason),), count) for reason, count in sorted(found.misses.items())]
    return [
        _counter("clew_reviews_total", "Reviews with a round that is over.", [((), found.reviews)]),
        _counter(
            "clew_review_rounds_total",
            "Rounds that are over, by whether a session was resumed.",
            [(_resumed("true"), found.resumed), (_resumed("false"), found.rounds - found.resumed)],
        ),
        _counter("clew_review_rounds_failed_total", "Rounds that failed.", [((), found.failed)]),
        _counter("clew_review_follow_ups_total", "Rounds after the first, by model.", by_model),
        _counter("clew_review_misses_total", "Rounds after the first that began fresh, by why.", misses),
        _counter(
            "clew_review_fallbacks_total",
            "Rounds that began in a session and ended in a fresh one.",
            [((), found.fallbacks)],
        ),
        _summary(
            "clew_review_session_age_at_expiry_seconds",
            "How long sessions had not been used when they were too old.",
            [((), sum(ages), len(ages))],
        ),
        _rounds_per_review(found),
        _by_path("clew_review_tokens_per_round", "Tokens that the model read, cached or not.", paths, _shown),
        _by_path("clew_review_units_per_round", "Tokens weighted by price.", paths, lambda path: path.units),
        _by_path("clew_review_seconds_per_round", "From a round's start to its end.", paths, lambda path: path.seconds),
        _by_path("clew_review_cost_usd_per_round", "As the agent reports it.", paths, lambda path: path.cost_usd),
    ]


def of_hooks(sessions: Mapping[tuple[str, str, str], int], events: Mapping[tuple[str, str], int]) -> list[Metric]:
    by_place = [
        ((("repo", repo), ("agent", agent), ("state", state)), count)
        for (repo, agent, state), count in sorted(sessions.items())
    ]
    by_forge = [((("forge", forge), ("state", state)), count) for (forge, state), count in sorted(events.items())]
    return [
        _gauge("clew_hook_sessions", "Sessions of hooks, by what the next event would find.", by_place),
        _gauge("clew_hook_events", "What forges told and is still kept, by what became of it.", by_forge),
    ]


def written(metrics: Iterable[Metric]) -> bytes:
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {_escaped(metric.words)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [f"{metric.name}{each.suffix}{_braced(each.labels)} {_number(each.value)}" for each in metric.samples]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


Counted = Iterable[tuple[Labels, float]]


def _counter(name: str, words: str, counted: Counted) -> Metric:
    return Metric(name, "counter", words, _added(counted))


def _gauge(name: str, words: str, counted: Counted) -> Metric:
    return Metric(name, "gauge", words, _added(counted))


def _summary(name: str, words: str, of: Iterable[tuple[Labels, float, int]]) -> Metric:
    samples = [
        sample
        for labels, total, count in of
        for sample in (Sample(total, labels, "_sum"), Sample(count, labels, "_count"))
    ]
    return Metric(name, "summary", words, tuple(samples))


def _by_path(name: str, words: str, paths: Mapping[str, PathUsage], of: Callable[[PathUsage], float]) -> Metric:
    told = [(_resumed(word), of(path), path.rounds) for word, path in paths.items()]
    return _summary(name, f"{words} Of rounds after the first.", told)


def _rounds_per_review(found: Measures) -> Metric:
    """How many there are now: a review that is followed up moves to another bucket."""
    spread = found.rounds_per_review
    samples = [
        Sample(sum(count for rounds, count in spread.items() if rounds <= most), (("le", str(most)),), "_bucket")
        for most in ROUND_BUCKETS
    ]
    reviews = sum(spread.values())
    samples += [
        Sample(reviews, (("le", "+Inf"),), "_bucket"),
        Sample(sum(rounds * count for rounds, count in spread.items()), (), "_sum"),
        Sample(reviews, (), "_count"),
    ]
    return Metric("clew_review_rounds_per_review", "histogram", "Rounds that reviews have by now.", tuple(samples))


def _added(counted: Counted) -> tuple[Sample, ...]:
    """One sample for each set of labels, in order."""
    sums: dict[Labels, float] = {}
    for labels, value in counted:
        sums[labels] = sums.get(labels, 0) + value
    return tuple(Sample(value, labels) for labels, value in sums.items())


def _host(row: Tally) -> Labels:
    return (("kind", row.kind), ("agent", row.agent))


def _resumed(word: str) -> Labels:
    return (("resumed", word),)


def _shown(path: PathUsage) -> float:
    return path.usage.shown_tokens


def _braced(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    """Whole ones without a point; the shortest that reads back as the same otherwise."""
    return str(int(value)) if value == int(value) else repr(float(value))
