"""The command `clew jobs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.api.wire.shape import stamp
from clew.cli.client_runner import client_command
from clew.cli.command_groups import SuggestingGroup
from clew.cli.jobs.change import cancel, retry
from clew.cli.jobs.logs import logs
from clew.cli.jobs.submit import submit
from clew.cli.jobs.watch import watch
from clew.cli.options import AS_JSON, LIMIT
from clew.cli.ui.formatting import ago, harmless, joined, lasted, local_time, one_line, plural, price, short_ids
from clew.cli.ui.printing import note, print_json, say, say_block, say_fields
from clew.cli.ui.run_display import meaning, session_words
from clew.cli.ui.tables import columns
from clew.core.jobs.job import STOPPED, JobStatus

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.jobs import JobView
    from clew.core.jobs.job import Job, ProgressMarker
    from clew.core.runs.run import Run

STATUSES = ("queued", "running", "waiting", "blocked", "conflict", "succeeded", "failed", "cancelled")
HEADINGS = ["JOB", "STATUS", "RUNS", "CREATED", "COST", "PRIORITY", "KEY", "PROMPT"]
SHOWN_CHARS = 200  # of a prompt, an error or a result
KEY_CHARS = 24
STDERR_LINES = 20
MARKERS_SHOWN = 10


@click.group(cls=SuggestingGroup)
def jobs() -> None:
    """Submit, list, show, watch, retry and cancel jobs: work that continues where it was interrupted.

    ID is the id of a job as `jobs list` shows it, any unambiguous beginning of it, or `latest` for the newest job.
    `clew work` and `clew serve --work` run jobs.

    \b
      clew work &
      clew jobs submit --cwd ~/shop --checkpoint "Make the tests pass."
      clew jobs watch latest
    """


for command in (submit, watch, logs, retry, cancel):
    jobs.add_command(command)


@jobs.command("list")
@click.option(
    "--status", type=click.Choice(STATUSES), multiple=True, help="Only jobs with this status; may be repeated."
)
@click.option("--key", metavar="KEY", help="Only jobs of this key.")
@LIMIT
@AS_JSON
@client_command(reads=True)
async def list_(client: Client, status: tuple[str, ...], key: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the newest first.

    \b
      clew jobs list --status blocked --status conflict     the jobs that wait for you
      clew jobs list --key shop --json | jq -r '.[].result'
    """
    from clew.api.jobs import view_jobs

    statuses = [JobStatus(each) for each in status] or None
    found = await view_jobs(client, await client.jobs.list(statuses=statuses, key=key, limit=limit))
    if as_json:
        print_json([view.to_json() for view in found])
    elif not found:
        note("No jobs yet." if not status and key is None else "No such jobs.")
    else:
        short = short_ids(view.job.id for view in found)
        rows = [[short[view.job.id], *_row(view)] for view in found]
        say(columns(HEADINGS, rows, optional=["PRIORITY", "COST", "KEY", "CREATED"]))
        _note_missing_workers(found)


@jobs.command()
@click.argument("job_id", metavar="ID")
@AS_JSON
@client_command(reads=True)
async def show(client: Client, job_id: str, as_json: bool) -> None:
    """Show a job: its state, its runs, its progress, its result, or what is wrong and what to do.

    A marker is one whole message of the agent. The last ten are shown; --json has more of them.

    \b
      clew jobs show latest
      clew jobs show 1f3a9c02 --json | jq -r .error.hint
    """
    from clew.api.jobs import view_job

    found = await view_job(client, job_id)
    if as_json:
        runs = [_run_object(number, run) for number, run in enumerate(found.runs, 1)]
        print_json({**found.to_json(), "run_list": runs})
        return
    runs_shown = [_run_words(number, run) for number, run in enumerate(found.runs, 1)]
    say_fields([*_details(found), *runs_shown, *_markers(found)])
    say_block("stderr", (one_line(line, SHOWN_CHARS) for line in found.stderr_tail.splitlines()[-STDERR_LINES:]))
    say_fields([("result", one_line(found.job.result or "", SHOWN_CHARS))])
    _note_missing_workers([found])


def _note_missing_workers(found: list[JobView]) -> None:
    """Says which jobs wait for a worker although none is alive, and how to start one."""
    for words in dict.fromkeys(view.no_worker for view in found if view.no_worker is not None):
        note(words)


def _row(view: JobView) -> list[str]:
    job = view.job
    key = "-" if job.key == job.id else one_line(job.key, KEY_CHARS)
    return [
        state(job),
        str(job.runs),
        ago(job.created_at),
        _cost(view),
        str(job.priority),
        key,
        one_line(job.prompt, 40),
    ]


def _cost(view: JobView) -> str:
    return price(view.cost_usd, used=bool(view.usage.shown_tokens or view.usage.output_tokens))


def state(job: Job) -> str:
    """The status of the job in a few words, with the time until which it waits."""
    if job.cancel_requested and job.status not in STOPPED:
        return f"{job.status}, stopping"
    if job.status is JobStatus.WAITING and job.wake_at:
        return f"waiting until {local_time(job.wake_at)}"
    later = job.status is JobStatus.QUEUED and job.not_before is not None and job.not_before > time.time()
    return f"queued until {local_time(job.not_before)}" if later else job.status.value


def _details(view: JobView) -> list[tuple[str, str]]:
    from clew.api.jobs import error_of

    job, limits, usage = view.job, view.job.limits, view.usage
    error = error_of(job)
    resumed = f"resumed {job.resume_count}×" if job.resume_count else ""
    fresh = f"last fresh: {meaning(job.reason)}" if job.reason else ""
    tokens = f"{usage.shown_tokens:,} read ({usage.cache_read_input_tokens:,} cached), {usage.output_tokens:,} written"
    bounds = (
        f"{span(limits.timeout_s)} a run" if limits.timeout_s else "",
        plural(limits.max_resumes, "resume"),
        f"{plural(limits.retries, 'retry', 'retries')} after a failure",
        plural(limits.max_runs, "run"),
        f"sessions up to {span(limits.max_age_s)} old" if limits.max_age_s is not None else "",
        f"until {local_time(limits.deadline_at)}" if limits.deadline_at else "",
    )
    return [
        ("job", job.id),
        ("prompt", one_line(job.prompt, SHOWN_CHARS)),
        ("status", f"{state(job)}{lasted(job.started_at, job.ended_at)}"),
        ("error", one_line(error.message, SHOWN_CHARS) if error else ""),
        ("do", one_line(error.hint or "", SHOWN_CHARS) if error else ""),
        ("conflicts", harmless(", ".join(job.conflicts[:10]))),
        ("agent", joined(job.agent, job.model, f"({job.permissions})", by=" ")),
        ("in", harmless(job.cwd)),
        ("key", "" if job.key == job.id else one_line(job.key, SHOWN_CHARS)),
        ("priority", str(job.priority)),
        ("thread", view.thread),
        ("session", joined(resumed, job.session_id, fresh)),
        ("limits", joined(*bounds, by=", ")),
        ("files", "checkpoints in refs/clew/jobs/" + job.id if job.checkpoint else ""),
        ("not before", local_time(job.not_before) if job.not_before and not job.runs else ""),
        ("worker", job.worker or ""),
        ("tokens", tokens if usage.shown_tokens or usage.output_tokens else ""),
        ("cost", _cost(view) if view.runs else ""),
    ]


def span(seconds: float) -> str:
    """`90 s`, `30 min`, `2 h`: the duration in the largest unit that gives a whole number."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:g} s"


def _run_words(number: int, run: Run) -> tuple[str, str]:
    status = f"{run.status.replace('_', ' ')}{lasted(run.started_at, run.ended_at)}"
    cost = price(run.cost_usd, used=True) if run.cost_usd else ""
    return f"run {number}", joined(session_words(run), status, cost, one_line(run.error or "", 80))


def _markers(view: JobView) -> list[tuple[str, str]]:
    """The last markers, and how many came before them."""
    markers = view.markers or ()
    earlier = len(markers) - MARKERS_SHOWN
    left_out = [("markers", f"{earlier:,} earlier")] if earlier > 0 else []
    return left_out + [(f"marker {each.number}", _marker_words(view, each)) for each in markers[-MARKERS_SHOWN:]]


def _marker_words(view: JobView, marker: ProgressMarker) -> str:
    number = view.run_number(marker)
    return joined(f"run {number}" if number else "", local_time(marker.at), one_line(marker.text, SHOWN_CHARS))


def _run_object(number: int, run: Run) -> dict[str, Any]:
    return {
        "number": number,
        "id": run.id,
        "status": run.status,
        "session_id": run.session_id,
        "session_resumed": run.session_resumed,
        "reason": run.reason,
        "rewound_to": run.rewound_to,
        "fallback": run.fallback,
        "outcome": run.outcome,
        "error": run.error,
        "cost_usd": run.cost_usd,
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at),
    }
