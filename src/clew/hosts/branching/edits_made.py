"""The edits that a thread's agents made to files, from the stored events of its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from clew.agents.adapter import Adapter
from clew.core.branching.edits import FileEdit
from clew.core.lookup import ALL_ROWS
from clew.core.runs.events import Event, ToolFinished, ToolStarted
from clew.core.thread import Thread
from clew.errors import UsageError
from clew.store.store import Store


def edits_of(store: Store, thread: Thread, adapter: Callable[[str], Adapter]) -> Mapping[str, tuple[FileEdit, ...]]:
    """The edits by run id, oldest run first. Runs whose turns were archived are included: they changed files, too."""
    found = {}
    for run in reversed(store.runs.newest(thread_id=thread.id, limit=ALL_ROWS)):
        try:
            agent = adapter(run.agent)
        except UsageError:  # this installation has no such agent any more
            continue
        found[str(run.id)] = _of_run([stored.event for stored in store.events.steps(run.id)], agent, thread.cwd)
    return found


def _of_run(events: Sequence[Event | None], agent: Adapter, cwd: str) -> tuple[FileEdit, ...]:
    """The edits of one run. Failed and denied tool calls are left out; an interrupted call may have changed files."""
    failed = {
        event.tool_id for event in events if isinstance(event, ToolFinished) and (event.is_error or not event.ran)
    }
    return tuple(
        edit.replace(path=_within(edit.path, cwd))
        for event in events
        if isinstance(event, ToolStarted) and event.tool_id not in failed
        for edit in agent.edits(event.name, event.input)
    )


def _within(path: str, cwd: str) -> str:
    """The path, relative to the work directory if it is inside: threads to compare may have different directories."""
    whole = os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - an agent's path, which is not read
    return whole.removeprefix(cwd.rstrip("/") + "/")
