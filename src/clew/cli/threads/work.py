"""What `clew threads show` says about the work of a thread: tool calls, changed files, sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from clew.cli.ui.formatting import agent_words, harmless, joined
from clew.cli.ui.tool_lines import tool_line

if TYPE_CHECKING:
    from clew.api.thread import ThreadSession, TurnWork

MAX_CALLS = 30  # of one turn; the others are counted
MAX_FILES = 20


def call_lines(work: TurnWork | None) -> Iterator[str]:
    """A line for each tool call."""
    if work is None:
        return
    for call in work.calls[:MAX_CALLS]:
        yield tool_line(call)
    if len(work.calls) > MAX_CALLS:
        yield f"· {len(work.calls) - MAX_CALLS:,} more; clew runs show {harmless(work.run_id)} lists them"


def file_lines(work: TurnWork | None) -> Iterator[str]:
    """A line with the changed files, if there are any."""
    if work is not None and work.files:
        names = [f"{harmless(file.path)}{' (deleted)' if file.kind == 'delete' else ''}" for file in work.files]
        more = f" and {len(names) - MAX_FILES:,} more" if len(names) > MAX_FILES else ""
        yield f"files: {', '.join(names[:MAX_FILES])}{more}"


def work_object(work: TurnWork | None) -> dict[str, Any]:
    from clew.api.wire.work import turn_work

    shown = turn_work(work).to_json() if work is not None else {"tools": [], "files": []}
    return {"tools": shown["tools"], "files": shown["files"]}


def session_lines(sessions: Iterable[ThreadSession]) -> Iterator[str]:
    for session in sessions:
        marks = ["current" if session.current else "", "borrowed" if session.borrowed else ""]
        words = joined(agent_words(session.agent, session.model), harmless(session.id), by="  ")
        yield f"session: {words}  {joined(session.state, *marks, by=', ')}"
        if session.command is not None:
            yield f"  {harmless(session.command)}"


def session_objects(sessions: Iterable[ThreadSession]) -> list[dict[str, Any]]:
    from clew.api.wire.work import session_of_thread

    return [session_of_thread(session).to_json() for session in sessions]
