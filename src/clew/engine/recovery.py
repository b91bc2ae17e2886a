"""After a crash of Clew: ends the processes that a dead process left running, and its runs.

A run is dead when its owner is: on the same machine that is certain; on another one its lease tells. The process that
finds it first takes the thread's lease, so that no two recover it. It ends every process of the run's attempts, found
by their mark; keeps what was said, from the stored events or from the session's file when that has more; marks the run
interrupted; and releases the lease. The pin stays pending: the next decision settles it from the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from clew.agents.adapter import Adapter
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role, Turn
from clew.core.ids import TurnId
from clew.core.lookup import ALL_ROWS
from clew.core.outcome import Outcome
from clew.core.pins import Pin
from clew.core.runs.answer import AnswerBuilder
from clew.core.runs.events import (
    AttemptStarted,
    MessageSaid,
    QuestionAnswered,
    RunEnded,
    TextStreamed,
    TokensCounted,
    ToolFinished,
    ToolStarted,
)
from clew.core.runs.run import LIVE, Attempt, Run, RunStatus
from clew.engine import leases, queue
from clew.engine.finish.prices import price
from clew.engine.planning.plan import prompt_turn
from clew.engine.process.family import end_family, is_alive
from clew.engine.sessions.observation import observe
from clew.engine.settings import EngineSettings, RuntimeContext, new_id
from clew.engine.storage.async_store import StoreAccess
from clew.errors import StoreError
from clew.store.store import Store

log = logging.getLogger("clew.engine.recovery")

AdapterOf = Callable[[str], Adapter | None]


async def recover_dead(
    async_store: StoreAccess, adapter_of: AdapterOf, context: RuntimeContext, settings: EngineSettings
) -> list[Run]:
    """Ends every dead run. Cheap when there is none."""
    dead = await async_store.call(lambda store: _dead_runs(store, context))
    recovered = []
    try:
        for run in dead:
            recovered.append(await _recover(run, async_store, adapter_of, context, settings))
        await async_store.call(lambda store: _free_leases(store, context))
    except StoreError as error:  # for instance a full disk: reading still works
        log.warning("what a crash left behind could not be cleaned up: %s", error.message)
    return [run for run in recovered if run is not None]


async def _recover(
    run: Run, async_store: StoreAccess, adapter_of: AdapterOf, context: RuntimeContext, settings: EngineSettings
) -> Run | None:
    """The run as it ended; None: it stays queued, or another process runs or recovers it."""
    if run.status is RunStatus.QUEUED and run.asked.lasting:
        await async_store.call(lambda store: _leave_queued(store, run))
        return None
    token = context.new_id()
    if not await async_store.call(lambda store: _claim(store, run, token, context, settings)):
        return None
    attempts = await async_store.call(lambda store: store.runs.attempts(run.id))
    for attempt in attempts:
        root = _root(run, attempt, context)
        await end_family(attempt.id, root, grace_s=settings.grace_s, orphaned=True)
    await async_store.atomically(lambda store: _conclude(store, run, attempts, adapter_of, context))
    await async_store.call(lambda store: store.leases.release(token))
    return await async_store.call(lambda store: store.runs.require(run.id))


def _leave_queued(store: Store, run: Run) -> None:
    """It has not started: the next daemon takes it up."""
    with store.transaction():
        if store.runs.require(run.id) != run:
            return
        store.runs.update(run.id, owner=None)
        for key in (leases.thread_key(run.thread_id), leases.waiting_key(run.id)):
            held = store.leases.find(key)
            if held is not None and held.run_id == run.id:
                store.leases.release(held.token)


def _free_leases(store: Store, context: RuntimeContext) -> None:
    """Leases of processes that died after their run had ended."""
    for lease in store.leases.under():
        if not leases.is_holder_dead(store, lease, context):
            continue
        run = store.runs.find(lease.run_id) if lease.run_id else None
        if run is None or run.status not in LIVE:
            store.leases.release(lease.token)  # the token is the dead holder's: a new holder has another


def _dead_runs(store: Store, context: RuntimeContext) -> list[Run]:
    return [run for run in store.runs.newest(statuses=list(LIVE), limit=ALL_ROWS) if is_run_dead(store, run, context)]


def is_run_dead(store: Store, run: Run, context: RuntimeContext) -> bool:
    owner = run.owner
    if owner is None:
        return False
    if owner == context.owner:
        return run.id not in leases.runs_of_this_process
    if owner.host == context.owner.host:
        return not is_alive(owner.pid, owner.started)
    held = [store.leases.find(key) for key in (leases.thread_key(run.thread_id), leases.waiting_key(run.id))]
    now = leases.now(store, context)
    return not any(lease and lease.run_id == run.id and lease.expires_at >= now for lease in held)


def _claim(store: Store, run: Run, token: str, context: RuntimeContext, settings: EngineSettings) -> bool:
    """Takes the thread's lease for the recovery. False: a live process holds it, which runs or recovers."""
    with store.transaction():
        return leases.take_over(store, leases.thread_key(run.thread_id), token, context, settings, run.id)


def _root(run: Run, attempt: Attempt, context: RuntimeContext) -> int | None:
    """The pid of the agent's own process, if it is certainly still that process."""
    if run.owner is None or run.owner.host != context.owner.host or attempt.pid is None or attempt.pid_started is None:
        return None
    return attempt.pid if is_alive(attempt.pid, attempt.pid_started) else None


def _conclude(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf, context: RuntimeContext) -> None:
    now = leases.now(store, context)
    stored = store.runs.require(run.id)
    if stored.status not in LIVE:
        return
    if stored.status is RunStatus.QUEUED and stored.cancel_requested:
        queue.end_unstarted(store, stored, RunStatus.CANCELLED, queue.CANCELLED_WAITING, now)
        return
    if store.turns.find(run.prompt_turn_id) is None:
        store.turns.add(run.thread_id, prompt_turn(run, now))
    answer = _saved_answer(store, run, attempts, adapter_of, now)
    if answer is not None:
        store.turns.add(run.thread_id, answer)
    for attempt in attempts:
        if attempt.ended_at is None:
            store.runs.update_attempt(attempt.id, outcome=Outcome.KILLED, ended_at=now)
    for question_id in _unread_answers(store, run):
        store.questions.reopen(run.id, question_id)
    # When Clew recovers a run of its own, it did not die: only the database was away.
    what = "The database was away" if run.owner == context.owner else "Clew died"
    usage = _used(store, run)
    cost_usd = price(store, run.agent, run.model, usage)
    store.runs.update(
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
    store.events.append(run.id, [(store.events.last_seq(run.id) + 1, now, ended)])


def _saved_answer(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf, now: float) -> Turn | None:
    growing = AnswerBuilder()
    for stored in store.events.of_run(run.id):
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
    """What the session's file has of the answer, and whether the answer is complete."""
    adapter = adapter_of(run.agent)
    if adapter is None or not attempts:
        return "", False
    pin = _pin_of(store, run, attempts[-1])
    if pin is None or pin.pending is None:
        return "", False
    observed = observe(adapter, pin)
    if not observed.holds_pending or observed.continued_outside:
        return "", False
    return observed.answer_text, observed.complete


def _pin_of(store: Store, run: Run, attempt: Attempt) -> Pin | None:
    return next((pin for pin in store.pins.of_thread(run.thread_id) if pin.session_id == attempt.session_id), None)


def _used(store: Store, run: Run) -> Usage:
    """As far as the agent had reported it."""
    used, attempt = NO_USAGE, NO_USAGE
    for stored in store.events.of_run(run.id):
        if isinstance(stored.event, AttemptStarted):
            used, attempt = used + attempt, NO_USAGE
        elif isinstance(stored.event, TokensCounted):
            attempt = stored.event.usage
    return used + attempt


def _unread_answers(store: Store, run: Run) -> list[str]:
    """Questions that were answered, with nothing from the agent since: it may not have read the answer."""
    unread: list[str] = []
    for stored in store.events.of_run(run.id):
        if isinstance(stored.event, QuestionAnswered):
            unread.append(stored.event.question_id)
        elif isinstance(stored.event, TextStreamed | MessageSaid | ToolStarted | ToolFinished):
            unread.clear()
    return unread
