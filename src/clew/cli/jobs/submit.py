"""The command `clew jobs submit`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import PLAIN, seconds
from clew.cli.ui.printing import note, print_json, say
from clew.core.durations import DAY_S
from clew.core.ids import SHORT_ID
from clew.core.jobs.job import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


WAIT = click.option(
    "--wait", is_flag=True, help="Wait for the end and print the result. If no worker is alive, run it here."
)


@click.command()
@click.argument("prompt", required=False)
@click.option("--cwd", metavar="DIR", help="The work directory.  [default: the current one]")
@click.option("--agent", metavar="AGENT", help="The agent.  [default: the setting agent]")
@click.option("--model", metavar="MODEL", help="The model.  [default: the setting model]")
@click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    default="edits",
    show_default=True,
    help="What the agent may do. Nobody can be asked, so everything else is declined.",
)
@click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose agent settings, hooks and MCP servers are loaded. Those of a project can run code.  "
    "[default: the setting trust]",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    default="30m",
    show_default=True,
    help="The time limit of one run; after it, the job is resumed in another run. none: no limit.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Jobs with the same key run one at a time, in the order they were submitted. At most 200 characters.  "
    "[default: none]",
)
@click.option(
    "--priority",
    type=click.IntRange(MOST_URGENT, LEAST_URGENT),
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="Which of the jobs that wait starts first: 1 is the most urgent. It changes no order within a key.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="How often in a row to retry after a temporary failure, or after a new session that is full or broken.",
)
@click.option(
    "--max-resumes",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="How often to resume one session; after that, the job continues in a fresh one.",
)
@click.option(
    "--max-age",
    metavar="DURATION",
    help="Start a fresh session if the last event of the old one is longer ago than this. none: never.  "
    "[default: the setting max_age, else 1h]",
)
@click.option(
    "--max-runs",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="How many runs the job may have in all; after that, it has failed.",
)
@click.option("--delay", metavar="DURATION", help="Start no earlier than this long from now.  [default: at once]")
@click.option(
    "--deadline",
    metavar="WHEN",
    help="When to give up: a duration from now (2h), a time (18:30), or a date and time (2026-01-31T18:30), in this "
    "machine's time zone unless another one is given.  [default: never]",
)
@click.option(
    "--checkpoint/--no-checkpoint",
    default=False,
    show_default=True,
    help="Save the work tree in refs/clew/jobs/ID while the job runs; needs a git repository.",
)
@WAIT
@PLAIN
@click.option("--json", "as_json", is_flag=True, help="Print the job as an object.")
def submit(prompt: str | None, wait: bool, as_json: bool, **options: Any) -> int:
    """Submit a job, and print its id. A worker (`clew work` or `clew serve --work`) runs it.

    Without PROMPT, or if it is -, the prompt is read from stdin; what is piped in beside a PROMPT comes after it. When
    the command returns, the job is on disk: it survives time-outs, crashes and lost workers. With --wait, the result is
    printed on stdout instead, and the exit code is 0 if the job succeeded; 1 if it failed, 2 if its files are in
    conflict, 3 if the agent is not installed, 4 if it is blocked until somebody logs in, 5 after a usage limit, 6 if
    its time ran out, 7 if it was cancelled, 10 if it is blocked because the account has no credit left.

    A DURATION is 90s, 30m, 2h, 7d or 1h30m; a bare number is seconds.

    \b
      clew jobs submit "Make the tests pass."
      clew jobs submit --cwd ~/shop --key shop --checkpoint --deadline 18:30 - < task.md
      clew jobs submit --wait --json "Sum up CHANGELOG.md." | jq -r .result
    """
    from clew.cli.ask import typed_text
    from clew.cli.stdin import read_parts

    typed, piped = read_parts(prompt, "prompt", "clew jobs submit")
    limits = _limits(options)
    delay_s = _duration("--delay", options.pop("delay"))

    async def work(client: Client) -> int:
        from clew.api import jobs
        from clew.cli.foreground_run import note_context
        from clew.core.jobs.job import SUBMITTED

        place = {name: options[name] for name in ("cwd", "agent", "trust")}
        text = await typed_text(client, typed, piped, **place, permissions=options["permissions"] or "edits")
        asked = jobs.JobOptions(text, options.pop("cwd") or ".", limits=limits, delay_s=delay_s, **options)
        alive = await jobs.workers(client, SUBMITTED)
        if wait and not alive:  # if the agent is missing, this raises before a job is stored
            client.check_agent(asked.agent)
        job = await jobs.submit(client, asked)
        note_context(job.cwd, job.permissions, asked.trust)
        if wait:
            from clew.cli.jobs.watch import wait_for

            here = "" if alive else " here: no worker is alive"
            note(f"job {job.id[:SHORT_ID]} runs{here}")
            return await wait_for(client, job, as_json=as_json, in_place=not alive)
        if as_json:
            print_json((await jobs.view_job(client, job.id)).to_json())
        else:
            say(job.id)
            note(f"queued; clew jobs watch {job.id[:SHORT_ID]} shows its progress")
        if not alive:
            note(f"no worker is alive to run it: {jobs.START_A_WORKER}; or submit with --wait to run it here")
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
    """The deadline in epoch seconds. A time of day that has passed today means tomorrow."""
    from datetime import datetime

    from clew.api.settings import duration

    if given is None:
        return None
    try:
        span_s = duration(given)
        return None if span_s is None else now + span_s
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
        raise UsageError(f"--deadline {given} has already passed.")
    return at
