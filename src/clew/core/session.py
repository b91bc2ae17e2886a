"""What an agent's session holds, and up to where it is still as we left it. Pure.

An adapter reads a session's file into a `SessionView`: the messages on the session's active chain, oldest first, with
their tool calls. `compare` says how the session stands to the mark that we left when our last turn ended:

    same        nothing was added that belongs to the conversation
    grew        our last line is still on the chain, and new lines follow it: somebody used the plain CLI
    compacted   it grew, and the agent has replaced what was before by a summary
    branched    our last line is not on the chain any more: somebody went back and continued from an earlier line
    gone        there is no session
    damaged     bytes that were there when our last turn ended have changed (`engine/sessions/fingerprint`), or it is
                not certain what the model would be shown (`SessionView.is_sound`)

The mark is the id of the chain's last line, never the size of the file: an agent appends bookkeeping when it ends, and
a rewind in place appends to the file although it shortens the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.record import Record
from clew.core.runs.answer import join_messages

BEFORE_FIRST = ""  # the end of a chain that somebody shortened to nothing


class SessionCall(Record):
    """A tool call in a session, joined with its result by the call's id."""

    tool_id: str
    name: str
    input: Mapping[str, Any]
    output: str | None = None  # the beginning of its result; None: the session has no result
    is_error: bool = False
    ran: bool = True  # False: it was declined or does not exist, so nothing happened


class SubAgent(Record):
    """An agent that the session's agent started with a tool call. Its own messages are not part of the session."""

    tool_id: str  # the call that started it; "": not known
    name: str  # what the call says about it: its type or its description
    usage: Usage = NO_USAGE
    models: tuple[str, ...] = ()
    calls: tuple[SessionCall, ...] = ()  # its own tool calls: they may have edited files


class SessionEntry(Record):
    """One message in a session's active chain."""

    id: str
    role: Role
    text: str
    is_prompt: bool  # a prompt of a person or a host: neither a tool's result nor the agent's own note
    complete: bool = True  # for an answer: the model had finished it
    offset: int | None = None  # where its line begins in the file; needed if an earlier entry may have the same id
    place: int | None = None  # the number of its line on the chain; needed likewise
    at: float | None = None  # when it was written, in epoch seconds
    model: str = ""  # of an answer
    usage: Usage = NO_USAGE  # of the request that gave this answer; only on the first entry of a request
    calls: tuple[SessionCall, ...] = ()  # of an answer, in order
    interrupted: bool = False  # of an answer: it was cut off, by a person or by a kill
    end_id: str | None = None  # of the last entry of a completed turn: the id with which a copy can end here
    images: int = 0  # of a prompt: how many images came with it
    total_usd: float | None = None  # of a prompt: the session's running total before it, if the file names one


class SessionView(Record):
    """What a session's file holds: the messages on its active chain, oldest first."""

    entries: Sequence[SessionEntry]
    last_entry: str | None  # id of the newest line on the chain, message or not; None: nothing was read
    size_bytes: int
    model: str = ""  # the newest turn's, if the file names it
    tool_called: bool = False  # what was read contains a tool call
    is_whole: bool = True  # False: a copy whose beginning is in another session's file
    chain: tuple[str, ...] = ()  # ids of all lines on the chain that were read, in order, messages or not
    parent: str | None = None  # the line that the read part of the chain follows; None: it begins with what was read
    compacted_at: str | None = None  # the line on the chain with the last compaction; None: there is none
    compacted_after: int = 0  # how many entries are before that line
    cost_total_usd: float | None = None  # the session's running total, if the file names it
    cost_offset: int | None = None  # where the line with the total begins in the file, if that is known
    subagents: tuple[SubAgent, ...] = ()
    beside: Sequence[SessionEntry] = ()  # messages among what was read that are not on the chain
    is_sound: bool = True  # False: different lines have the same id, or a message on the chain cannot be read


class SessionState(StrEnum):
    """How a session stands to the line with which our last turn ended."""

    SAME = "same"
    GREW = "grew"
    COMPACTED = "compacted"
    BRANCHED = "branched"
    GONE = "gone"
    DAMAGED = "damaged"


class SessionTurn(Record):
    """A prompt in a session with everything up to the next prompt, or an answer that no prompt precedes."""

    prompt: SessionEntry | None  # None: what was read begins within an answer
    answers: tuple[SessionEntry, ...]
    subagents: tuple[SubAgent, ...] = ()  # those that its tool calls started

    @property
    def text(self) -> str:
        return join_messages(entry.text for entry in self.answers)

    @property
    def calls(self) -> tuple[SessionCall, ...]:
        return tuple(call for entry in self.answers for call in entry.calls)

    @property
    def usage(self) -> Usage:
        """With that of its subagents."""
        own = sum((entry.usage for entry in self.answers), NO_USAGE)
        return sum((helper.usage for helper in self.subagents), own)

    @property
    def model(self) -> str:
        return next((entry.model for entry in reversed(self.answers) if entry.model), "")

    @property
    def end_id(self) -> str | None:
        """The id with which a copy of the session can end after this turn; None: it is not complete."""
        return self.answers[-1].end_id if self.answers else None

    @property
    def is_complete(self) -> bool:
        return bool(self.answers) and self.answers[-1].complete and not self.answers[-1].interrupted

    @property
    def began_at(self) -> float | None:
        first = self.prompt or self.answers[0]
        return first.at

    @property
    def ended_at(self) -> float | None:
        return self.answers[-1].at if self.answers else self.began_at


def compare(view: SessionView | None, left_at: str | None) -> SessionState:
    """How the session stands to `left_at`, the last line on its chain when our last turn ended.

    The view may hold only the lines that were added since: the chain then has to lead back to that line. A session
    that we left without a line has nothing that could have been abandoned, so it can only have grown.
    """
    if view is None:
        return SessionState.GONE
    if not view.is_sound:
        return SessionState.DAMAGED
    if view.last_entry in (None, left_at):
        return SessionState.SAME
    if left_at is not None and left_at not in view.chain and view.parent != left_at:
        return SessionState.BRANCHED
    if view.compacted_at is not None and _follows(view, view.compacted_at, left_at):
        return SessionState.COMPACTED
    return SessionState.GREW


def _follows(view: SessionView, line: str, left_at: str | None) -> bool:
    """Whether that line of the chain comes after the one that we left. If the latter was not read, it is earlier."""
    return left_at not in view.chain or view.chain.index(line) > view.chain.index(left_at)


def session_turns(entries: Sequence[SessionEntry], subagents: Sequence[SubAgent] = ()) -> Iterator[SessionTurn]:
    """Each prompt with everything up to the next one. Two prompts in a row (the first was never answered) are two."""
    prompt: SessionEntry | None = None
    answers: list[SessionEntry] = []
    for entry in (*entries, None):
        if entry is None or entry.is_prompt:
            if prompt is not None or answers:
                started = {call.tool_id for answer in answers for call in answer.calls}
                yield SessionTurn(prompt, tuple(answers), tuple(each for each in subagents if each.tool_id in started))
            prompt, answers = entry, []
        elif entry.role is Role.ASSISTANT:
            answers.append(entry)
