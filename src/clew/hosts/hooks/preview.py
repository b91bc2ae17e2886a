"""What a key's next event would find and send: decided as its first run will be, and nothing stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from clew.core.decision import Reason, Resume, candidate
from clew.core.hook import HookAgent
from clew.core.hook_settings import HookSettings
from clew.core.job import UNDER_WAY
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.settings import Ask
from clew.engine.worktrees import WorkTrees
from clew.errors import ClewError, StoreError
from clew.store.hook_rows import HookKey
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.hosts.hook_plan import Planned


class Ahead(Record):
    """The run that would follow, as things stand now."""

    resumes: bool
    reason: str | None  # why not
    prompt: str  # to the letter, but for the marks of the fences, which are new each time
    told_before: int  # turns of the thread that a fresh session is told along with it
    jobs_before: int  # of the same key, not over yet: what they leave is not known


async def look_ahead(engine: Engine, planned: Planned) -> Ahead:
    """Raises AgentMissing when there is a thread to go on in and nobody to ask whether that can be done."""

    def found(store: Store) -> tuple[Thread | None, int, int]:
        known = store.hook_key(planned.key)
        thread = _thread(store, known, planned.agent, planned.cwd) if known is not None else None
        jobs = len(store.jobs(statuses=UNDER_WAY, key=planned.key, limit=1000))
        return thread, 0 if thread is None else len(store.history(thread.id)), jobs

    thread, turns, jobs = await engine.database.call(found)
    if thread is None:
        return Ahead(False, Reason.FIRST_TURN, planned.full, 0, jobs)
    decision = await engine.outlook(_ask(thread, planned.agent, planned.delta, planned.full))
    if isinstance(decision, Resume):
        return Ahead(True, None, decision.prompt, 0, jobs)
    return Ahead(False, decision.reason, decision.prompt, turns - decision.omitted, jobs)


async def next_sessions(
    engine: Engine, settings: HookSettings, trees: WorkTrees, keys: Sequence[HookKey]
) -> dict[str, str | None]:
    """By key: the session that its next event would go on in; None: it would begin afresh.

    Whoever is not there to be asked, the agent or the repository, may be back by then: what is noted counts.
    """
    places = await _places(settings, trees, keys)
    unsure = [key for key in keys if key.key not in places]
    found: dict[str, str | None] = dict.fromkeys(places)
    asks: dict[str, list[tuple[HookKey, Ask]]] = {}
    for key, ask in await engine.database.call(lambda store: _asks(store, settings, keys, places)):
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
    return found | await engine.database.call(lambda store: {key.key: noted(store, key) for key in unsure})


async def _places(settings: HookSettings, trees: WorkTrees, keys: Iterable[HookKey]) -> dict[str, str | None]:
    """By key: its work tree; None: the settings do not have its repository any more. Left out: nobody can tell."""
    found: dict[str, str | None] = {}
    for name, same in groupby(keys, key=lambda key: key.repo):
        repo, names = settings.repo(name), [key.key for key in same]
        try:
            found |= dict.fromkeys(names) if repo is None else await trees.places(repo.path, names)
        except ClewError:
            continue
    return found


def _asks(
    store: Store, settings: HookSettings, keys: Iterable[HookKey], places: Mapping[str, str | None]
) -> list[tuple[HookKey, Ask]]:
    found = []
    for key in keys:
        agent, place = settings.agent(key.agent), places.get(key.key)
        thread = _thread(store, key, agent, place) if agent is not None and place is not None else None
        if thread is not None and agent is not None:
            found.append((key, _ask(thread, agent, "", "")))
    return found


def _thread(store: Store, key: HookKey, agent: HookAgent, place: str) -> Thread | None:
    """The key's, as its agent is set up now; None: its next event makes another."""
    thread = store.thread_by_id(key.thread_id)
    if thread is None or thread.cwd != place:
        return None
    return thread.replace(agent=agent.agent, model=agent.model, permissions=agent.permissions)


def _ask(thread: Thread, agent: HookAgent, delta: str, full: str) -> Ask:
    return Ask(thread=thread, text=delta, full=full, agent=agent.agent, model=agent.model, max_age_s=agent.max_age_s)


def noted(store: Store, key: HookKey) -> str | None:
    """The key's session as Clew knows it; whether it is still there was not looked at."""
    thread = store.thread_by_id(key.thread_id)
    if thread is None:
        return None
    pins = store.pins(thread.id, retired=False)
    pin = candidate(pins, thread.agent, thread.model) if thread.model else (pins[-1] if pins else None)
    return pin.session_id if pin is not None and pin.state in (PinState.GOOD, PinState.PROVISIONAL) else None
