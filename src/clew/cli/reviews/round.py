"""`clew review start` and `follow`: one round of a review, from its start to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import TIMEOUT, complete_review
from clew.cli.reviews.display import RoundDisplay, closing_line, cut_line, round_lines
from clew.cli.ui.formatting import agent_words, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.core.reviews.review import FindingState, ReviewRound, findings_of
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.reviews import LiveRound

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the round as one object.")
RESUME = click.option(
    "--resume/--no-resume",
    "resume",
    default=None,
    help="Whether this round may resume the model's session.  [default: the setting enable_resume]",
)


@click.command()
@click.argument("paths", metavar="[PATHS]...", nargs=-1, type=click.Path())
@click.option(
    "--base",
    metavar="REF",
    help="Compare with the commit where this branch left REF, so that its own commits are reviewed too.  "
    "[default: the last commit]",
)
@click.option("--staged", is_flag=True, help="Review only what is staged.")
@click.option("--unstaged", is_flag=True, help="Review only what is not staged, and new files.")
@click.option("--model", metavar="MODEL", help="The model that reviews.  [default: the setting model]")
@click.option("--agent", metavar="AGENT", help="The agent that reviews.  [default: the setting agent]")
@click.option("--focus", metavar="TEXT", default="", help="What the reviewer should look at most closely.")
@click.option(
    "--cwd", metavar="DIR", help="A directory of the repository; PATHS are relative to it.  [default: the current one]"
)
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
    """Review what has changed in a repository: everything that is not committed, or only PATHS.

    The reviewer may read files but not change them, and the repository's own agent settings are not loaded. The
    findings go to stdout, everything else to stderr. Ctrl-C stops the reviewer; the review is kept.

    \b
      clew review start                             everything that is not committed, and new files
      clew review start --staged                    what the next commit would contain
      clew review start --base main src             what this branch changes in src
      clew review start --focus "races" --json | jq '.findings[].title'
    """
    if staged and unstaged:
        raise UsageError(
            "--staged and --unstaged cannot be given together.", hint="Give one of them, or neither to review both."
        )
    scope = "staged" if staged else "unstaged" if unstaged else None

    async def work(client: Client) -> int:
        from clew.api import reviews

        if options["focus"].strip():
            place = {"cwd": cwd, "agent": options["agent"]}
            options["focus"] = await client.expand(options["focus"], **place, permissions="read-only", trust="user")
        asked = reviews.ReviewOptions(cwd=cwd or ".", paths=paths, base=base, scope=scope, **options)
        return await _run_round(client, lambda: reviews.start(client, asked), as_json=as_json)

    return with_client(work, work_dir=cwd, timeout=timeout)


@click.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.argument("message", required=False)
@click.option(
    "--model", metavar="MODEL", help="The model that reviews; each has its own session.  [default: the review's]"
)
@click.option("--agent", metavar="AGENT", help="The agent that reviews.  [default: the review's]")
@RESUME
@TIMEOUT
@AS_JSON
def follow(review_id: str, message: str | None, timeout: str | None, as_json: bool, **options: Any) -> int:
    """Run the next round: review what has changed since the last one, and check the findings so far.

    ID is the id of a review, any unambiguous beginning of it, or `latest` for the newest one of this repository.
    MESSAGE is your reply to the reviewer; if it is -, it is read from stdin, and what is piped in beside it comes after
    it. If a round is already running, the exit code is 8.

    \b
      clew review follow latest
      clew review follow 2026-11-15-001 "F1 is fixed. F2 is intended: nobody calls it twice."
      clew review follow latest - < reply.md
      clew review follow latest --model opus        a second opinion; opus is shown the rounds so far
    """
    from clew.cli.ask import typed_text
    from clew.cli.stdin import read_parts

    typed, piped = read_parts(message, "message", "clew review follow ID") if message is not None else ("", "")

    async def work(client: Client) -> int:
        from clew.api.reviews import RoundOptions

        found_id = await client.reviews.resolve(review_id)
        top = (await client.reviews.find(found_id)).review.top
        place = {"cwd": top, "agent": options["agent"]}
        text = await typed_text(client, typed, piped, **place, permissions="read-only", trust="user")
        asked = RoundOptions(message=text.strip(), **options)
        return await _run_round(client, lambda: client.reviews.follow(found_id, asked), as_json=as_json)

    return with_client(work, timeout=timeout)


async def _run_round(client: Client, start: Callable[[], Awaitable[LiveRound]], *, as_json: bool) -> int:
    """Starts the round, shows it until it ends, and returns the exit code. Ctrl-C stops it gracefully."""
    from clew.cli.foreground_run import StopSignals

    display = RoundDisplay("the reviewer")
    stop = StopSignals(display)
    with stop.listening():
        stop.run = live = await start()
        _note_start(live)
        async with display:
            async for entry in live.events():
                display.show(entry.event)
            round_ = await live.finish()
    return await _conclude(client, round_, as_json=as_json)


def _note_start(live: LiveRound) -> None:
    round_, top = live.round, live.review.top
    if os.path.commonpath([top, os.path.realpath(".")]) != top:
        note(f"in {harmless(top)}")
    what = plural(len(round_.changes), "file")
    if round_.number > 1:
        changed = len(round_.changed_since)
        what = f"{plural(changed, 'file')} changed since the last one" if changed else "no file has changed"
    who = agent_words(round_.agent, round_.model)
    note(f"review {live.review.id}, round {round_.number}: {what}, {who}")
    cut = cut_line(round_.changes)
    if cut is not None:
        note(cut)


async def _conclude(client: Client, round_: ReviewRound, *, as_json: bool) -> int:
    from clew.api.reviews import error_of, round_shape
    from clew.cli.foreground_run import report_error

    error = error_of(round_)
    state = await client.reviews.find(round_.review_id)
    if as_json:
        print_json(round_shape(round_).to_json())
    else:
        for line in round_lines(state, round_):
            say(line)
        sys.stdout.flush()
    note(closing_line(round_))
    report_error(error)
    if error is not None:
        note(f"  clew review follow {round_.review_id} asks again")
        return error.exit_code
    if any(finding.state is FindingState.OPEN for finding in findings_of(state.rounds)):
        note(f'next: fix the findings, then clew review follow {round_.review_id} "what you did about them"')
    else:
        note(f"no finding is open; after more changes: clew review follow {round_.review_id}")
    return 0
