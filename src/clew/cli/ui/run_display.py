"""Shows a run to the user: the answer on stdout, the progress and the outcome on stderr."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Self, TextIO

from clew.cli.ui.answer_printer import answer_printer
from clew.cli.ui.formatting import joined, local_time, one_line, price
from clew.cli.ui.printing import dim, note
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.decision import MEANING, Reason
from clew.core.ids import SHORT_ID
from clew.core.runs import events

if TYPE_CHECKING:
    from clew.api.client import Reply
    from clew.cli.ui.status_line import StatusLine
    from clew.core.runs.run import Run
    from clew.core.runs.tool_calls import ToolLog

WARNING_CHARS = 500
GOOD_NEWS = frozenset({"outside_turns"})  # codes of warnings that only report: turns came in, as they should
WITHDRAWN = "(the connection broke; the agent starts this part again)"


class RunDisplay:
    """Shows events as they arrive. `as_json`: stdout stays empty until the final object is printed."""

    def __init__(self, agent: str, *, as_json: bool) -> None:
        self._agent = agent
        self._answer = None if as_json else answer_printer()
        self._status: StatusLine | None = None
        self._tools: ToolLog | None = None
        if sys.stderr.isatty():
            from clew.cli.ui.status_line import StatusLine
            from clew.core.runs.tool_calls import ToolLog

            self._status = StatusLine(self._answer.preload) if self._answer is not None else StatusLine()
            self._tools = ToolLog()
        self._shares_terminal = self._answer is not None and sys.stdout.isatty()
        self._feeds_pipe = self._answer is not None and _is_pipe(sys.stdout)
        self._asking = False
        self._warnings: set[str] = set()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        if self._status is not None:
            self._status.start()

    async def close(self) -> None:
        if self._status is not None:
            await self._status.close()
        if self._answer is not None:
            self._answer.end()

    def show(self, event: events.Event) -> None:
        finished = self._tools.feed(event) if self._tools is not None else None
        if finished is not None:
            from clew.cli.ui.tool_lines import tool_line

            self.note(dim(tool_line(finished)))
        match event:
            case events.RunQueued():
                self._queued(event)
            case events.AttemptStarted():
                self._attempt(event)
            case events.SessionStarted() | events.ToolFinished():
                self._doing("thinking")
            case events.TextStreamed() | events.MessageSaid() | events.TextWithdrawn():
                self._text(event)
            case events.ToolStarted():
                self._tool(event)
            case events.AgentRetried():
                error = one_line(event.error, 60)
                self._doing(f"the API failed ({error}); retry {event.attempt} in {event.delay_s:.0f} s")
            case events.Compacted():
                self._doing("thinking (the agent has compacted its context)")
            case events.FellBack():
                shown = "a transcript cut to fit" if event.reason == Reason.OVERFLOW else "the whole transcript"
                self.note(f"{meaning(event.reason)}: continuing with a fresh session and {shown}")
            case events.Warned() if event.message not in self._warnings:
                self._warnings.add(event.message)
                self.note(one_line(warning_words(event), WARNING_CHARS))

    def begin_question(self) -> None:
        """Hides the status line, since a question is about to be printed."""
        self._clear_line()
        self._asking = True

    def drop_question(self) -> None:
        """Ends the line of a question that is no longer open: it was answered elsewhere, or its run ends."""
        if self._asking:
            note("")

    def end_question(self) -> None:
        self._asking = False
        self._doing("thinking")

    def note(self, text: str, *, after_key: bool = False) -> None:
        """Prints a line that stays on the screen. `after_key`: the terminal has just echoed a key such as ^C."""
        cleared = self._clear_line()
        if self._status is not None and not cleared and (self._asking or after_key):
            note("")
        self._asking = False  # the question has scrolled up
        note(text)

    def _clear_line(self) -> bool:
        """Frees the last line of the terminal. True: it was in use."""
        was_drawn = self._status is not None and self._status.hide()
        return (self._answer is not None and self._answer.break_line()) or was_drawn

    def _doing(self, what: str) -> None:
        if self._status is not None:
            if self._answer is not None:
                self._answer.break_line()
            self._status.show(what)

    def _queued(self, event: events.RunQueued) -> None:
        if event.waiting_for == "slot":
            words = "waiting for a free slot: as many agents are running as max_agents allows"
        elif event.waiting_for == "limit":
            words = f"waiting for the account's usage limit until {local_time(event.until)}"
        elif event.waiting_for == "person":
            words = "held: the run before it was stopped (clew runs send ID starts it)"
        elif event.waiting_for == "terminal":
            words = "waiting for the thread: it is open in a terminal, or is being compacted"
        else:
            what = "is running in it" if event.until is None else f"waits for a limit until {local_time(event.until)}"
            words = f"waiting for the thread: run {(event.held_by or '?')[:SHORT_ID]} {what}"
        if self._status is None:
            note(words)
        else:
            self._doing(words)

    def _attempt(self, event: events.AttemptStarted) -> None:
        if self._answer is not None and self._answer.start_over():
            self.note("the text above is from the failed attempt; the answer starts again")
        if event.omitted_turns:
            self.note(f"the transcript is too long: {event.omitted_turns} of its oldest turns are left out")
        self._doing(f"{'resuming' if event.resumed else 'starting'} {self._agent}")

    def _text(self, event: events.TextStreamed | events.MessageSaid | events.TextWithdrawn) -> None:
        if self._answer is None:
            return
        self._make_room()
        match event:
            case events.TextStreamed():
                self._answer.piece(event.text)
            case events.MessageSaid():
                self._answer.message(event.text)
            case events.TextWithdrawn() if self._answer.withdraw():
                self.note(dim(WITHDRAWN))

    def _make_room(self) -> None:
        """Hides the status line where it would overwrite the answer, or what the reader of a pipe prints."""
        if self._status is None:
            return
        if self._shares_terminal:
            self._status.hide()
        elif self._feeds_pipe:
            self._status.retire()

    def _tool(self, event: events.ToolStarted) -> None:
        if self._status is None:
            return
        from clew.cli.ui.tool_lines import NAME_CHARS, input_summary

        summary = input_summary(event.input)
        self._doing(f"running {one_line(event.name, NAME_CHARS)}{f': {summary}' if summary else ''}")


def warning_words(event: events.Warned) -> str:
    """The message; of what went as intended, without the word `warning`."""
    return event.message if event.code in GOOD_NEWS else f"warning: {event.message}"


def meaning(reason: str | None) -> str:
    try:
        return MEANING[Reason(reason or "")]
    except ValueError:
        return str(reason)  # written by a later version of Clew


def fresh_words(reason: str, *, fallback: bool) -> str:
    """`fresh` and why; after a failed first attempt, also what kind of attempt failed (ADR 35)."""
    if not fallback:
        return f"fresh: {meaning(reason)}"
    # The context can also be full in a fresh session, where nothing was resumed.
    how = "fresh with a shorter transcript" if reason == Reason.OVERFLOW else "fresh after a failed resume"
    return f"{how}: {meaning(reason)}"


def resumed_words(reason: str | None, rewound_to: int | None = None) -> str:
    """`resumed`; of a copy of the session, also up to where, and why."""
    if rewound_to is not None:
        return f"resumed, rewound to turn {rewound_to:,}: {meaning(reason)}"
    return "resumed" if reason is None else f"resumed in a copy: {meaning(reason)}"


def closing_line(reply: Reply) -> str | None:
    """`resumed · 22,135 tokens (22,087 cached) · $0.0070`, as far as it is known. None: the run never started."""
    how = session_words(reply)
    if how is None and reply.usage == NO_USAGE:
        return None
    return joined(how or reply.status, usage_words(reply.usage, reply.cost_usd))


def usage_words(usage: Usage, cost_usd: float) -> str:
    """`22,135 tokens (22,087 cached) · $0.0070`, as far as it is known."""
    used = usage != NO_USAGE
    tokens = f"{usage.shown_tokens + usage.output_tokens:,} tokens ({usage.cache_read_input_tokens:,} cached)"
    return joined(tokens if used else "", price(cost_usd, used=True) if used or cost_usd else "")


def session_words(run: Reply | Run) -> str | None:
    """`resumed`, or `fresh` and why. None: the run ended before a decision was made."""
    if run.session_resumed:
        return resumed_words(run.reason, run.rewound_to)
    if run.reason is None:
        return None
    return fresh_words(run.reason, fallback=run.fallback)


def _is_pipe(stream: TextIO) -> bool:
    """True if the output has a reader that may write to this terminal; a file or /dev/null has none."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return not stream.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
