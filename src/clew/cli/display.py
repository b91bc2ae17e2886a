"""A run as a person sees it: the answer on stdout, what goes on and how it ended on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clew.cli.answer import StreamedAnswer
from clew.cli.output import SHORT_ID, dollars, note, one_line
from clew.cli.status import StatusLine
from clew.core import events
from clew.core.decision import MEANING, Reason

if TYPE_CHECKING:
    from clew.client import Reply

TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
TOOL_CHARS = 70


class Display:
    """Shows events as they come. `as_json`: nothing on stdout before the one object."""

    def __init__(self, agent: str, *, as_json: bool) -> None:
        self._agent = agent
        self._answer = None if as_json else StreamedAnswer()
        self._status = StatusLine() if sys.stderr.isatty() else None
        self._shares_terminal = self._answer is not None and sys.stdout.isatty()

    def start(self) -> None:
        if self._status is not None:
            self._status.start()

    async def close(self) -> None:
        if self._status is not None:
            await self._status.close()
        if self._answer is not None:
            self._answer.end()

    def show(self, event: events.Event) -> None:
        shown = _SHOWN.get(type(event))
        if shown is not None:
            shown(self, event)

    def pause(self) -> None:
        """The terminal belongs to a question now."""
        if self._status is not None:
            self._status.hide()
        if self._answer is not None:
            self._answer.break_line()

    def resume(self) -> None:
        self._doing("thinking")

    def note(self, text: str) -> None:
        """A line that stays."""
        self.pause()
        note(text)

    def _doing(self, what: str) -> None:
        if self._status is not None:
            if self._answer is not None:
                self._answer.break_line()
            self._status.show(what)

    def _queued(self, event: events.RunQueued) -> None:
        if event.waiting_for == "slot":
            words = "waiting for a free place: as many agents are running as may (max_agents)"
        else:
            words = f"waiting for the thread: run {(event.held_by or '?')[:SHORT_ID]} is going on in it"
        if self._status is None:
            note(words)
        else:
            self._doing(words)

    def _attempt(self, event: events.AttemptStarted) -> None:
        if self._answer is not None and self._answer.start_over():
            self.note("the words above are of the failed attempt; the answer begins anew")
        if event.omitted_turns:
            self.note(f"the transcript is too long: {event.omitted_turns} of its oldest turns are left out")
        self._doing(f"{'resuming' if event.resumed else 'starting'} {self._agent}")

    def _session(self, _event: events.SessionStarted) -> None:
        self._doing("thinking")

    def _piece(self, event: events.TextStreamed) -> None:
        if self._answer is not None:
            self._make_room()
            self._answer.piece(event.text)

    def _message(self, event: events.MessageSaid) -> None:
        if self._answer is not None:
            self._make_room()
            self._answer.message(event.text)

    def _make_room(self) -> None:
        if self._status is not None and self._shares_terminal:
            self._status.hide()

    def _tool(self, event: events.ToolStarted) -> None:
        self._doing(f"running {tool_summary(event.name, event.input)}")

    def _tool_done(self, _event: events.ToolFinished) -> None:
        self._doing("thinking")

    def _retried(self, event: events.AgentRetried) -> None:
        error = one_line(event.error, 60)
        self._doing(f"the API failed ({error}); retry {event.attempt} in {event.delay_s:.0f} s")

    def _compacted(self, _event: events.Compacted) -> None:
        self._doing("thinking (the agent has shortened its memory)")

    def _fell_back(self, event: events.FellBack) -> None:
        self.note(f"{meaning(event.reason)}: going on with a fresh session and the whole transcript")

    def _warned(self, event: events.Warned) -> None:
        self.note(f"warning: {event.message}")


_SHOWN: dict[type[events.Event], Callable[[Display, Any], None]] = {
    events.RunQueued: Display._queued,
    events.AttemptStarted: Display._attempt,
    events.SessionStarted: Display._session,
    events.TextStreamed: Display._piece,
    events.MessageSaid: Display._message,
    events.ToolStarted: Display._tool,
    events.ToolFinished: Display._tool_done,
    events.AgentRetried: Display._retried,
    events.Compacted: Display._compacted,
    events.FellBack: Display._fell_back,
    events.Warned: Display._warned,
}


def tool_summary(tool: str, given: Mapping[str, Any]) -> str:
    """`Bash: ls -l`, on one line."""
    for key in TELLING:
        if isinstance(given.get(key), str) and given[key].strip():
            return f"{one_line(tool, 40)}: {one_line(given[key], TOOL_CHARS)}"
    return f"{one_line(tool, 40)} {one_line(json.dumps(given), TOOL_CHARS)}" if given else one_line(tool, 40)


def meaning(reason: str | None) -> str:
    try:
        return MEANING[Reason(reason or "")]
    except ValueError:
        return str(reason)  # of a later version


def closing_line(reply: Reply) -> str:
    """`resumed · 22,135 tokens (22,087 cached) · $0.0070`"""
    if reply.session_resumed:
        how = "resumed"
    elif reply.reason is None:
        how = reply.status
    else:
        how = f"{'fresh after a failed resume' if reply.fallback else 'fresh'}: {meaning(reply.reason)}"
    usage = reply.usage
    tokens = f"{usage.shown_tokens + usage.output_tokens:,} tokens ({usage.cache_read_input_tokens:,} cached)"
    return f"{how} · {tokens} · {dollars(reply.cost_usd)}"
