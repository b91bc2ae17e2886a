"""After a crash of Clew: what a dead process left running is ended, and its runs are brought to an end.

A run is dead when its owner is: on the same machine that is certain; on another one its lease tells. Whoever finds it
first takes the thread's lease (so two cannot), ends the family of every attempt by its mark, keeps what was said (from
the stored events, or from the session's file when that has more), marks the run interrupted and lets the lease go. The
pin is left as it is: pending, for the next decision to settle from the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from clew.agents.adapter import Adapter
from clew.core.answer import GrowingAnswer
from clew.core.events import (
    AttemptStarted,
    MessageSaid,
    QuestionAnswered,
    RunEnded,
    TextStreamed,
    TokensCounted,
    ToolFinished,
    ToolStarted,
)
from clew.core.history import Role, Turn
from clew.core.ids import TurnId
from clew.core.outcome import Outcome
from clew.core.pins import Pin
from clew.core.run import LIVE, Attempt, Run, RunStatus
from clew.core.usage import NO_USAGE, Usage
from clew.engine import leases, processes, queue
from clew.engine.database import Access
from clew.engine.plan import prompt_turn
from clew.engine.prices import price
from clew.engine.sessions import observe
from clew.engine.settings import EngineSettings, Surroundings, new_id
from clew.errors import StoreError
from clew.store.store import Store

log = logging.getLogger("clew.engine.recovery")

RUNS_LOOKED_AT = 100_000

AdapterOf = Callable[[str], Adapter | None]


async def recover_dead(
    database: Access, adapter_of: AdapterOf, around: Surroundings, settings: EngineSettings
) -> list[Run]:
    """Brings every dead run to its end. Cheap when there is none."""
    dead = await database.call(lambda store: _dead_runs(store, around))
    recovered = []
    try:
        for run in dead:
            recovered.append(await _recover(run, database, adapter_of, around, settings))
        await database.call(lambda store: _free_leases(store, around))
    except StoreError as error:  # a full disk: there is still much to be read
        log.warning("what a crash left could not be tidied up: %s", error.message)
    return [run for run in recovered if run is not None]


async def _recover(
    run: Run, database: Access, adapter_of: AdapterOf, around: Surroundings, settings: EngineSettings
) -> Run | None:
    """The run as it ended; None: not ours to end, or not now."""
    if run.status is RunStatus.QUEUED and run.asked.lasting:
        await database.call(lambda store: _leave_queued(store, run))
        return None
    token = around.new_id()
    if not await database.call(lambda store: _claim(store, run, token, around, settings)):
        return None
    attempts = await database.call(lambda store: store.attempts(run.id))
    for attempt in attempts:
        root = _root(run, attempt, around)
        await processes.end_family(attempt.id, root, grace_s=settings.grace_s, orphaned=True)
    await database.atomically(lambda store: _conclude(store, run, attempts, adapter_of, around))
    await database.call(lambda store: store.release_lease(token))
    return await database.call(lambda store: store.require_run(run.id))


def _leave_queued(store: Store, run: Run) -> None:
    """Nothing of it has begun: the next daemon takes it up."""
    with store.transaction():
        if store.require_run(run.id) != run:
            return
        store.update_run(run.id, owner=None)
        for key in (leases.thread_key(run.thread_id), leases.waiting_key(run.id)):
            held = store.lease(key)
            if held is not None and held.run_id == run.id:
                store.release_lease(held.token)


def _free_leases(store: Store, around: Surroundings) -> None:
    """What a process held that died between its run's end and its own."""
    for lease in store.leases():
        if not leases.is_dead(store, lease, around):
            continue
        run = store.run(lease.run_id) if lease.run_id else None
        if run is None or run.status not in LIVE:
            store.release_lease(lease.token)  # by its token: a lease that someone took meanwhile is not touched


def _dead_runs(store: Store, around: Surroundings) -> list[Run]:
    return [run for run in store.runs(statuses=list(LIVE), limit=RUNS_LOOKED_AT) if is_gone(store, run, around)]


def is_gone(store: Store, run: Run, around: Surroundings) -> bool:
    owner = run.owner
    if owner is None:
        return False
    if owner == around.owner:
        return run.id not in leases.ours
    if owner.host == around.owner.host:
        return not processes.is_alive(owner.pid, owner.started)
    held = [store.lease(key) for key in (leases.thread_key(run.thread_id), leases.waiting_key(run.id))]
    now = leases.now(store, around)
    return not any(lease and lease.run_id == run.id and lease.expires_at >= now for lease in held)


def _claim(store: Store, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> bool:
    """The thread's lease while the run is brought to its end. False: somebody alive has it, who runs or recovers."""
    key = leases.thread_key(run.thread_id)
    with store.transaction():
        held = store.lease(key)
        if held is not None and not leases.is_dead(store, held, around):
            return False
        if held is not None:
            store.release_lease(held.token)
        taken = store.acquire_lease(
            key, token=token, owner=around.owner, run_id=run.id, now=leases.now(store, around), ttl_s=settings.lease_s
        )
        return taken is not None


def _root(run: Run, attempt: Attempt, around: Surroundings) -> int | None:
    """The agent's own process, when its pid certainly still means it."""
    if run.owner is None or run.owner.host != around.owner.host or attempt.pid is None or attempt.pid_started is None:
        return None
    return attempt.pid if processes.is_alive(attempt.pid, attempt.pid_started) else None


def _conclude(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf, around: Surroundings) -> None:
    now = leases.now(store, around)
    stored = store.require_run(run.id)
    if stored.status not in LIVE:
        return
    if stored.status is RunStatus.QUEUED and stored.cancel_requested:
        queue.end_unstarted(store, stored, RunStatus.CANCELLED, queue.CANCELLED_WAITING, now)
        return
    if store.turn(run.prompt_turn_id) is None:
        store.add_turn(run.thread_id, prompt_turn(run, now))
    answer = _saved_answer(store, run, attempts, adapter_of, now)
    if answer is not None:
        store.add_turn(run.thread_id, answer)
    for attempt in attempts:
        if attempt.ended_at is None:
            store.update_attempt(attempt.id, outcome=Outcome.KILLED, ended_at=now)
    for question_id in _unheard(store, run):
        store.reopen_question(run.id, question_id)
    # Clew itself is well when it recovers a run of its own: only the database was away.
    what = "The database was away" if run.owner == around.owner else "Clew died"
    usage = _used(store, run)
    cost_usd = price(store, run.agent, run.model, usage)
    store.update_run(
        run.id,
        status=RunStatus.INTERRUPTED,
        outcome=Outcome.KILLED,
        error=f"{what} while the run was going on.",
        answer_turn_id=answer.id if answer else None,
        usage=usage,
        cost_usd=cost_usd,
        ended_at=now,
    )
    message = f"{what} while the run was going on; what was said so far is kept."
    ended = RunEnded(RunStatus.INTERRUPTED, Outcome.KILLED, usage, cost_usd, message)
    store.append_events(run.id, [(store.last_seq(run.id) + 1, now, ended)])


def _saved_answer(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf, now: float) -> Turn | None:
    growing = GrowingAnswer()
    for stored in store.events(run.id):
        if stored.event is not None:
            growing.feed(stored.event)
    text = growing.text
    in_file, complete = _said_in_file(store, run, attempts, adapter_of)
    if len(in_file) >= len(text) and in_file.startswith(text):
        text = in_file
    else:
        complete = False
    if not text:
        return None
    return Turn(
        id=TurnId(new_id()),
        role=Role.ASSISTANT,
        text=text,
        agent=run.agent,
        model=run.model,
        partial=not complete,
        message_id=growing.message_id,
        run_id=run.id,
        created_at=now,
    )


def _said_in_file(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf) -> tuple[str, bool]:
    """What the session's file has of the answer, and whether the model had come to its end."""
    adapter = adapter_of(run.agent)
    if adapter is None or not attempts:
        return "", False
    pin = _pin_of(store, run, attempts[-1])
    if pin is None or pin.pending is None:
        return "", False
    observed = observe(adapter, pin)
    if not observed.holds_pending or observed.went_on:
        return "", False
    return observed.said, observed.complete


def _pin_of(store: Store, run: Run, attempt: Attempt) -> Pin | None:
    return next((pin for pin in store.pins(run.thread_id) if pin.session_id == attempt.session_id), None)


def _used(store: Store, run: Run) -> Usage:
    """As far as the agent had told of it."""
    used, attempt = NO_USAGE, NO_USAGE
    for stored in store.events(run.id):
        if isinstance(stored.event, AttemptStarted):
            used, attempt = used + attempt, NO_USAGE
        elif isinstance(stored.event, TokensCounted):
            attempt = stored.event.usage
    return used + attempt


def _unheard(store: Store, run: Run) -> list[str]:
    """Questions whose answer was sent, and nothing came from the agent since: it may never have read it."""
    unheard: list[str] = []
    for stored in store.events(run.id):
        if isinstance(stored.event, QuestionAnswered):
            unheard.append(stored.event.question_id)
        elif isinstance(stored.event, TextStreamed | MessageSaid | ToolStarted | ToolFinished):
            unheard.clear()
    return unheard
