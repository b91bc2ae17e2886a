"""A thread that is opened in its agent's own terminal interface: which session, and the thread's lease meanwhile.

Theory of operation
1. The session is the one that a turn would resume as it is. If it lacks anything (turns, standing text), or if there is
   none, a turn must come first, which gives the session what it lacks: `Opening.needs_turn`. Only a thread without
   turns is opened in a new session at once, if the agent lets us choose its id: the pin is stored before the agent is
   started (law 4), with the mark of an empty file, so all that is said comes in as turns that were made outside Clew.
2. The thread's lease belongs to the agent's process while that runs (law 5), and this process renews it. If Clew is
   killed, the agent may live on; the lease is then free when the agent has ended, or, for other machines, when it
   expires. Recovery ends no process here: nothing of it was started for a run.
3. What was said comes in by the reader of outside turns, under the lease. If the lease was lost, the next turn does it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clew.core.decision import Decision, Fresh, Reason, Resume
from clew.core.ids import PinId, SessionId
from clew.core.pins import Mark, Pin, PinState
from clew.core.record import Record, replace
from clew.core.runs.run import IN_TERMINAL, Owner, Run
from clew.core.thread import Thread
from clew.engine import leases, queue
from clew.engine.leases import HeldLeases
from clew.engine.planning.plan import Planner
from clew.engine.planning.preview import planning
from clew.engine.process.agent import check_work_dir
from clew.engine.process.family import started_at
from clew.engine.recovery import live_run_ahead
from clew.engine.request import TurnRequest, check_argument
from clew.engine.rules.shown import shown_rules
from clew.engine.sessions.in_plain_cli import shell_command
from clew.engine.sessions.observation import file_of
from clew.engine.sessions.outside import Arrival, store_arrival
from clew.errors import Busy, Conflict, UsageError
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine

EMPTY = Mark(0, None)  # the mark of a session that has no file yet: everything in it will be new


class Opening(Record):
    """How the thread would be opened now."""

    thread: Thread
    agent: str
    model: str | None
    decision: Decision  # about the next turn; None of it is stored
    session_id: SessionId | None  # None: a turn must come first
    is_new: bool  # the session does not exist yet
    command: tuple[str, ...]  # with the program's path; empty: a turn must come first
    shell: str | None  # the same for a shell, with its directory
    outside_turns: int  # made outside Clew, and not in the thread yet: they come in first
    busy: Busy | None = None  # why it cannot be opened at this moment: it has a run, or is open already

    @property
    def needs_turn(self) -> bool:
        return self.session_id is None


class _Found(Record):
    """An opening, and what would be stored for it."""

    opening: Opening
    pin: Pin | None
    arrived: Arrival


class HeldThread:
    """A thread whose lease this process holds for an agent in a terminal."""

    def __init__(self, engine: Engine, found: _Found, held: HeldLeases, token: str) -> None:
        self.opening = found.opening
        self.environ: Mapping[str, str] = engine.adapter(found.opening.agent).terminal_environment(
            engine.context.environ
        )
        self._engine = engine
        self._pin = found.pin
        self._leases = held
        self._token = token

    async def began(self, pid: int) -> None:
        """The agent's process has started: the lease belongs to it."""
        context = self._engine.context
        await self._give_lease_to(Owner(context.owner.host, pid, started_at(pid) or 0.0))

    async def ended(self) -> None:
        """The agent has ended: the lease is ours again, unless somebody has taken it over since."""
        await self._give_lease_to(self._engine.context.owner)

    def fence(self, store: Store) -> None:
        """Call it inside a transaction. Raises Conflict if another process has taken the thread over."""
        self._leases.fence(store)

    def retire_unused(self, store: Store) -> None:
        """Nothing was said in a new session: its pin is not used any more. Call it inside a transaction."""
        adapter = self._engine.adapter(self.opening.agent)
        if self.opening.is_new and self._pin is not None and file_of(adapter, self._pin) is None:
            store.pins.save(replace(self._pin, state=PinState.RETIRED))

    async def _give_lease_to(self, owner: Owner) -> None:
        engine, key, token = self._engine, leases.thread_key(self.opening.thread.id), self._token

        def give(store: Store) -> None:
            now, ttl_s = leases.now(store, engine.context), engine.settings.lease_s
            store.leases.take(key, old_token=token, token=token, owner=owner, run_id=None, now=now, ttl_s=ttl_s)

        await engine.store.atomically(give)


async def opening_of(engine: Engine, request: TurnRequest) -> Opening:
    """How the thread would be opened now. Stores nothing. Raises AgentMissing and UsageError."""
    planner, run = await _checked(engine, request)

    def look(store: Store) -> Opening:
        opening = _found(engine, store, planner, run).opening
        return replace(opening, busy=_busy(engine, store, request, run))

    return await engine.store.read_large(look)


@asynccontextmanager
async def held_open(engine: Engine, request: TurnRequest) -> AsyncIterator[HeldThread]:
    """Holds the thread for an agent in a terminal. Raises Busy during a run, and Conflict if a turn must come first."""
    thread = request.thread
    await engine.recover()
    token = engine.context.new_id()
    held = HeldLeases(engine.store, engine.settings, engine.context, _taken_over)
    run = (await _planned(engine, request))[1]
    await engine.store.atomically(lambda store: _take(engine, store, request, run, token))
    held.keep_as_fence(leases.thread_key(thread.id), token)
    async with held.kept():
        await engine.warm.discard(thread.id)
        try:
            planner, run = await _checked(engine, request)
            found = await engine.store.read_large(lambda store: _found(engine, store, planner, run))
            if found.opening.needs_turn:
                raise Conflict(f"Something has changed in {thread.name} since.", hint="Try again.")
            await engine.store.atomically(lambda store: _commit(engine, store, found, held))
            yield HeldThread(engine, found, held, token)
        finally:
            await engine.store.atomically(lambda store: _touch(engine, store, thread, held))


async def _planned(engine: Engine, request: TurnRequest) -> tuple[Planner, Run]:
    adapter, can = engine.adapter(request.agent), await engine.abilities(request.agent, engine.find(request.agent))
    rules = await shown_rules(adapter, can, request, engine.store, engine.settings, engine.context)
    plan = await planning(engine, request.agent, rules)
    return await engine.store.call(lambda store: plan(store, request))


async def _checked(engine: Engine, request: TurnRequest) -> tuple[Planner, Run]:
    try:
        check_work_dir(request.thread.cwd)
    except UsageError as error:
        hint = f"clew threads set {request.thread.name} --cwd DIR names another."
        raise UsageError(error.message, hint=hint) from None
    planner, run = await _planned(engine, request)
    check_argument("model", run.model)
    return planner, run


def _found(engine: Engine, store: Store, planner: Planner, run: Run) -> _Found:
    _, decision, arrived = planner.planned(store, run)
    adapter, request = planner.adapter, planner.turn
    binary = engine.find(request.agent)
    pin = _pin(engine, planner, run, decision)
    is_new = isinstance(decision, Fresh)
    command = adapter.terminal_command(binary, pin.session_id, run.model, new=is_new) if pin is not None else None
    if command is None:
        pin = None
        if adapter.terminal_command(binary, SessionId(engine.context.new_uuid()), run.model) is None:
            raise UsageError(f"Clew cannot open {request.agent} in a terminal.", hint="Ask with clew ask.")
    opening = Opening(
        thread=request.thread,
        agent=request.agent,
        model=run.model,
        decision=decision,
        session_id=pin.session_id if pin is not None else None,
        is_new=is_new and pin is not None,
        command=tuple(command or ()),
        shell=shell_command(command, request.thread.cwd, engine.context.environ) if command is not None else None,
        outside_turns=len(arrived.turns),
    )
    return _Found(opening, pin, arrived)


def _busy(engine: Engine, store: Store, request: TurnRequest, run: Run) -> Busy | None:
    """Why it cannot be opened now. A run that a crash left does not count: it is ended first."""
    ahead, _ = live_run_ahead(store, run, engine.context)
    held = store.leases.find(leases.thread_key(request.thread.id))
    return queue.another_run(request.thread, ahead, held) if ahead is not None else None


def _pin(engine: Engine, planner: Planner, run: Run, decision: Decision) -> Pin | None:
    """The pin of the session that can be opened as it is, or of a new one. None: a turn must come first."""
    now = engine.context.clock()
    if isinstance(decision, Resume):
        has_all = len(decision.shown) == 1 and decision.standing == decision.pin.standing  # only the prompt is new
        return replace(decision.pin, used_at=now) if has_all and not decision.copies else None
    if decision.reason is not Reason.FIRST_TURN or decision.standing is not None or not planner.abilities.choose_id:
        return None
    return Pin(
        id=PinId(engine.context.new_id()),
        thread_id=run.thread_id,
        agent=run.agent,
        model=run.model or "",
        session_id=SessionId(engine.context.new_uuid()),
        state=PinState.PROVISIONAL,
        work_dir=planner.turn.thread.cwd,
        runtime=planner.runtime,
        mark=EMPTY,
        created_at=now,
        used_at=now,
    )


def _take(engine: Engine, store: Store, request: TurnRequest, run: Run, token: str) -> None:
    key = leases.thread_key(request.thread.id)
    with store.transaction():
        held = store.leases.find(key)
        if held is not None and held.token == token:
            return  # an earlier call took the lease, but its result was lost with the connection
        ahead = queue.run_ahead(store, run, held, engine.context)
        if ahead is not None or not leases.acquire(store, key, token, engine.context, engine.settings):
            raise queue.another_run(request.thread, ahead or IN_TERMINAL, held)


def _commit(engine: Engine, store: Store, found: _Found, held: HeldLeases) -> None:
    with store.transaction():
        held.fence(store)
        store_arrival(store, found.opening.thread, found.arrived)
        if found.pin is not None:
            store.pins.save(found.pin)
        store.threads.update(found.opening.thread.id, at=engine.context.clock())


def _touch(engine: Engine, store: Store, thread: Thread, held: HeldLeases) -> None:
    """Releases the lease, and marks the thread as changed: surfaces show that it is not open any more."""
    with store.transaction():
        held.give_back(store)
        if store.threads.by_id(thread.id) is not None:
            store.threads.update(thread.id, at=engine.context.clock())


def _taken_over() -> Conflict:
    return Conflict("Another process took this thread over.", hint="clew threads sync brings in what was said.")
