"""Lets the agent replace what a session holds by a summary, at a person's request.

The session that the next turn would resume is resumed by a process that is sent the agent's own command, under the
thread's lease. What the session's file says afterwards is read as for a session that was continued outside Clew: the
pin's mark follows, and the next turn resumes the shorter session.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from clew.agents.adapter import StreamResult
from clew.core.decision import Resume
from clew.core.ids import SessionId
from clew.core.pins import Pin
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine import leases
from clew.engine.leases import HeldLeases
from clew.engine.process.agent import AgentProcess
from clew.engine.process.resuming import resuming_start
from clew.engine.request import TurnRequest
from clew.engine.sessions.outside import arrival, store_arrival
from clew.errors import AgentFailed, UsageError
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine

TIMEOUT_S = 600.0  # a summary is one long answer
GRACE_S = 2.0


class Compacted(Record):
    session_id: SessionId | None  # None: the next turn would resume no session, so there was nothing to compact
    is_compacted: bool = False  # False with a session: the agent found too little in it


async def compact(engine: Engine, thread: Thread, focus: str) -> Compacted:
    """Raises UsageError if the agent cannot be asked to compact, Busy during a run, AgentFailed, and AgentMissing."""
    decision = (await engine.preview(TurnRequest(thread, "?", standing=thread.standing))).decision
    if not isinstance(decision, Resume) or decision.copies:
        return Compacted(None)
    adapter = engine.adapter(thread.agent)
    line = adapter.compaction_line(focus, engine.context.new_uuid())
    if line is None:
        raise UsageError(
            f"{thread.agent} cannot be asked through Clew to compact its session.",
            hint="It compacts by itself when the session is full; /clear begins with an empty history.",
        )
    key, token = leases.thread_key(thread.id), f"{leases.COMPACTION}{engine.context.new_id()}"
    held = HeldLeases(engine.store, engine.settings, engine.context, lambda: _taken_over(thread))
    await engine.store.atomically(lambda store: _take(engine, store, thread, key, token))
    held.keep_as_fence(key, token)
    async with held.kept():
        await engine.warm.discard(thread.id)
        result = await _talk(engine, thread, decision.pin, line)

        def follow(store: Store) -> bool:
            with store.transaction():
                held.fence(store)
                pins = store.pins.of_thread(thread.id)
                found = arrival(store, thread, pins, engine.adapter_of, engine.context)
                store_arrival(store, thread, found)
                return decision.pin.session_id in found.compacted

        is_compacted = await engine.store.atomically(follow)
    if not is_compacted and result.diagnosis.message and not result.diagnosis.answered:
        raise AgentFailed(f"The session was not compacted: {result.diagnosis.message}")
    return Compacted(decision.pin.session_id, is_compacted)


def _take(engine: Engine, store: Store, thread: Thread, key: str, token: str) -> None:
    with store.transaction():
        if not leases.take_over(store, key, token, engine.context, engine.settings):
            raise leases.in_use(thread, store.leases.find(key))


def _taken_over(thread: Thread) -> AgentFailed:
    return AgentFailed(f"Another process took {thread.name} over while its session was compacted.", hint="Try again.")


async def _talk(engine: Engine, thread: Thread, pin: Pin, line: bytes) -> StreamResult:
    """Sends the line to a process that resumes the session, and reads it to its end."""
    adapter, binary = engine.adapter(thread.agent), engine.find(thread.agent)
    abilities = await engine.abilities(thread.agent, binary)
    start = await resuming_start(engine, thread, pin, pin.model or None)
    argv = adapter.command(binary, abilities, start.launch)
    reader = adapter.reader(start.launch)
    mark = engine.context.new_id()
    process = await AgentProcess.spawn(argv, cwd=thread.cwd, environ=start.environ, mark=mark)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await process.send(line)
            async for received in process.lines():
                if isinstance(received, bytes):
                    reader.feed(received)
                if reader.finished:
                    break
            process.close_stdin()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(engine.settings.exit_s):
                    await process.wait()
    except TimeoutError:
        raise AgentFailed(f"The agent did not compact the session within {TIMEOUT_S:.0f} s.") from None
    finally:
        await process.end(grace_s=GRACE_S)
    return reader.result(resumed=True, exit_status=process.exit_status, stderr=process.stderr_tail)
