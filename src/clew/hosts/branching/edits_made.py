"""The edits that a thread's agents made to files, from the stored events of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clew.agents.adapter import Adapter
from clew.core.branching.edits import FileEdit
from clew.core.lookup import ALL_ROWS
from clew.core.thread import Thread
from clew.engine.work import edits_of_run
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
        found[str(run.id)] = edits_of_run([stored.event for stored in store.events.steps(run.id)], agent, thread.cwd)
    return found
