"""`clew jobs`"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.jobs.change import cancel, retry
from clew.cli.jobs.logs import logs
from clew.cli.jobs.submit import submit
from clew.cli.jobs.watch import watch
from clew.cli.options import AS_JSON
from clew.cli.ui.printing import ago, harmless, lasted, note, one_line, plural, price, print_json, say, short_ids, stamp
from clew.cli.ui.tables import columns

if TYPE_CHECKING:
    from typing import Any

    from clew.api.client import Client
    from clew.api.jobs import JobView
    from clew.core.jobs.job import ProgressMarker
    from clew.core.runs.run import Run

STATUSES = ("queued", "running", "waiting", "blocked", "conflict", "succeeded", "failed", "cancelled")
HEADINGS = ["JOB", "STATUS", "RUNS", "CREATED", "COST", "KEY", "PROMPT"]
SHOWN_CHARS = 200  # of a prompt, an error or a result
KEY_CHARS = 24
STDERR_LINES = 20
MARKERS_SHOWN = 10


@click.group(cls=SuggestingGroup)
def jobs() -> None:
    """Submit, list, show, watch, retry and cancel jobs: work that goes on where it was cut off.

    ID is a job's id as `jobs list` shows it, any unambiguous beginning of it, or `latest`: the newest. `clew work`
    carries jobs out, and so does `clew serve --work`.

    \b
      clew work &
      clew jobs submit --cwd ~/shop --checkpoint "Bring the tests to pass."
      clew jobs watch latest
    """


for command in (submit, watch, logs, retry, cancel):
    jobs.add_command(command)


@jobs.command("list")
@click.option(
    "--status", type=click.Choice(STATUSES), multiple=True, help="Only those in this state; may be given again."
)
@click.option("--key", metavar="KEY", help="Only those of this key.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@AS_JSON
def list_(status: tuple[str, ...], key: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the newest first.

    \b
      clew jobs list --status blocked --status conflict     those that wait for you
      clew jobs list --key shop --json | jq -r '.[].result'
    """

    async def work(client: Client) -> None:
        from clew.api.jobs import view_jobs
        from clew.core.jobs.job import JobStatus

        statuses = [JobStatus(each) for each in status] or None
        found = await view_jobs(client, await client.jobs.list(statuses=statuses, key=key, limit=limit))
        if as_json:
            print_json([view.to_json(stamp) for view in found])
        elif not found:
            note("No jobs yet." if not status and key is None else "No such jobs.")
        else:
            short = short_ids(view.job.id for view in found)
            rows = [[short[view.job.id], *_row(view)] for view in found]
            say(columns(HEADINGS, rows, spare=["COST", "KEY", "CREATED"]))
            _tell_nobody(found)

    with_client(work, reads=True)


@jobs.command()
@click.argument("job_id", metavar="ID")
@AS_JSON
def show(job_id: str, as_json: bool) -> None:
    """Show a job: its state, its runs, how far it has come, its result, or what is wrong and what to do.

    A marker is one whole message of the agent's; the last ten are shown, and --json has more of them.

    \b
      clew jobs show latest
      clew jobs show 1f3a9c02 --json | jq -r .error.hint
    """

    async def work(client: Client) -> None:
        from clew.api.jobs import view_job

        found = await view_job(client, job_id)
        if as_json:
            runs = [_run_object(number, run) for number, run in enumerate(found.runs, 1)]
            print_json({**found.to_json(stamp), "run_list": runs})
            return
        told = [_run_words(n, run) for n, run in enumerate(found.runs, 1)]
        for label, words in (*_facts(found), *told, *_markers(found)):
            say(f"{label:<11}{words}")
        for place, line in enumerate(found.stderr_tail.splitlines()[-STDERR_LINES:]):
            say(f"{'' if place else 'stderr':<11}{one_line(line, SHOWN_CHARS)}")
        if found.job.result is not None:
            say(f"{'result':<11}{one_line(found.job.result, SHOWN_CHARS)}")
        _tell_nobody([found])

    with_client(work, reads=True)


def _tell_nobody(found: list[JobView]) -> None:
    """What waits for a worker, when there is none."""
    for words in dict.fromkeys(view.no_worker for view in found if view.no_worker is not None):
        note(words)


def _row(view: JobView) -> list[str]:
    job = view.job
    key = "-" if job.key == job.id else one_line(job.key, KEY_CHARS)
    return [state(view), str(job.runs), ago(job.created_at), _cost(view), key, one_line(job.prompt, 40)]


def _cost(view: JobView) -> str:
    return price(view.cost_usd, used=bool(view.usage.shown_tokens or view.usage.output_tokens))


def state(view: JobView) -> str:
    """In a word or two."""
    from clew.cli.ui.printing import at_clock
    from clew.core.jobs.job import STOPPED

    job = view.job
    if job.cancel_requested and job.status not in STOPPED:
        return f"{job.status}, stopping"
    if job.status == "waiting" and job.wake_at:
        return f"waiting until {at_clock(job.wake_at)}"
    later = job.status == "queued" and job.not_before is not None and job.not_before > time.time()
    return f"queued until {at_clock(job.not_before)}" if later else job.status.value


def _facts(view: JobView) -> list[tuple[str, str]]:
    """The job for a person: what is not known is left out."""
    from clew.api.jobs import error_of
    from clew.cli.jobs.display import span
    from clew.cli.ui.printing import at_clock
    from clew.cli.ui.run_display import meaning

    job, limits, usage = view.job, view.job.limits, view.usage
    error = error_of(job)
    session = [f"resumed {job.resume_count}×" if job.resume_count else "", job.session_id or ""]
    session += [f"last fresh: {meaning(job.reason)}"] if job.reason else []
    tokens = f"{usage.shown_tokens:,} read ({usage.cache_read_input_tokens:,} cached), {usage.output_tokens:,} written"
    bounds = [f"{span(limits.timeout_s)} a run" if limits.timeout_s else "", plural(limits.max_resumes, "resume")]
    bounds += [f"{plural(limits.retries, 'retry', 'retries')} after trouble"]
    bounds += [plural(limits.max_runs, "run")]
    bounds += [f"sessions up to {span(limits.max_age_s)} old"] if limits.max_age_s is not None else []
    bounds += [f"until {at_clock(limits.deadline_at)}"] if limits.deadline_at else []
    pairs = [
        ("job", job.id),
        ("prompt", one_line(job.prompt, SHOWN_CHARS)),
        ("status", f"{state(view)}{lasted(job.started_at, job.ended_at)}"),
        ("error", one_line(error.message, SHOWN_CHARS) if error else ""),
        ("do", one_line(error.hint or "", SHOWN_CHARS) if error else ""),
        ("conflicts", harmless(", ".join(job.conflicts[:10]))),
        ("agent", " ".join(part for part in (job.agent, job.model, f"({job.permissions})") if part)),
        ("in", harmless(job.cwd)),
        ("key", "" if job.key == job.id else one_line(job.key, SHOWN_CHARS)),
        ("thread", view.thread),
        ("session", " · ".join(part for part in session if part)),
        ("limits", ", ".join(part for part in bounds if part)),
        ("files", "checkpoints in refs/clew/jobs/" + job.id if job.checkpoint else ""),
        ("not before", at_clock(job.not_before) if job.not_before and not job.runs else ""),
        ("worker", job.worker or ""),
        ("tokens", tokens if usage.shown_tokens or usage.output_tokens else ""),
        ("cost", _cost(view) if view.runs else ""),
    ]
    return [(label, words) for label, words in pairs if words]


def _run_words(number: int, run: Run) -> tuple[str, str]:
    from clew.cli.ui.run_display import session_words

    status = f"{run.status.replace('_', ' ')}{lasted(run.started_at, run.ended_at)}"
    parts = (
        session_words(run),
        status,
        price(run.cost_usd, used=True) if run.cost_usd else "",
        one_line(run.error or "", 80),
    )
    return f"run {number}", " · ".join(part for part in parts if part)


def _markers(view: JobView) -> list[tuple[str, str]]:
    """The last ones, and how many there are before them."""
    markers = view.markers or ()
    earlier = len(markers) - MARKERS_SHOWN
    left_out = [("markers", plural(earlier, "earlier one"))] if earlier > 0 else []
    return left_out + [(f"marker {each.number}", _marker_words(view, each)) for each in markers[-MARKERS_SHOWN:]]


def _marker_words(view: JobView, marker: ProgressMarker) -> str:
    from clew.cli.ui.printing import at_clock

    number = view.run_number(marker)
    parts = (f"run {number}" if number else "", at_clock(marker.at), one_line(marker.text, SHOWN_CHARS))
    return " · ".join(part for part in parts if part)


def _run_object(number: int, run: Run) -> dict[str, Any]:
    return {
        "number": number,
        "id": run.id,
        "status": run.status,
        "session_id": run.session_id,
        "session_resumed": run.session_resumed,
        "reason": run.reason,
        "fallback": run.fallback,
        "outcome": run.outcome,
        "error": run.error,
        "cost_usd": run.cost_usd,
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at),
    }
