"""Whose turn it is in a thread: one run at a time, first come, first served."""

from __future__ import annotations

from clew.core.run import Run, RunStatus
from clew.engine import leases
from clew.engine.settings import Ask, EngineSettings, Surroundings
from clew.errors import Busy
from clew.store.store import Store


def open_run(store: Store, ask: Ask, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> bool:
    """The prompt on disk, with the thread's lease when it is free, else with one that says it is waiting.

    `token` is of either. Raises Busy, and stores nothing, when it would have to wait and must not.
    """
    with store.transaction():
        store.create_run(run)
        holder = take_turn(store, run, token, around, settings)
        if holder is not None and not ask.wait:
            raise Busy(
                f"Another run is going on in {ask.thread.name}.",
                hint="Wait for it (leave --no-wait out), or stop it with clew runs cancel.",
                run_id=holder,
            )
        if holder is not None:
            key = leases.waiting_key(run.id)
            store.acquire_lease(
                key, token=token, owner=around.owner, run_id=run.id, now=around.clock(), ttl_s=settings.lease_s
            )
        return holder is None


def take_turn(store: Store, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> str | None:
    """Takes the thread's lease if it is this run's turn. Else: the run that is in the way.

    A dead holder is in the way too, until recovery has cleaned up after it.
    """
    key = leases.thread_key(run.thread_id)
    with store.transaction():
        held = store.lease(key)
        if held is not None and not (held.expires_at < around.clock() and leases.is_dead(held, around)):
            return held.run_id or "?"
        queued = store.runs(thread_id=run.thread_id, statuses=[RunStatus.QUEUED], limit=1000)
        first = min(queued, key=lambda other: (other.created_at, other.id), default=run)
        if first.id != run.id:
            return first.id
        store.acquire_lease(
            key, token=token, owner=around.owner, run_id=run.id, now=around.clock(), ttl_s=settings.lease_s
        )
        return None
