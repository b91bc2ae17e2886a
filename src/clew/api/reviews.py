"""Reviews for surfaces: start a review, import one, and show it as a wire shape, Markdown or SARIF."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from clew import __version__, errors
from clew.api.thread import choice
from clew.api.wire import reviews as wire
from clew.api.wire import tools
from clew.api.wire.failures import Failure
from clew.api.wire.usage import Usage
from clew.core.record import Record
from clew.core.reviews.review import (
    Finding,
    FindingState,
    Review,
    ReviewRound,
    RoundStatus,
    Scope,
    Severity,
    findings_of,
)
from clew.core.reviews.sarif import sarif_log
from clew.errors import ClewError, StoreError, UsageError
from clew.hosts.reviews.imports import importing
from clew.hosts.reviews.imports.importing import ImportedReview as ImportedReview
from clew.hosts.reviews.reviews import LiveRound as LiveRound
from clew.hosts.reviews.reviews import ReviewSpec
from clew.hosts.reviews.reviews import ReviewState as ReviewState
from clew.hosts.reviews.reviews import RoundOptions as RoundOptions
from clew.hosts.validation import named_path

if TYPE_CHECKING:
    from clew.api.client import Client

NO_HINTS: Mapping[str, str] = MappingProxyType({})


class ReviewOptions(Record):
    """What a review is started with; None: the default from the settings."""

    cwd: str
    paths: tuple[str, ...] = ()
    base: str | None = None
    scope: str | None = None
    agent: str | None = None
    model: str | None = None
    focus: str = ""
    resume: bool | None = None
    timeout_s: float | None = None


async def start(client: Client, options: ReviewOptions) -> LiveRound:
    """Starts a review. When this returns, it is stored and its first round runs. The settings have the defaults."""
    settings = client.settings
    agent = options.agent or settings.of("agent")
    return await client.reviews.start(
        ReviewSpec(
            cwd=options.cwd,
            agent=agent,
            model=options.model or settings.model_of(agent),
            paths=options.paths,
            scope=choice(Scope, options.scope or Scope.ALL),
            base=options.base,
            focus=options.focus,
            resume=options.resume,
            timeout_s=options.timeout_s,
        )
    )


async def import_file(
    client: Client, source: str | Path | Mapping[str, bytes], cwd: str | None = None
) -> ImportedReview:
    """Imports a review that another tool kept. Stores all of it or nothing.

    `source` is the path of a file or of a session's folder, or the contents of files by their names: one file, or those
    of a session as they are named in its folder. `cwd` is where the other tool ran the agent. A path has a default for
    it: what the file says, the project whose `.reviews` folder holds the file, or the current directory. Raises
    UsageError, also for a file of which nothing was understood, and Conflict when there is a review of that id."""
    model = client.settings.model_of(importing.AGENT)
    if not isinstance(source, Mapping):
        path = source if isinstance(source, Path) else named_path(source)
        return await importing.import_path(client.engine, path, cwd, model=model)
    if cwd is None:
        raise UsageError("cwd is missing.", hint="Name the directory in which the other tool ran the agent.")
    return await importing.import_files(client.engine, source, cwd, model=model)


def imported_review(made: ImportedReview) -> wire.ImportedReview:
    return wire.ImportedReview.of(made, id=made.review_id, sessions=dict(made.sessions))


def check_agrees(
    review: Review,
    *,
    cwd: str | None = None,
    paths: Sequence[str] = (),
    base: str | None = None,
    scope: str | None = None,
    focus: str | None = None,
) -> None:
    """Raises UsageError for options that differ from those of the review: a further round compares the same things."""
    at = None if cwd is None else Path(os.path.realpath(cwd))
    same = {
        "cwd": at is None or at.is_relative_to(os.path.realpath(review.top)),
        "paths": not paths or set(paths) == set(review.paths),
        "base": base in (None, review.base),
        "scope": scope in (None, review.scope.value),
        "focus": (focus or "").strip() in ("", review.focus),
    }
    for name, agrees in same.items():
        if not agrees:
            raise UsageError(
                f"Review {review.id} has another {name}.",
                hint=f"Leave {name} out for its next round, or start another review.",
            )


_ERRORS: dict[str, type[ClewError]] = {
    kind.code: kind
    for kind in (
        *(errors.UsageError, errors.AgentMissing, errors.AuthFailed, errors.UsageLimit, errors.BillingFailed),
        *(errors.TimedOut, errors.Cancelled, errors.AgentFailed, errors.WrongModel, errors.Busy),
    )
}


def error_of(round_: ReviewRound) -> ClewError | None:
    """Why a round failed; None: it did not."""
    if round_.status is not RoundStatus.FAILED:
        return None
    message = round_.error or "The round failed."
    if round_.error_code == StoreError.code:
        return StoreError(message, kind="unreachable", hint=round_.hint)
    return _ERRORS.get(round_.error_code or "", errors.AgentFailed)(message, hint=round_.hint)


def round_shape(round_: ReviewRound, hints: Mapping[str, str] = NO_HINTS) -> wire.Round:
    """`hints` replace those of errors with these codes: a hint may name a command, which a page cannot call."""
    answer, error = round_.answer, error_of(round_)
    return wire.Round.of(
        round_,
        id=round_.review_id,
        round=round_.number,
        summary=answer.summary if answer else None,
        findings=[wire.Finding.of(finding) for finding in answer.findings] if answer else [],
        earlier=[wire.Verdict.of(verdict) for verdict in answer.earlier] if answer else [],
        files=[wire.FileChange.of(change) for change in round_.changes],
        usage=Usage.of(round_.usage),
        error=None if error is None else Failure.of(error, hint=hints.get(error.code, error.hint)),
    )


def review_note(state: ReviewState) -> wire.ReviewNote:
    return wire.ReviewNote.of(state.review, state.thread, **_summary(state, findings_of(state.rounds)))


def review_shape(state: ReviewState, sessions: Mapping[str, str], hints: Mapping[str, str] = NO_HINTS) -> wire.Review:
    """The whole review: every finding in its present state, every round."""
    findings = findings_of(state.rounds)
    return wire.Review.of(
        state.review,
        state.thread,
        **_summary(state, findings),
        sessions=dict(sessions),
        findings=[wire.Finding.of(finding) for finding in findings],
        rounds=[round_shape(round_, hints) for round_ in state.rounds],
    )


def _summary(state: ReviewState, findings: Sequence[Finding]) -> dict[str, Any]:
    last = state.last
    opened = [finding.severity for finding in findings if finding.state is FindingState.OPEN]
    return {
        "status": last.status if last is not None else None,
        "round": last.number if last is not None else 0,
        "cwd": state.review.top,
        "thread": state.thread.name,
        "open": len(opened),
        "open_by_severity": {each.value: opened.count(each) for each in Severity if each in opened},
        "cost_usd": sum(round_.cost_usd for round_ in state.rounds),
    }


def round_result(state: ReviewState, round_: ReviewRound) -> tools.RoundResult:
    """A round for an agent, with the earlier findings that are still open."""
    found, error = findings_of(state.rounds), error_of(round_)
    return tools.RoundResult.of(
        round_,
        round=round_.number,
        summary=round_.answer.summary if round_.answer else None,
        findings=[wire.Finding.of(each) for each in found if each.round == round_.number],
        still_open=[
            wire.Finding.of(each) for each in found if each.round < round_.number and each.state is FindingState.OPEN
        ],
        files=[change.path for change in round_.changes],
        usage=Usage.of(round_.usage),
        error=None if error is None else error.message,
    )


def review_result(state: ReviewState) -> tools.ReviewResult:
    return tools.ReviewResult.of(
        state.review,
        review_id=state.review.id,
        cwd=state.review.top,
        findings=[wire.Finding.of(each) for each in findings_of(state.rounds)],
        rounds=[round_result(state, round_) for round_ in state.rounds],
    )


def review_line(state: ReviewState) -> tools.ReviewLine:
    answers = [each.answer for each in state.rounds if each.status is RoundStatus.DONE and each.answer is not None]
    return tools.ReviewLine(
        review_id=state.review.id,
        cwd=state.review.top,
        rounds=len(state.rounds),
        status=state.last.status.value if state.last is not None else None,
        open=sum(each.state is FindingState.OPEN for each in findings_of(state.rounds)),
        summary=answers[-1].summary if answers else None,
    )


def sarif(review: Mapping[str, Any]) -> dict[str, Any]:
    """The whole review as a SARIF 2.1.0 log. `review` is the JSON object of a `wire.Review`, with its secrets blanked
    if they are to be: a secret cannot be blanked afterwards."""
    return sarif_log(review, __version__)


def markdown(state: ReviewState) -> str:
    """The whole review, for a pull request or a file. Text of a model or an author cannot break out of its block."""
    review = state.review
    findings = sorted(findings_of(state.rounds), key=lambda each: (each.severity.rank, int(each.id[1:])))
    lines = [f"# Review {review.id}", ""]
    about = f"{review.scope.value} changes" + (f" since {_code(review.base)}" if review.base else "")
    lines += [f"{about} in {_code(review.top)}, {len(state.rounds)} round(s).", ""]
    for status in FindingState:
        some = [finding for finding in findings if finding.state is status]
        if some:
            lines += [f"## {status.value.capitalize()} ({len(some)})", ""]
            for finding in some:
                lines += _finding_lines(finding)
    for round_ in state.rounds:
        lines += [f"## Round {round_.number}", ""]
        how = "resumed" if round_.session_resumed else f"fresh ({round_.reason})" if round_.reason else "not started"
        lines += [f"{round_.agent} {_code(round_.model) if round_.model else ''}, {how}.", ""]
        if round_.message:
            lines += ["The author:", "", *_block(round_.message), ""]
        if round_.answer is not None:
            lines += [*_block(round_.answer.summary), ""]
        elif round_.error:
            lines += ["It failed:", "", *_block(round_.error), ""]
    return "\n".join(lines).rstrip() + "\n"


def _finding_lines(finding: Finding) -> list[str]:
    where = f"{finding.file}:{finding.line}" if finding.line else finding.file
    lines = [f"### {finding.id} {finding.severity.value}: {_escaped(' '.join(finding.title.split()))}", ""]
    if where:
        lines += [f"{_code(where)}, found in round {finding.round}", ""]
    lines += [*_block(finding.detail), ""]
    if finding.suggestion:
        lines += ["**Suggestion:**", "", *_block(finding.suggestion), ""]
    if finding.note:
        lines += [f"Round {finding.state_round}:", "", *_block(finding.note), ""]
    return lines


def _block(text: str) -> list[str]:
    """The text as a quotation: a fence or a heading that it opens ends with the quotation."""
    return [f"> {_escaped(line)}" for line in text.splitlines()]


def _code(text: str) -> str:
    """The text as inline code on one line; its own backticks are replaced."""
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"


def _escaped(line: str) -> str:
    """The line without control characters, and with HTML tags escaped."""
    line = re.sub(r"<(?=[A-Za-z/!?])", r"\\<", line)
    return "".join(letter if letter.isprintable() or letter == "\t" else "\ufffd" for letter in line)
