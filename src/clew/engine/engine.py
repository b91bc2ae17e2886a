"""The engine's front door: start a run, find a dead one, cancel any."""

from __future__ import annotations

from collections.abc import Mapping

from clew.agents.adapter import Adapter, Binary
from clew.core.decision import Abilities
from clew.core.ids import RunId
from clew.core.run import LIVE, Run
from clew.engine import leases, probe, queue, recovery
from clew.engine.database import Database
from clew.engine.plan import model_for, new_run
from clew.engine.settings import AgentSettings, Ask, EngineSettings, Surroundings
from clew.engine.turn import LiveTurn
from clew.errors import UsageError
from clew.store.store import Store


class Engine:
    """Carries turns out. Open one per process; close it, or what it started is ended by the next one that opens."""

    def __init__(
        self, store: Store, adapters: Mapping[str, Adapter], settings: EngineSettings, around: Surroundings
    ) -> None:
        self.database = Database(store)
        self.settings = settings
        self.around = around
        self._adapters = adapters
        self._live: set[LiveTurn] = set()

    async def recover(self) -> list[Run]:
        """Brings to an end what a crash left behind. Called when a surface opens the store."""
        return await recovery.recover_dead(self.database, self._adapters.get, self.around, self.settings)

    def adapter(self, agent: str) -> Adapter:
        adapter = self._adapters.get(agent)
        if adapter is None:
            raise UsageError(f"There is no agent {agent!r}.", hint=f"Known: {', '.join(sorted(self._adapters))}.")
        return adapter

    def find(self, agent: str) -> Binary:
        return self.adapter(agent).find(self.agent_settings(agent).path, self.around.environ)

    async def abilities(self, agent: str, binary: Binary) -> Abilities:
        return await probe.abilities(
            self.adapter(agent), binary, self.database, self.around.environ, self.around.clock()
        )

    def agent_settings(self, agent: str) -> AgentSettings:
        return self.settings.agents.get(agent, AgentSettings())

    async def start(self, ask: Ask) -> LiveTurn:
        """The prompt is on disk when this returns; the run goes on by itself."""
        adapter = self.adapter(ask.agent)
        binary = self.find(ask.agent)
        token = self.around.new_id()
        configured = self.agent_settings(ask.agent).model
        model = await self.database.call(lambda store: model_for(ask, ask.thread, configured, store))
        run = new_run(ask, model, self.around)
        leases.ours.add(run.id)
        try:
            leased = await self.database.call(
                lambda store: queue.open_run(store, ask, run, token, self.around, self.settings)
            )
        except BaseException:
            leases.ours.discard(run.id)
            raise
        turn = LiveTurn(ask, run, adapter, binary, self.database, self.settings, self.around, self._adapters.get)
        self._live.add(turn)
        turn.start(token, self._ended, leased=leased)
        return turn

    def _ended(self, turn: LiveTurn) -> None:
        self._live.discard(turn)
        leases.ours.discard(turn.run.id)

    async def cancel(self, run_id: RunId) -> bool:
        """Asks a run of any process to stop. False: it is over already."""

        def ask_to_stop(store: Store) -> bool:
            run = store.require_run(run_id)
            return run.status in LIVE and store.request_cancel(run_id, self.around.clock())

        return await self.database.atomically(ask_to_stop)

    async def close(self) -> None:
        """Cancels what still runs, waits for it, and closes the store."""
        for turn in list(self._live):
            await turn.abandon()
        self.database.close()
