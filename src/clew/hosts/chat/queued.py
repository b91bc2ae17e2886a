"""Queued prompts, of whichever process: edits them, sends one before the others, or removes them."""

from __future__ import annotations

import asyncio
import contextlib

from clew.core.expansion.expanded import Expanded
from clew.core.ids import RunId
from clew.core.runs.options import Person
from clew.core.runs.run import Run, RunStatus
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.errors import Conflict
from clew.hosts.expansion.expansion import Expansion, place_of
from clew.hosts.validation import check_prompt
from clew.store.store import Store

POLL_S = 0.03
REMOVED_S = 10.0  # how long a removal waits for the process that has the run


class QueuedPrompts:
    def __init__(self, engine: Engine, expansion: Expansion) -> None:
        self._engine = engine
        self._expansion = expansion

    async def edit(self, run_id: str, prompt: str, *, expand: bool = False, person: Person | None = None) -> Run:
        """Changes the prompt of a run that has not started. Raises Conflict if it has started.

        `expand`: see `TurnOptions`. Tools that a command's file allows are not allowed in this run.
        """
        check_prompt(prompt)
        expanded = Expanded(prompt)
        if expand:
            run, thread = await self._engine.store.call(lambda store: _run_in_thread(store, run_id))
            old = run.prompt if run.typed is None else ""
            expanded = await self._expansion.expand(prompt, place_of(thread, run.agent), person, known=old)
            check_prompt(expanded.text)

        def edit(store: Store) -> Run:
            if store.runs.require(run_id).asked.retry_of is not None:
                raise Conflict("The run asks an earlier turn again.", hint="Edit that turn instead.")
            return store.runs.edit_prompt(run_id, expanded.text, expanded.typed)

        return await self._engine.store.atomically(edit)

    async def send(self, run_id: str) -> Run:
        """Starts a queued run, held or not, and stops the run in progress. Raises Conflict if it has started."""
        return await self._engine.send(RunId(run_id))

    async def remove(self, run_id: str) -> None:
        """Cancels a run that has not started. Waits until its process has ended it, but not for long."""

        def status(store: Store) -> RunStatus:
            return store.runs.require(run_id).status

        found = await self._engine.store.call(status)
        if found is not RunStatus.QUEUED:
            raise Conflict(f"The run has started: it is {found}.", hint="Cancel it instead.")
        await self._engine.cancel(RunId(run_id), hold=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REMOVED_S):
                while await self._engine.store.call(status) is RunStatus.QUEUED:  # noqa: ASYNC110 - of any process
                    await asyncio.sleep(POLL_S)


def _run_in_thread(store: Store, run_id: str) -> tuple[Run, Thread]:
    run = store.runs.require(run_id)
    return run, store.threads.require_by_id(run.thread_id)
