"""Previews which session a key's next event would resume, and what it would send. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from clew.core.decision import Reason, Resume, candidate
from clew.core.hooks.hook import HookAgent
from clew.core.hooks.settings import HookSettings
from clew.core.jobs.job import ACTIVE
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.runs.options import TurnOptions
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest
from clew.errors import ClewError, StoreError
from clew.git.worktrees.worktrees import WorkTrees
from clew.store.rows.hooks import HookKey
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.hosts.hooks.planner import PlannedJob


class JobPreview(Record):
    """The run that would start now."""

    resumes: bool
    reason: str | None  # why it does not resume
    prompt: str  # exactly as it would be sent, except for the marks of the fences, which are random
    turns_sent: int  # earlier turns of the thread that are in the prompt of a fresh session
    jobs_before: int  # unfinished jobs of the same key: they may change the session


async def preview_job(engine: Engine, planned: PlannedJob) -> JobPreview:
    """Previews a planned job. Raises AgentMissing when the key has a thread and its agent is not installed."""

    def found(store: Store) -> tuple[Thread | None, int, int]:
        known = store.hooks.key(planned.key)
        thread = _thread(store, known, planned.agent, planned.cwd) if known is not None else None
        jobs = len(store.jobs.newest(statuses=ACTIVE, key=planned.key, limit=1000))
        return thread, 0 if thread is None else len(store.turns.history(thread.id)), jobs

    thread, turns, jobs = await engine.store.call(found)
    if thread is None:
        return JobPreview(False, Reason.FIRST_TURN, planned.full, 0, jobs)
    decision = (await engine.preview(_ask(thread, planned.agent, planned.delta, planned.full))).decision
    if isinstance(decision, Resume):
        return JobPreview(True, None, decision.prompt, 0, jobs)
    return JobPreview(False, decision.reason, decision.prompt, turns - decision.omitted, jobs)


async def next_sessions(
    engine: Engine, settings: HookSettings, trees: WorkTrees, keys: Sequence[HookKey]
) -> dict[str, str | None]:
    """By key: the session that its next event would resume; None: it would start a fresh one.

    If the agent or the repository cannot be used now, the stored session is returned: they may work again by then.
    """
    places = await _places(settings, trees, keys)
    unsure = [key for key in keys if key.key not in places]
    found: dict[str, str | None] = dict.fromkeys(places)
    asks: dict[str, list[tuple[HookKey, TurnRequest]]] = {}
    for key, ask in await engine.store.call(lambda store: _asks(store, settings, keys, places)):
        asks.setdefault(ask.agent, []).append((key, ask))
    for same in asks.values():
        try:
            sessions = await engine.next_sessions([ask for _, ask in same])
        except StoreError:
            raise
        except ClewError:
            unsure += [key for key, _ in same]
        else:
            found |= {key.key: session for (key, _), session in zip(same, sessions, strict=True)}
    return found | await engine.store.call(lambda store: {key.key: stored_session(store, key) for key in unsure})


async def _places(settings: HookSettings, trees: WorkTrees, keys: Iterable[HookKey]) -> dict[str, str | None]:
    """By key: its work tree. None: the settings no longer have its repository. If git fails, the key is left out."""
    found: dict[str, str | None] = {}
    for name, same in groupby(keys, key=lambda key: key.repo):
        repo, names = settings.repo(name), [key.key for key in same]
        try:
            found |= dict.fromkeys(names) if repo is None else await trees.paths_of(repo.path, names)
        except ClewError:
            continue
    return found


def _asks(
    store: Store, settings: HookSettings, keys: Iterable[HookKey], places: Mapping[str, str | None]
) -> list[tuple[HookKey, TurnRequest]]:
    found = []
    for key in keys:
        agent, place = settings.agent(key.agent), places.get(key.key)
        thread = _thread(store, key, agent, place) if agent is not None and place is not None else None
        if thread is not None and agent is not None:
            found.append((key, _ask(thread, agent, "", "")))
    return found


def _thread(store: Store, key: HookKey, agent: HookAgent, place: str) -> Thread | None:
    """The key's thread with the agent's current settings. None: the next event creates another thread."""
    thread = store.threads.by_id(key.thread_id)
    if thread is None or thread.cwd != place:
        return None
    return thread.replace(agent=agent.agent, model=agent.model, permissions=agent.permissions)


def _ask(thread: Thread, agent: HookAgent, delta: str, full: str) -> TurnRequest:
    options = TurnOptions(agent=agent.agent, model=agent.model)
    return TurnRequest(thread, delta, options, full=full, max_age_s=agent.max_age_s)


def stored_session(store: Store, key: HookKey) -> str | None:
    """The key's session according to the store, without a check whether it still exists."""
    thread = store.threads.by_id(key.thread_id)
    if thread is None:
        return None
    pins = store.pins.of_thread(thread.id, retired=False)
    pin = candidate(pins, thread.agent, thread.model) if thread.model else (pins[-1] if pins else None)
    return pin.session_id if pin is not None and pin.state in (PinState.GOOD, PinState.PROVISIONAL) else None
