"""`clew jobs submit`"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import seconds
from clew.cli.ui.printing import SHORT_ID, harmless, note, print_json, say, stamp
from clew.core.durations import DAY_S
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.argument("prompt", required=False)
@click.option("--cwd", metavar="DIR", help="The work directory.  [default: this one]")
@click.option("--agent", metavar="AGENT", help="Who works.  [default: the setting agent]")
@click.option("--model", metavar="MODEL", help="The model.  [default: the setting model]")
@click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    default="edits",
    show_default=True,
    help="What the agent may do; nobody is there to be asked, so what is not allowed is declined.",
)
@click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose rules, agent settings, hooks and MCP servers load. A project's run code.  [default: the setting trust]",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    default="30m",
    show_default=True,
    help="Of one run; then it is resumed. none: no limit.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Jobs of one key (200 characters) run one at a time, in the order they were submitted.  [default: none]",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="After trouble that may pass, or a new session that is full or broken, in a row.",
)
@click.option(
    "--max-resumes",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Of one session; then the job starts over in a fresh one.",
)
@click.option(
    "--max-age",
    metavar="DURATION",
    help="A session older than this, from its last event, is left for a fresh one. none: it may be any age."
    "  [default: the setting max_age, else 1h]",
)
@click.option(
    "--max-runs", type=click.IntRange(1, 1000), default=50, show_default=True, help="In all; then the job has failed."
)
@click.option("--delay", metavar="DURATION", help="Do not begin before so long from now.  [default: at once]")
@click.option(
    "--deadline",
    metavar="WHEN",
    help="Give up then: a duration from now (2h), a time (18:30), or a date and time (2026-01-31T18:30), by this "
    "machine's clock unless a zone is named.  [default: never]",
)
@click.option(
    "--checkpoint/--no-checkpoint",
    default=False,
    show_default=True,
    help="Keep the work tree in refs/clew/jobs/ID as the job goes on; wants a git repository.",
)
@click.option("--wait", is_flag=True, help="Wait for the end and print the result. Without a worker, run it here.")
@click.option("--json", "as_json", is_flag=True, help="Print the job as an object.")
def submit(prompt: str | None, wait: bool, as_json: bool, **options: Any) -> int:
    """Submit a job, and print its id. A worker (`clew work`, `clew serve --work`) takes it up.

    PROMPT is the argument, or stdin when it is - or left out. The job is on disk when this returns, and outlives
    time-outs, crashes and lost workers. With --wait stdout gets the result instead, and the exit code is 0 when the
    job succeeded; 1 when it failed, 2 when its files are in conflict, 3 when the agent is not installed, 4 when it is
    blocked until somebody logs in, 5 after a usage limit, 6 when its time was over, 7 when it was cancelled, 10 when it
    is blocked because the account has no credit left.

    A DURATION is 90s, 30m, 2h, 7d or 1h30m; a bare number is seconds.

    \b
      clew jobs submit "Bring the tests to pass."
      clew jobs submit --cwd ~/shop --key shop --checkpoint --deadline 18:30 - < task.md
      clew jobs submit --wait --json "Sum up CHANGELOG.md." | jq -r .result
    """
    from clew.cli.ask import read_stdin

    text = read_stdin("prompt") if prompt is None or prompt == "-" else prompt
    limits, delay_s = _limits(options), _duration("--delay", options.pop("delay"))

    async def work(client: Client) -> int:
        from clew.api import jobs
        from clew.core.jobs.job import SUBMITTED

        wanted = jobs.JobOptions(text, options.pop("cwd") or ".", limits=limits, delay_s=delay_s, **options)
        alive = await jobs.workers(client, SUBMITTED)
        if wait and not alive:
            client.engine.find(wanted.agent or client.settings.of("agent"))  # raises what is missing; no job is left
        job = await jobs.submit(client, wanted)
        _tell_circumstances(wanted)
        if wait:
            from clew.cli.jobs.watch import wait_for

            here = "" if alive else " here: no worker is alive"
            note(f"job {job.id[:SHORT_ID]} runs{here}")
            return await wait_for(client, job, as_json=as_json, in_place=not alive)
        if as_json:
            print_json((await jobs.view_job(client, job.id)).to_json(stamp))
        else:
            say(job.id)
            note(f"queued; clew jobs watch {job.id[:SHORT_ID]} shows how it goes")
        if not alive:
            note(f"no worker is alive to take it up: {jobs.START_A_WORKER}; or submit with --wait to run it here")
        return 0

    return with_client(work, work_dir=options["cwd"])


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    max_age = options.pop("max_age")
    return {
        "timeout_s": _duration("--timeout", options.pop("timeout")),
        **{name: options.pop(name) for name in ("retries", "max_resumes", "max_runs")},
        **({} if max_age is None else {"max_age_s": _duration("--max-age", max_age)}),
        "deadline_at": _deadline(options.pop("deadline"), time.time()),
    }


def _duration(option: str, given: str | None) -> float | None:
    return None if given is None else seconds(option, given, none=True)


def _deadline(given: str | None, now: float) -> float | None:
    """A duration, a time of the day (the next that comes), or a date and time; without a zone, this machine's."""
    from datetime import datetime

    from clew.config import duration

    if given is None:
        return None
    try:
        lasts = duration(given)
        return None if lasts is None else now + lasts
    except ValueError:
        pass
    try:
        if "T" not in given and "-" not in given:
            today = datetime.fromtimestamp(now).strftime("%Y-%m-%d")
            at = datetime.fromisoformat(f"{today}T{given}").timestamp()
            return at if at > now else at + DAY_S
        at = datetime.fromisoformat(given).timestamp()
    except ValueError:
        raise UsageError(
            f"--deadline {given} is neither a duration nor a time.", hint="Write 2h, 18:30, or 2026-01-31T18:30."
        ) from None
    if at <= now:
        raise UsageError(f"--deadline {given} is over already.")
    return at


def _tell_circumstances(wanted: Any) -> None:
    """What holds for this job and may not be what one thinks."""
    import os

    if os.path.realpath(wanted.cwd) != os.path.realpath("."):
        note(f"in {harmless(os.path.realpath(wanted.cwd))}")
    if wanted.permissions == "all":
        note("warning: --permissions all: the agent may do anything there without asking")
    if wanted.trust == "project":
        note(
            "warning: --trust project: the directory's own agent settings, hooks and MCP servers load and may run code"
        )
