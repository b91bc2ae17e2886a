"""`clew review start` and `follow`: a round, from its start to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import TIMEOUT
from clew.cli.ui.printing import harmless, note, plural, print_json, say, stamp
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.reviews import LiveRound
    from clew.core.reviews.review import ReviewRound

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the round as one object instead.")
RESUME = click.option(
    "--resume/--no-resume",
    "resume",
    default=None,
    help="Whether the model's session may be gone on with, this once.  [default: the setting enable_resume]",
)


def complete_review(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Ids of reviews for the shell, the newest first. Never makes a store, never complains."""
    from clew import config
    from clew.errors import ClewError

    async def ids(client: Client) -> list[str]:
        return await client.engine.store.call(lambda store: [review.id for review in store.reviews.newest(limit=1000)])

    try:
        if not (config.home(os.environ) / "clew.db").exists():
            return []
        known = ["latest", *with_client(ids, quiet=True, reads=True)]
    except (ClewError, OSError):
        return []
    return [each for each in known if each.startswith(incomplete)]


@click.command()
@click.argument("paths", metavar="[PATHS]...", nargs=-1, type=click.Path())
@click.option(
    "--base",
    metavar="REF",
    help="Compare with where this branch left REF, so that what is committed since is looked at too.  "
    "[default: the last commit]",
)
@click.option("--staged", is_flag=True, help="Only what is staged.")
@click.option("--unstaged", is_flag=True, help="Only what is not staged, and new files.")
@click.option("--model", metavar="MODEL", help="Who reviews.  [default: the setting model]")
@click.option("--agent", metavar="AGENT", help="By which agent.  [default: the setting agent]")
@click.option("--focus", metavar="TEXT", default="", help="What to look at above all.")
@click.option("--cwd", metavar="DIR", help="A directory of the repository; PATHS start there.  [default: this one]")
@RESUME
@TIMEOUT
@AS_JSON
def start(
    paths: tuple[str, ...],
    base: str | None,
    staged: bool,
    unstaged: bool,
    cwd: str | None,
    timeout: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Review what has changed in a repository: all that is not committed, or only PATHS of it.

    The reviewer may read files and change none, and the repository's own agent settings do not load. The findings go
    to stdout, everything else to stderr. Ctrl-C stops the reviewer; the review is kept.

    \b
      clew review start                             all that is not committed, new files too
      clew review start --staged                    what the next commit would hold
      clew review start --base main src             what this branch changes in src
      clew review start --focus "races" --json | jq '.findings[].title'
    """
    if staged and unstaged:
        raise UsageError("--staged and --unstaged say two things.", hint="Give one of them, or neither for both.")
    scope = "staged" if staged else "unstaged" if unstaged else None

    async def work(client: Client) -> int:
        from clew.api import reviews

        asked = reviews.ReviewOptions(cwd=cwd or ".", paths=paths, base=base, scope=scope, **options)
        return await _carry_out(client, lambda: reviews.start(client, asked), as_json=as_json)

    return with_client(work, work_dir=cwd, timeout=timeout)


@click.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.argument("message", required=False)
@click.option("--model", metavar="MODEL", help="Who reviews; each model has its own session.  [default: the review's]")
@click.option("--agent", metavar="AGENT", help="By which agent.  [default: the review's]")
@RESUME
@TIMEOUT
@AS_JSON
def follow(review_id: str, message: str | None, timeout: str | None, as_json: bool, **options: Any) -> int:
    """The next round: what has changed since the last one, and what became of the findings.

    ID is a review's id, an unambiguous beginning of it, or `latest`: the newest of this repository. MESSAGE is your
    reply to the reviewer; - reads it from stdin. Exits with 8 when a round is going on.

    \b
      clew review follow latest
      clew review follow 2026-11-15-001 "F1 is mended. F2 is meant so: nobody calls it twice."
      clew review follow latest - < reply.md
      clew review follow latest --model opus        a second opinion; it is told of the rounds so far
    """
    text = _stdin() if message == "-" else message or ""

    async def work(client: Client) -> int:
        from clew.api.reviews import RoundOptions

        found_id = await client.reviews.resolve(review_id)
        asked = RoundOptions(message=text.strip(), **options)
        return await _carry_out(client, lambda: client.reviews.follow(found_id, asked), as_json=as_json)

    return with_client(work, timeout=timeout)


def _stdin() -> str:
    from clew.cli.ask import MAX_INPUT_BYTES, as_text

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("There is no message.", hint="Give it as an argument, or on stdin: … follow ID - < file.")
    return as_text(sys.stdin.buffer.read(MAX_INPUT_BYTES), "stdin")


async def _carry_out(client: Client, begin: Callable[[], Awaitable[LiveRound]], *, as_json: bool) -> int:
    """Begins the round, shows it to its end, and returns the exit code. Ctrl-C stops it gently."""
    from clew.cli.foreground_run import StopSignals
    from clew.cli.reviews.display import RoundDisplay

    display = RoundDisplay("the reviewer")
    stop = StopSignals(display)
    with stop.listening():
        live = await begin()
        stop.run = live
        _tell_begun(live)
        display.start()
        try:
            async for noted in live.events():
                display.show(noted.event)
            round_ = await live.finish()
        finally:
            await display.close()
    return await _conclude(client, round_, as_json=as_json)


def _tell_begun(live: LiveRound) -> None:
    from clew.cli.reviews.display import cut_line

    round_, top = live.round, live.review.top
    if os.path.commonpath([top, os.path.realpath(".")]) != top:
        note(f"in {harmless(top)}")
    what = plural(len(round_.changes), "file")
    if round_.number > 1:
        changed = len(round_.changed_since)
        what = f"{plural(changed, 'file')} changed since the last one" if changed else "no file has changed"
    who = " ".join(part for part in (round_.agent, round_.model) if part)
    note(harmless(f"review {live.review.id}, round {round_.number}: {what}, {who}"))
    cut = cut_line(round_.changes)
    if cut is not None:
        note(cut)


async def _conclude(client: Client, round_: ReviewRound, *, as_json: bool) -> int:
    from clew.api.reviews import error_of, round_json
    from clew.cli import error_report
    from clew.cli.reviews.display import closing_line, round_lines
    from clew.core.reviews.review import FindingState, findings_of

    error = error_of(round_)
    state = await client.reviews.find(round_.review_id)
    if as_json:
        print_json(round_json(round_, stamp))
    else:
        for line in round_lines(state, round_):
            say(line)
        sys.stdout.flush()
    note(closing_line(round_))
    if error is not None:
        error_report.print_error(error)
        note(f"  clew review follow {round_.review_id} asks again")
        return error.exit_code
    if any(finding.state is FindingState.OPEN for finding in findings_of(state.rounds)):
        note(f'next: mend it, then clew review follow {round_.review_id} "what you did about it"')
    else:
        note(f"nothing is open; after more changes: clew review follow {round_.review_id}")
    return 0
