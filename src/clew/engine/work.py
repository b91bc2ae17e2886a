"""What a thread's agents did: the tool calls of its runs, and the files that they changed, from the stored events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from clew.agents.adapter import Adapter
from clew.core.branching.edits import EditKind, FileEdit
from clew.core.ids import RunId, TurnId
from clew.core.lookup import ALL_ROWS
from clew.core.record import Record
from clew.core.runs.events import Event, ToolFinished, ToolStarted
from clew.core.runs.tool_calls import ToolCall, calls
from clew.core.thread import Thread
from clew.store.store import Store


class ChangedFile(Record):
    """A file that a run changed."""

    path: str  # relative to the work directory, if it is inside
    kind: EditKind  # of the last edit


class TurnWork(Record):
    """What an agent did for one turn."""

    turn_id: TurnId  # the answer; the prompt, if its run gave none
    run_id: RunId
    calls: tuple[ToolCall, ...]
    files: tuple[ChangedFile, ...]


def work_of(store: Store, thread: Thread, adapter_of: Callable[[str], Adapter | None]) -> tuple[TurnWork, ...]:
    """The work for the thread's visible turns, in their order. Turns without a tool call are left out."""
    found: list[TurnWork] = []
    for view in store.views.thread(thread.id, limit=ALL_ROWS).turns:
        if view.run is None or (view.turn.role == "assistant" and not view.steps):
            continue
        events = [stored.event for stored in store.events.steps(view.run.id)]
        made = tuple(calls(events))
        if made:
            adapter = adapter_of(view.run.agent)
            edits = edits_of_run(events, adapter, thread.cwd) if adapter is not None else ()
            found.append(TurnWork(view.turn.id, view.run.id, made, _files(edits)))
    return tuple(found)


def edits_of_run(events: Sequence[Event | None], adapter: Adapter, cwd: str) -> tuple[FileEdit, ...]:
    """The edits of one run. Failed and denied tool calls are left out; an interrupted call may have changed files."""
    failed = {
        event.tool_id for event in events if isinstance(event, ToolFinished) and (event.is_error or not event.ran)
    }
    return tuple(
        edit.replace(path=_within(edit.path, cwd))
        for event in events
        if isinstance(event, ToolStarted) and event.tool_id not in failed
        for edit in adapter.edits(event.name, event.input)
    )


def _files(edits: Iterable[FileEdit]) -> tuple[ChangedFile, ...]:
    """Each file once, in the order in which they were first changed."""
    kinds = {edit.path: edit.kind for edit in edits}
    return tuple(ChangedFile(path, kind) for path, kind in kinds.items())


def _within(path: str, cwd: str) -> str:
    """The path, relative to the work directory if it is inside: threads to compare may have different directories."""
    whole = os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - an agent's path, which is not read
    return whole.removeprefix(cwd.rstrip("/") + "/")
