"""Where the agent of an attempt comes from, and what becomes of it: kept since the last turn, or started; kept again,
or ended.

A process of the pool belongs to nobody's run, so a lease on its mark tells a later Clew to end it. The lease is taken
in the transaction that stores the end of the turn. It is released in the one that stores that the next attempt has the
process: from there on, recovery finds the mark in the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clew.agents.adapter import Adapter, Binary, LaunchProfile
from clew.core.decision import Abilities
from clew.core.outcome import Outcome
from clew.core.pins import Pin, PinState
from clew.core.record import replace
from clew.engine import leases
from clew.engine.attempt import AttemptEnd
from clew.engine.faults import passed
from clew.engine.finish.results import RunResults
from clew.engine.planning.plan import AttemptPlan
from clew.engine.process.agent import AgentProcess
from clew.engine.sessions.observation import file_of
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.warm.pool import WarmAgents
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.warm.session import WarmSession


class AgentSupply:
    """The agents of one run. One that has stayed after its turn (`stays`) is handed back, or ended."""

    def __init__(
        self, adapter: Adapter, binary: Binary, warm: WarmAgents, settings: EngineSettings, context: RuntimeContext
    ) -> None:
        self._adapter = adapter
        self._binary = binary
        self._warm = warm
        self._settings = settings
        self._context = context
        self._process: AgentProcess | None = None  # waits for another prompt after its turn
        self._session: WarmSession | None = None  # what the process can be kept as; its leaf is that before the turn
        self.was_kept = False  # the process ran before this attempt

    @property
    def may_stay(self) -> bool:
        """Whether the process may be kept after the turn."""
        return self._session is not None

    async def get(
        self, plan: AttemptPlan, launch: LaunchProfile, argv: Sequence[str], environ: Mapping[str, str]
    ) -> AgentProcess:
        """The agent that was kept, if it is just what would be started now; else a new one. Raises ClewError."""
        self._session = await self._kept_as(plan, launch, environ)
        process = None
        if self._session is not None and _continues(plan):
            process = await self._warm.take(self._session)
        elif await self._warm.key() is not None:
            await self._warm.discard(plan.pin.thread_id)
        self.was_kept = process is not None
        if process is None:
            process = await AgentProcess.spawn(argv, cwd=plan.request.work_dir, environ=environ, mark=plan.attempt.id)
        else:
            process.begin_turn()
        return process

    async def _kept_as(
        self, plan: AttemptPlan, launch: LaunchProfile, environ: Mapping[str, str]
    ) -> WarmSession | None:
        """What a process that is started now could be kept as. None: it is not kept."""
        key = await self._warm.key()
        if key is None:
            return None
        from clew.engine.warm.session import credential_in  # here, because an agent that ends needs none of it

        if not self._settings.warm_keys and credential_in(environ) is not None:
            return None
        return await asyncio.to_thread(  # it reads the disk
            kept_session, key, self._adapter, self._binary, plan.abilities, launch, environ, plan.pin
        )

    def store_taken(self, store: Store, process: AgentProcess) -> None:
        """In the transaction that stores the process with its attempt."""
        if self.was_kept:
            store.leases.release(leases.warm_key(process.mark))

    def stays(self, process: AgentProcess) -> None:
        """The process waits for another prompt after its turn."""
        process.has_answered = True
        self._process = process

    def store_kept(self, store: Store, end: AttemptEnd, results: RunResults) -> None:
        """In the transaction that stores the end of the run: decides whether the process is kept."""
        session, process, pin = self._session, self._process, results.pin
        if session is None or process is None or not _is_settled(end, results):
            self._session = None
            return
        self._session = _marked(session, self._adapter, pin)
        key = leases.warm_key(process.mark)
        now = leases.now(store, self._context)
        store.leases.acquire(key, token=key, owner=self._warm.owner, run_id=None, now=now, ttl_s=leases.WARM_LEASE_S)

    async def hand_back(self) -> None:
        """After the run's end is stored: the process is kept if that was decided, else it is ended."""
        process, session = self._process, self._session
        self._process = self._session = None
        if process is not None and session is not None:
            await self._warm.keep(process, session)
            passed("agent_kept")
        elif process is not None:
            await process.end(grace_s=0, at_once=True)

    async def end(self) -> None:
        """Ends the process, if it was not handed back."""
        self._session = None
        await self.hand_back()


def kept_session(
    key: bytes,
    adapter: Adapter,
    binary: Binary,
    abilities: Abilities,
    launch: LaunchProfile,
    environ: Mapping[str, str],
    pin: Pin,
) -> WarmSession | None:
    """What an agent that is started like this now could be kept as (reads the disk). None: it is not kept."""
    from clew.engine.warm.session import Launch, WarmSession, launch_digest

    resumed = replace(launch, resume=True, fork_of=None, rewind_to=None, images=(), prompt="")
    files = adapter.startup_files(resumed, environ)
    if files is None:
        return None
    argv = adapter.command(binary, abilities, resumed)
    digest = launch_digest(key, Launch(argv, launch.work_dir, environ, files))
    return _marked(WarmSession(pin.thread_id, pin.session_id, digest, ""), adapter, pin)


def _marked(session: WarmSession, adapter: Adapter, pin: Pin) -> WarmSession:
    """The session as the pin's mark says that it is now."""
    path, mark = file_of(adapter, pin), pin.mark
    if path is None or mark is None:
        return session
    return replace(session, file=str(path), size_bytes=mark.size_bytes, leaf=mark.last_entry)


def _is_settled(end: AttemptEnd, results: RunResults) -> bool:
    """Whether the turn succeeded, the session's file bears it out, and nobody else has continued the session: the
    process knows nothing of that."""
    pin, observed = results.pin, results.observed
    is_good = end.outcome is Outcome.SUCCESS and pin.state is PinState.GOOD and pin.pending is None
    is_alone = not (observed.before or observed.outside or observed.beside)
    return end.stays and is_good and is_alone and pin.mark is not None and pin.mark.last_entry is not None


def _continues(plan: AttemptPlan) -> bool:
    """Whether the attempt continues a session in place: a process holds one session, and makes no copies."""
    return plan.attempt.resumed and plan.launch.fork_of is None and plan.pin.mark is not None
