"""`clew review`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON
from clew.cli.reviews.files import export, import_
from clew.cli.reviews.round import complete_review, follow, start
from clew.cli.ui.printing import ago, dollars, harmless, lasted, note, one_line, plural, print_json, say, stamp
from clew.cli.ui.tables import columns
from clew.errors import NotFound, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.reviews import ReviewState
    from clew.core.reviews.review import Review, ReviewRound

HEADINGS = ["REVIEW", "ROUNDS", "STATUS", "OPEN", "MODEL", "STARTED", "COST", "ABOUT"]
ABOUT_CHARS = 60
SHOWN_CHARS = 200


@click.group(cls=SuggestingGroup)
def review() -> None:
    """Start, follow up, list, show, export and import reviews: rounds over what has changed in a repository.

    ID is a review's id as `review list` shows it, an unambiguous beginning of it, or `latest`: the newest of this
    repository.

    \b
      clew review start                                 what is not committed
      clew review follow latest "F1 is mended."         the next round: what has changed since
    """


for command in (start, follow, export, import_):
    review.add_command(command)


@review.command("list")
@click.option("--all", "everywhere", is_flag=True, help="Those of every repository, not of this one alone.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@AS_JSON
def list_(everywhere: bool, limit: int, as_json: bool) -> None:
    """List this repository's reviews, the newest first."""

    async def work(client: Client) -> None:
        top = None if everywhere else await _top(client)
        found = await client.reviews.list(top=top, limit=limit)
        if as_json:
            print_json([await _object(client, state) for state in found])
        elif not found:
            note("No reviews yet." if everywhere else "No reviews of this repository yet; --all lists every other.")
        else:
            tops = ["REPOSITORY", *(one_line(state.review.top, SHOWN_CHARS) for state in found)]
            table = [HEADINGS, *(_row(state) for state in found)]
            heading, *rows = [[*row, top] for row, top in zip(table, tops, strict=True)] if everywhere else table
            say(columns(heading, rows))

    with_client(work, reads=True)


async def _top(client: Client) -> str:
    try:
        return await client.reviews.top(".")
    except UsageError as error:
        raise UsageError(error.message, hint="Go to one, or list those of every repository with --all.") from error


@review.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.option("--round", "number", type=click.IntRange(1), metavar="N", help="One round, as it was shown at its end.")
@click.option("--diff", is_flag=True, help="What the round compared, as git words it.  [default: of the last round]")
@AS_JSON
def show(review_id: str, number: int | None, diff: bool, as_json: bool) -> None:
    """Show a review: every finding and what became of it, then its rounds.

    \b
      clew review show latest
      clew review show latest --round 1
      clew review show latest --diff | git apply --stat
    """

    async def work(client: Client) -> None:
        state = await client.reviews.find(await client.reviews.resolve(review_id))
        round_ = _round(state, number)
        text = await client.reviews.diff(state.review.id, round_.number) if diff and round_ is not None else None
        if as_json:
            shown = await _object(client, state, round_ if number is not None else None)
            print_json(shown if text is None else {**shown, "diff": text})
        elif text is not None:
            sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
            if not text:
                note("It is not known what the round compared." if state.review.imported_from else "Nothing differed.")
        elif number is not None and round_ is not None:
            _show_round(state, round_)
        else:
            await _show(client, state)

    with_client(work, reads=True)


def _round(state: ReviewState, number: int | None) -> ReviewRound | None:
    """The one that is meant, or the last."""
    if number is None:
        return state.last
    found = next((each for each in state.rounds if each.number == number), None)
    if found is None:
        there = plural(len(state.rounds), "round")
        raise NotFound(f"Review {state.review.id} has no round {number}.", hint=f"It has {there}.")
    return found


async def _object(client: Client, state: ReviewState, round_: ReviewRound | None = None) -> dict[str, Any]:
    from clew.api.reviews import review_json, round_json

    if round_ is not None:
        return round_json(round_, stamp)
    return review_json(state, await client.reviews.sessions(state), stamp)


def _row(state: ReviewState) -> list[str]:
    from clew.core.reviews.review import FindingState, findings_of

    findings, last = findings_of(state.rounds), state.last
    still = sum(finding.state is FindingState.OPEN for finding in findings)
    cost = sum(round_.cost_usd for round_ in state.rounds)
    return [
        state.review.id,
        str(len(state.rounds)),
        last.status.value if last is not None else "-",
        f"{still} of {len(findings)}" if findings else "-",
        one_line((last.model if last is not None else None) or state.thread.model or "-", 40),
        ago(state.review.created_at),
        dollars(cost) if cost else "-",
        one_line(_about(state.review), ABOUT_CHARS),
    ]


def _about(review: Review) -> str:
    """`staged changes in src`, `all changes since main`"""
    since = f" since {review.base}" if review.base else ""
    where = f" in {', '.join(review.paths)}" if review.paths else ""
    kept = " (imported)" if review.imported_from else ""
    return f"{review.scope} changes{since}{where}{kept}"


async def _show(client: Client, state: ReviewState) -> None:
    from clew.cli.reviews.display import finding_lines, states
    from clew.core.reviews.review import FindingState, findings_of

    review, findings = state.review, findings_of(state.rounds)
    sessions = await client.reviews.sessions(state)
    pairs = [
        ("review", f"{review.id}, {ago(review.created_at)}"),
        ("in", review.top),
        ("about", _about(review)),
        ("focus", review.focus),
        ("thread", state.thread.name),
        *(("session", f"{session} ({model})") for model, session in sessions.items()),
        ("imported", review.imported_from or ""),
        ("findings", states(findings)),
    ]
    for label, words in pairs:
        if words:
            say(f"{label:<11}{one_line(words, SHOWN_CHARS)}")
    for round_ in state.rounds:
        say(f"{f'round {round_.number}':<11}{_round_words(round_)}")
    for status in FindingState:
        some = [finding for finding in findings if finding.state is status]
        if some:
            say(f"\n{status.value.capitalize()}:\n")
            for line in finding_lines(some, with_note=True)[:-1]:
                say(line)


def _round_words(round_: ReviewRound) -> str:
    from clew.cli.reviews.display import facts

    who = one_line(" ".join(part for part in (round_.agent, round_.model) if part), 60)
    found = plural(len(round_.answer.findings), "finding") if round_.answer is not None else ""
    error = one_line(round_.error or "", SHOWN_CHARS)
    parts = (who, f"{round_.status}{lasted(round_.started_at, round_.ended_at)}", found, facts(round_), error)
    return " · ".join(part for part in parts if part)


def _show_round(state: ReviewState, round_: ReviewRound) -> None:
    from clew.cli.reviews.display import closing_line, round_lines

    if round_.message:
        for line in harmless(round_.message).splitlines():
            say(f"> {line}")
        say()
    for line in round_lines(state, round_):
        say(line)
    if round_.error:
        say(one_line(round_.error, SHOWN_CHARS))
    sys.stdout.flush()
    note(closing_line(round_))
