"""Shows a round of a review to the user: a status line while it runs, then its findings and verdicts."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from clew.cli.ui.formatting import harmless, joined, one_line, plural
from clew.cli.ui.printing import has_colours
from clew.cli.ui.run_display import RunDisplay, fresh_words, resumed_words, usage_words
from clew.core.reviews.review import FileChange, Finding, FindingState, ReviewRound, Severity, findings_of
from clew.core.runs import events

if TYPE_CHECKING:
    from clew.api.reviews import ReviewState

TITLE_CHARS = 300
WHERE_CHARS = 200
NAMED_FILES = 5
INDENT = "    "
COLOURS = {Severity.CRITICAL: "red", Severity.HIGH: "red", Severity.MEDIUM: "yellow"}


class RoundDisplay(RunDisplay):
    """Prints nothing on stdout: the answer is an object, which is shown when it is complete."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent, as_json=True)
        self._phase = "starting"
        self._tools_run = 0
        self._tokens = 0
        self._written_chars = 0

    def line(self) -> str:
        """`running Read: src/a.py · 5 tools · 22,135 tokens · 812 characters written`"""
        return joined(
            self._phase,
            plural(self._tools_run, "tool") if self._tools_run else "",
            f"{self._tokens:,} tokens" if self._tokens else "",
            f"{plural(self._written_chars, 'character')} written" if self._written_chars else "",
        )

    def show(self, event: events.Event) -> None:
        match event:
            case events.AttemptStarted():
                self._written_chars = 0
            case events.ToolStarted():
                self._tools_run += 1
            case events.TextStreamed():
                self._written_chars += len(event.text)
                self._doing("answering")
            case events.RunEnded():
                self._tokens += event.usage.shown_tokens + event.usage.output_tokens
                self._doing("reading the answer")
            case events.FellBack():
                return  # the closing line of the round reports the fallback
        super().show(event)

    def _doing(self, what: str) -> None:
        self._phase = what
        super()._doing(self.line())


def _session_words(round_: ReviewRound) -> str | None:
    """`resumed`, or `fresh` and why. None: the round ended before a decision was made."""
    if round_.session_resumed:
        return resumed_words(round_.reason)
    if round_.reason is None or round_.reason == "imported":
        return round_.reason
    return fresh_words(round_.reason, fallback=round_.fallback)


def closing_line(round_: ReviewRound) -> str:
    """`round 2 of 2026-11-15-001 · resumed · 12,345 tokens (12,000 cached) · $0.0123`"""
    return f"round {round_.number} of {round_.review_id} · {result_words(round_)}"


def result_words(round_: ReviewRound) -> str:
    return joined(
        _session_words(round_) or round_.status.value,
        usage_words(round_.usage, round_.cost_usd),
        "asked twice for a valid answer" if round_.runs > 1 else "",
    )


def cut_line(changes: Iterable[FileChange]) -> str | None:
    """Names the files that the reviewer was shown only in part. None: there are none."""
    short = [f"{one_line(change.path, WHERE_CHARS)} ({change.left_out})" for change in changes if change.left_out]
    if not short:
        return None
    more = f" and {len(short) - NAMED_FILES} more" if len(short) > NAMED_FILES else ""
    return f"shown only in part: {', '.join(short[:NAMED_FILES])}{more}; the reviewer is asked to read them"


def round_lines(state: ReviewState, round_: ReviewRound) -> list[str]:
    """The result of a round: its summary, its findings, its verdicts on earlier findings, and how many there are."""
    answer = round_.answer
    if answer is None:
        return []
    before = {each.id: each for each in findings_of([each for each in state.rounds if each.number < round_.number])}
    lines = [*_paragraph(answer.summary, ""), ""] if answer.summary else []
    lines += finding_lines(answer.findings)
    judged = [(before[verdict.id], verdict) for verdict in answer.earlier if verdict.id in before]
    if judged:
        lines += ["Earlier findings:", ""]
        for finding, verdict in judged:
            lines += [_head(finding, verdict.state.value), *_paragraph(verdict.note, INDENT), ""]
    found = f"{_counted(answer.findings, 'finding')}." if answer.findings else "No findings."
    if round_.number > 1 and before:
        after = findings_of([each for each in state.rounds if each.number <= round_.number])
        found = (
            f"{_counted(answer.findings, 'new finding') if answer.findings else 'No new findings'}; {states(after)}."
        )
    return [*lines, found]


def states(findings: Sequence[Finding]) -> str:
    """`2 open, 1 fixed`"""
    counts = Counter(finding.state for finding in findings)
    return ", ".join(f"{counts[state]:,} {state}" for state in FindingState if counts[state]) or "none"


def finding_lines(findings: Iterable[Finding], *, with_note: bool = False) -> list[str]:
    """The most severe finding first. Text that a model wrote cannot control the terminal, and stays indented."""
    lines: list[str] = []
    for finding in sorted(findings, key=lambda each: each.severity.rank):
        lines += [_head(finding, finding.severity.value), *_paragraph(finding.detail, INDENT)]
        lines += _paragraph(f"Suggestion: {finding.suggestion}", INDENT) if finding.suggestion else []
        if with_note and finding.note:
            lines += _paragraph(f"Round {finding.state_round}: {finding.note}", INDENT)
        lines.append("")
    return lines


def _head(finding: Finding, word: str) -> str:
    """`F1 high  src/a.py:12  Title`"""
    where = one_line(f"{finding.file}:{finding.line}" if finding.line else finding.file or "", WHERE_CHARS)
    marked = _styled(f"{finding.id} {word}", COLOURS.get(finding.severity) if word == finding.severity else None)
    return "  ".join(part for part in (marked, where, one_line(finding.title, TITLE_CHARS)) if part)


def _counted(findings: Sequence[Finding], word: str) -> str:
    """`3 findings: 1 high, 2 low`"""
    counts = Counter(finding.severity for finding in findings)
    each = ", ".join(f"{counts[severity]:,} {severity}" for severity in Severity if counts[severity])
    return f"{plural(len(findings), word)}: {each}"


def _paragraph(text: str, indent: str) -> list[str]:
    """The lines of the text, indented; on a terminal they are wrapped between words."""
    width = max(40, shutil.get_terminal_size().columns - 1) if sys.stdout.isatty() else None
    lines: list[str] = []
    for line in harmless(text).splitlines():
        if width is not None and len(indent) + len(line) > width:
            lead = indent + line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(line.strip(), width, initial_indent=lead, subsequent_indent=lead)
        else:
            lines.append(f"{indent}{line}".rstrip())
    return lines


def _styled(text: str, colour: str | None) -> str:
    return click.style(text, bold=True, fg=colour) if has_colours(sys.stdout) else text
