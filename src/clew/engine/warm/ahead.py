"""An agent is started ahead of its thread's next turn: while somebody opens the thread, or types.

Nothing is sent to it, so it asks no model. It waits in the pool like an agent that was kept, and the turn takes it only
if it is just what would be started then. If the turn would not resume a session as it is, none is started.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clew.core.decision import Resume
from clew.core.ids import ThreadId
from clew.core.pins import Pin, PinState
from clew.core.thread import Thread
from clew.engine import leases
from clew.engine.planning.preview import planning
from clew.engine.process.agent import AgentProcess
from clew.engine.process.resuming import resuming_start
from clew.engine.request import TurnRequest
from clew.engine.storage.async_store import IDEMPOTENT
from clew.engine.warm.session import WarmSession, credential_in
from clew.engine.warm.supply import kept_session
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine


async def start_ahead(engine: Engine, thread: Thread) -> bool:
    """Whether an agent waits for the thread's next turn now. Raises AgentMissing."""
    key = await engine.warm.key()
    if key is None or not engine.settings.warm_ahead:
        return False
    if await engine.warm.holds(thread.id):
        return True
    found = await _session_to_resume(engine, thread)
    if found is None:
        return False
    pin, model = found
    start = await resuming_start(engine, thread, pin, model)
    if not engine.settings.warm_keys and credential_in(start.environ) is not None:
        return False
    adapter, binary = engine.adapter(pin.agent), engine.find(pin.agent)
    can = await engine.abilities(pin.agent, binary)
    session = await asyncio.to_thread(kept_session, key, adapter, binary, can, start.launch, start.environ, pin)
    if session is None or session.leaf is None:
        return False
    argv = await asyncio.to_thread(adapter.command, binary, can, start.launch)
    mark = engine.context.new_id()
    await engine.warm.has_room()
    process = await AgentProcess.spawn(argv, cwd=thread.cwd, environ=start.environ, mark=mark)
    return await _keep(engine, process, session)


async def _session_to_resume(engine: Engine, thread: Thread) -> tuple[Pin, str | None] | None:
    """The pin of the session that the next turn would resume as it is, and the model. None: there is no such session,
    or the thread is in use."""
    request = TurnRequest(thread, "?", standing=thread.standing)
    plan = await planning(engine, thread.agent)

    def look(store: Store) -> tuple[Pin, str | None] | None:
        if _is_in_use(engine, store, thread.id):
            return None
        planner, run = plan(store, request)
        _, decision, arrived = planner.planned(store, run)
        if not isinstance(decision, Resume) or decision.copies or decision.pin.state is not PinState.GOOD:
            return None
        moved = next((pin for pin in arrived.pins if pin.id == decision.pin.id), decision.pin)
        return moved, run.model

    return await engine.store.call(look)


async def _keep(engine: Engine, process: AgentProcess, session: WarmSession) -> bool:
    key = leases.warm_key(process.mark)

    def lease(store: Store) -> bool:
        """False: a turn has begun meanwhile, and has its own agent."""
        if _is_in_use(engine, store, session.thread_id):
            return False
        now, owner = leases.now(store, engine.context), engine.warm.owner
        store.leases.acquire(key, token=key, owner=owner, run_id=None, now=now, ttl_s=leases.WARM_LEASE_S)
        return True

    is_leased = False
    try:
        is_leased = await engine.store.atomically(lease, IDEMPOTENT)
    finally:
        if not is_leased:
            await process.end(grace_s=0, at_once=True)
    if is_leased:
        await engine.warm.keep(process, session)
    return is_leased and await engine.warm.holds(session.thread_id)


def _is_in_use(engine: Engine, store: Store, thread_id: str) -> bool:
    return leases.live_lease(store, leases.thread_key(ThreadId(thread_id)), engine.context) is not None
