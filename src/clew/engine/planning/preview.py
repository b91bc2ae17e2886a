"""The decisions that would be made about the next turns. Stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clew.agents.adapter import RulesDelivery
from clew.core.decision import Decision
from clew.core.history import History
from clew.core.ids import SessionId
from clew.core.record import Record
from clew.core.runs.run import Run
from clew.engine.planning.plan import Planner, runtime_of
from clew.engine.request import TurnRequest, model_for, new_run, policy_of
from clew.engine.rules.shown import NOT_SHOWN, ShownRules, shown_rules
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine

BATCH_SIZE = 25  # turns per call, so that other callers can use the store in between


class NextTurn(Record):
    """What would be decided about a turn, and what would come in from outside before it."""

    decision: Decision
    outside_turns: int  # made outside Clew in the thread's sessions, and not in the thread yet
    is_compacted: bool  # one of its sessions was compacted since its last turn


async def preview(engine: Engine, request: TurnRequest, change: Callable[[History], History] | None = None) -> NextTurn:
    """`change`: what is to be changed in the thread's history before."""
    plan = await planning(engine, request.agent, await _rules_in_prompt(engine, request))

    def look(store: Store) -> NextTurn:
        planner, run = plan(store, request)
        if change is not None:
            planner = planner.replace(change=change)
        _, decision, arrived = planner.planned(store, run)
        return NextTurn(decision, len(arrived.turns), bool(arrived.compacted))

    return await engine.store.call(look)


async def _rules_in_prompt(engine: Engine, request: TurnRequest) -> ShownRules:
    """The rules that are part of the standing text: the decision says whether that changed."""
    adapter = engine.adapter(request.agent)
    can = await engine.abilities(request.agent, engine.find(request.agent))
    if adapter.rules_delivery(can) is not RulesDelivery.PROMPT:
        return NOT_SHOWN
    return await shown_rules(adapter, can, request, engine.store, engine.settings, engine.context)


async def sessions(engine: Engine, requests: Sequence[TurnRequest]) -> list[SessionId | None]:
    """The session that each turn would resume (None: a fresh one). All are of one agent. Builds no prompts."""
    if not requests:
        return []
    [agent] = {request.agent for request in requests}
    plan = await planning(engine, agent)

    def look(store: Store, some: Sequence[TurnRequest]) -> list[SessionId | None]:
        return [planner.session(store, run) for planner, run in (plan(store, request) for request in some)]

    found: list[SessionId | None] = []
    for first in range(0, len(requests), BATCH_SIZE):
        some = requests[first : first + BATCH_SIZE]
        found += await engine.store.call(lambda store, some=some: look(store, some))  # type: ignore[misc]
    return found


async def planning(
    engine: Engine, agent: str, rules: ShownRules = NOT_SHOWN
) -> Callable[[Store, TurnRequest], tuple[Planner, Run]]:
    """Returns a function that makes a request's planner, with a run that is not stored. Raises AgentMissing.

    `rules` matter to the prompt and its standing text, not to which session is resumed.
    """
    adapter, binary = engine.adapter(agent), engine.find(agent)
    can = await engine.abilities(agent, binary)
    runtime = runtime_of(adapter, binary, can, engine.context)

    def plan(store: Store, request: TurnRequest) -> tuple[Planner, Run]:
        run = new_run(request, model_for(request, engine.agent_settings(agent).model, store), engine.context)
        policy = policy_of(request, engine.settings)
        planner = Planner(
            adapter, can, runtime, policy, engine.context, request, run, engine.adapter_of, lambda store: None
        )
        return planner.replace(rules=rules), run

    return plan
