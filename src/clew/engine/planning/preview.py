"""What next turns would be: decided as they will be, and nothing stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clew.core.decision import Decision
from clew.core.ids import SessionId
from clew.core.run import Run
from clew.engine.plan import Planner, model_for, new_run, policy_of, runtime_of
from clew.engine.settings import Ask
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine

AT_ONCE = 25  # so many are looked at before somebody else has the store


async def outlook(engine: Engine, ask: Ask) -> Decision:
    plan = await _planning(engine, ask.agent)

    def look(store: Store) -> Decision:
        planner, run = plan(store, ask)
        return planner.outlook(store, run)[2]

    return await engine.database.call(look)


async def sessions(engine: Engine, asks: Sequence[Ask]) -> list[SessionId | None]:
    """That turns of one agent would resume; None: of a fresh one. No prompt is worded."""
    if not asks:
        return []
    [agent] = {ask.agent for ask in asks}
    plan = await _planning(engine, agent)

    def look(store: Store, some: Sequence[Ask]) -> list[SessionId | None]:
        return [planner.session(store, run) for planner, run in (plan(store, ask) for ask in some)]

    found: list[SessionId | None] = []
    for first in range(0, len(asks), AT_ONCE):
        some = asks[first : first + AT_ONCE]
        found += await engine.database.call(lambda store, some=some: look(store, some))  # type: ignore[misc]
    return found


async def _planning(engine: Engine, agent: str) -> Callable[[Store, Ask], tuple[Planner, Run]]:
    """Raises AgentMissing."""
    adapter, binary = engine.adapter(agent), engine.find(agent)
    can = await engine.abilities(agent, binary)
    runtime = runtime_of(adapter, binary, can, engine.around)

    def plan(store: Store, ask: Ask) -> tuple[Planner, Run]:
        run = new_run(ask, model_for(ask, ask.thread, engine.agent_settings(agent).model, store), engine.around)
        policy = policy_of(ask, engine.settings)
        return Planner(adapter, can, runtime, policy, engine.around, ask, run, lambda store: None), run

    return plan
