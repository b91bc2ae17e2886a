"""A run that somebody changes while it is planned: it starts only as it is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clew.core.runs.run import RunStatus
from clew.store import Store
from engine.planning.test_long_threads import planner
from engine.planning.test_long_threads import store as store

Change = Callable[[Store, str], object]


def first_time(store: Store, run_id: str, change: Change) -> Callable[[Store], None]:
    """Changes the run after the first plan was made, before it is stored."""
    waiting = [change]

    def fence(_: Store) -> None:
        if waiting:
            waiting.pop()(store, run_id)

    return fence


def test_a_prompt_that_is_edited_meanwhile_is_planned_again(store: Store) -> None:
    planning = planner(store)
    run_id = planning.run.id
    plan = planning.replace(fence=first_time(store, run_id, _edit)).first(store)
    assert plan is not None and plan.decision.prompt == "what else?"
    assert store.turns.history("thread")[-1].text == "what else?"
    assert store.runs.require(run_id).status is RunStatus.RUNNING
    assert len(store.runs.attempts(run_id)) == 1


@pytest.mark.parametrize("before", [True, False], ids=["before it", "during it"])
def test_a_run_that_is_cancelled_at_its_planning_is_no_turn(store: Store, before: bool) -> None:
    planning = planner(store)
    run_id = planning.run.id
    if before:
        _cancel(store, run_id)
    else:
        planning = planning.replace(fence=first_time(store, run_id, _cancel))
    turns = len(store.turns.history("thread"))
    assert planning.first(store) is None
    assert len(store.turns.history("thread")) == turns
    assert store.runs.require(run_id).status is RunStatus.QUEUED and not store.runs.attempts(run_id)


def _edit(store: Store, run_id: str) -> None:
    store.runs.edit_prompt(run_id, "what else?")


def _cancel(store: Store, run_id: str) -> None:
    store.runs.request_cancel(run_id, 1.0)
