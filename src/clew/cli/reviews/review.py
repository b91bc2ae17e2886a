"""The command `clew review`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON, LIMIT, complete_review
from clew.cli.reviews.display import closing_line, finding_lines, result_words, round_lines, states
from clew.cli.reviews.files import export, import_
from clew.cli.reviews.round import follow, start
from clew.cli.ui.formatting import agent_words, ago, dollars, harmless, joined, lasted, one_line, plural
from clew.cli.ui.printing import for_terminal, note, print_json, say, say_fields
from clew.cli.ui.tables import columns
from clew.core.reviews.review import FindingState, findings_of
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
    """Review what has changed in a repository, in rounds: start, follow up, list, show, export and import reviews.

    ID is the id of a review as `review list` shows it, any unambiguous beginning of it, or `latest` for the newest one
    of this repository.

    \b
      clew review start                                 review what is not committed
      clew review follow latest "F1 is fixed."          the next round: what has changed since
    """


for command in (start, follow, export, import_):
    review.add_command(command)


@review.command("list")
@click.option("--all", "everywhere", is_flag=True, help="List the reviews of every repository.")
@LIMIT
@AS_JSON
@client_command(reads=True)
async def list_(client: Client, everywhere: bool, limit: int, as_json: bool) -> None:
    """List the reviews of this repository, the newest first."""
    top = None if everywhere else await _top(client)
    found = await client.reviews.list(top=top, limit=limit)
    if as_json:
        print_json([await _object(client, state) for state in found])
    elif not found:
        note("No reviews yet." if everywhere else "No reviews of this repository yet; --all lists all others.")
    else:
        rows = [_row(state) + ([one_line(state.review.top, SHOWN_CHARS)] if everywhere else []) for state in found]
        say(columns([*HEADINGS, "REPOSITORY"] if everywhere else HEADINGS, rows))


async def _top(client: Client) -> str:
    try:
        return await client.reviews.top(".")
    except UsageError as error:
        raise UsageError(
            error.message, hint="Change to one, or list the reviews of every repository with --all."
        ) from error


@review.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.option(
    "--round", "number", type=click.IntRange(1), metavar="N", help="Show this round as it was shown at its end."
)
@click.option("--diff", is_flag=True, help="Print the diff that was reviewed in round N.  [default: in the last round]")
@AS_JSON
@client_command(reads=True)
async def show(client: Client, review_id: str, number: int | None, diff: bool, as_json: bool) -> None:
    """Show a review: its rounds, and every finding with its state.

    \b
      clew review show latest
      clew review show latest --round 1
      clew review show latest --diff | git apply --stat
    """
    state = await client.reviews.find(await client.reviews.resolve(review_id))
    round_ = _round(state, number)
    text = await client.reviews.diff(state.review.id, round_.number) if diff and round_ is not None else None
    if as_json:
        shown = await _object(client, state, round_ if number is not None else None)
        print_json(shown if text is None else {**shown, "diff": text})
    elif text is not None:
        sys.stdout.write(for_terminal(text))
        if not text:
            note("It is not known what was reviewed." if state.review.imported_from else "Nothing differed.")
    elif number is not None and round_ is not None:
        _show_round(state, round_)
    else:
        await _show(client, state)


def _round(state: ReviewState, number: int | None) -> ReviewRound | None:
    """The round of that number; without a number, the last one. Raises NotFound."""
    if number is None:
        return state.last
    found = next((each for each in state.rounds if each.number == number), None)
    if found is None:
        hint = f"It has {plural(len(state.rounds), 'round')}."
        raise NotFound(f"Review {state.review.id} has no round {number}.", hint=hint)
    return found


async def _object(client: Client, state: ReviewState, round_: ReviewRound | None = None) -> dict[str, Any]:
    from clew.api.reviews import review_shape, round_shape

    if round_ is not None:
        return round_shape(round_).to_json()
    return review_shape(state, await client.reviews.sessions(state)).to_json()


def _row(state: ReviewState) -> list[str]:
    findings, last = findings_of(state.rounds), state.last
    open_ = sum(finding.state is FindingState.OPEN for finding in findings)
    cost = sum(round_.cost_usd for round_ in state.rounds)
    return [
        state.review.id,
        str(len(state.rounds)),
        last.status.value if last is not None else "-",
        f"{open_} of {len(findings)}" if findings else "-",
        one_line((last.model if last is not None else None) or state.thread.model or "-", 40),
        ago(state.review.created_at),
        dollars(cost) if cost else "-",
        one_line(_about(state.review), ABOUT_CHARS),
    ]


def _about(review: Review) -> str:
    """`staged changes in src`, `all changes since main`"""
    since = f" since {review.base}" if review.base else ""
    where = f" in {', '.join(review.paths)}" if review.paths else ""
    imported = " (imported)" if review.imported_from else ""
    return f"{review.scope} changes{since}{where}{imported}"


async def _show(client: Client, state: ReviewState) -> None:
    review, findings = state.review, findings_of(state.rounds)
    sessions = await client.reviews.sessions(state)
    fields = [
        ("review", f"{review.id}, {ago(review.created_at)}"),
        ("in", review.top),
        ("about", _about(review)),
        ("focus", review.focus),
        ("thread", state.thread.name),
        *(("session", f"{session} ({model})") for model, session in sessions.items()),
        ("imported", review.imported_from or ""),
        ("findings", states(findings)),
    ]
    say_fields((label, one_line(words, SHOWN_CHARS)) for label, words in fields)
    say_fields((f"round {round_.number}", _round_words(round_)) for round_ in state.rounds)
    for status in FindingState:
        some = [finding for finding in findings if finding.state is status]
        if some:
            say(f"\n{status.value.capitalize()}:\n")
            for line in finding_lines(some, with_note=True)[:-1]:
                say(line)


def _round_words(round_: ReviewRound) -> str:
    return joined(
        agent_words(round_.agent, round_.model),
        f"{round_.status}{lasted(round_.started_at, round_.ended_at)}",
        plural(len(round_.answer.findings), "finding") if round_.answer is not None else "",
        result_words(round_),
        one_line(round_.error or "", SHOWN_CHARS),
    )


def _show_round(state: ReviewState, round_: ReviewRound) -> None:
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
