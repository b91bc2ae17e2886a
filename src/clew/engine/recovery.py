"""Recovery after a crash of Clew: ends the runs of a dead process, and the agent processes that it left running.

A run is dead when its owner is dead: on the same machine, if no such process exists; on another machine, if the run's
lease has expired. The process that finds a dead run takes the thread's lease, so that no two processes recover the same
run. It ends every process of the run's attempts, which it finds by their mark. An agent that a dead process had kept
between two turns is ended likewise, by the mark in its lease. It keeps what the agent said, from the
stored events or from the session's file if that has more. It marks the run as interrupted, and releases the lease. The
pin stays pending: the next decision settles it from the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from clew.agents.adapter import Adapter
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role, Turn
from clew.core.ids import TurnId
from clew.core.lookup import ALL_ROWS
from clew.core.outcome import Outcome
from clew.core.pins import NOTHING_OBSERVED, Observed
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
from clew.store.records import Lease
from clew.store.store import Store

log = logging.getLogger("clew.engine.recovery")

AdapterOf = Callable[[str], Adapter | None]


async def recover_dead(
    async_store: StoreAccess, adapter_of: AdapterOf, context: RuntimeContext, settings: EngineSettings
) -> list[Run]:
    """Ends every dead run. It is cheap if there is none."""

    def look(store: Store) -> tuple[list[Run], list[Lease]]:
        held = store.leases.under()
        return _dead_runs(store, context), [each for each in held if leases.is_holder_dead(store, each, context)]

    dead, left = await async_store.call(look)
    recovered: list[Run | None] = []
    if not (dead or left):
        return []
    try:
        for mark in _orphaned(left, context):
            await end_family(mark, grace_s=settings.grace_s)
        for run in dead:
            recovered.append(await _recover(run, async_store, adapter_of, context, settings))
        await async_store.call(lambda store: _free_leases(store, context))
    except StoreError as error:  # for example a full disk: commands that only read still work
        log.warning("what a crash left behind could not be cleaned up: %s", error.message)
    return [run for run in recovered if run is not None]


async def _recover(
    run: Run, async_store: StoreAccess, adapter_of: AdapterOf, context: RuntimeContext, settings: EngineSettings
) -> Run | None:
    """Returns the ended run; None: it stays queued, or another process carries it out or recovers it."""
    if run.status is RunStatus.QUEUED and run.asked.lasting:
        await async_store.call(lambda store: _leave_queued(store, run))
        return None
    token = context.new_id()
    if not await async_store.call(lambda store: _claim(store, run, token, context, settings)):
        return None
    attempts = await async_store.call(lambda store: store.runs.attempts(run.id))
    for attempt in attempts:
        mark = attempt.mark or attempt.id
        await end_family(mark, _root(run, attempt, context), grace_s=settings.grace_s, orphaned=True)
    await async_store.atomically(lambda store: _conclude(store, run, attempts, adapter_of, context))
    await async_store.call(lambda store: store.leases.release(token))
    return await async_store.call(lambda store: store.runs.require(run.id))


def _leave_queued(store: Store, run: Run) -> None:
    """Leaves a daemon's run that has not started to the next daemon."""
    with store.transaction():
        if store.runs.require(run.id) != run:
            return
        store.runs.update(run.id, owner=None)
        for lease in store.leases.under():  # the thread's, or the one with which it waited, and the slots
            if lease.run_id == run.id:
                store.leases.release(lease.token)


def _free_leases(store: Store, context: RuntimeContext) -> None:
    """Frees the leases of processes that died after their run had ended."""
    for lease in store.leases.under():
        if not leases.is_holder_dead(store, lease, context):
            continue
        run = store.runs.find(lease.run_id) if lease.run_id else None
        if run is None or run.status not in LIVE:
            store.leases.release(lease.token)  # by the dead holder's token: a new holder has another one
            _mark_changed(store, lease)


def _orphaned(left: Sequence[Lease], context: RuntimeContext) -> list[str]:
    """The marks of agents that a dead process of this machine had kept. As a rule they have exited by themselves,
    because their input ended. Their leases are freed with the others."""
    ours = (each.key for each in left if each.owner.host == context.owner.host)
    return [key.removeprefix(leases.WARM) for key in ours if key.startswith(leases.WARM)]


def _mark_changed(store: Store, lease: Lease) -> None:
    """Surfaces show that a thread is open in a terminal, so they are told that it is not any more."""
    thread = store.threads.by_id(lease.key.removeprefix("thread/")) if lease.key.startswith("thread/") else None
    if thread is not None and lease.run_id is None:
        store.threads.update(thread.id, at=thread.updated_at)


def _dead_runs(store: Store, context: RuntimeContext) -> list[Run]:
    return [run for run in store.runs.newest(statuses=list(LIVE), limit=ALL_ROWS) if is_run_dead(store, run, context)]


def is_run_dead(store: Store, run: Run, context: RuntimeContext) -> bool:
    if run.owner is None:
        return False
    if run.owner == context.owner:
        return run.id not in leases.runs_of_this_process
    if run.owner.host == context.owner.host:
        return not is_alive(run.owner.pid, run.owner.started)
    now = leases.now(store, context)
    return not any(lease.expires_at >= now for lease in _leases_of(store, run))


def live_run_ahead(store: Store, run: Run, context: RuntimeContext) -> tuple[str | None, str | None]:
    """The live run for which this one would wait; or the run of a dead process that would be ended before it."""
    ahead = queue.run_ahead(store, run, store.leases.find(leases.thread_key(run.thread_id)), context)
    other = store.runs.find(ahead) if ahead is not None else None
    if other is not None and is_run_dead(store, other, context):
        return None, ahead
    return ahead, None


def _leases_of(store: Store, run: Run) -> list[Lease]:
    """The thread's lease and the waiting lease, if this run holds them."""
    found = [store.leases.find(key) for key in (leases.thread_key(run.thread_id), leases.waiting_key(run.id))]
    return [lease for lease in found if lease is not None and lease.run_id == run.id]


def _claim(store: Store, run: Run, token: str, context: RuntimeContext, settings: EngineSettings) -> bool:
    """Takes the thread's lease for the recovery. False: a live process holds it."""
    with store.transaction():
        return leases.take_over(store, leases.thread_key(run.thread_id), token, context, settings, run.id)


def _root(run: Run, attempt: Attempt, context: RuntimeContext) -> int | None:
    """The pid of the agent's own process, if the process with that pid is certainly still the agent."""
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
    answer = _partial_answer(store, run, attempts, adapter_of, now)
    if answer is not None:
        store.turns.add(run.thread_id, answer)
    for attempt in attempts:
        if attempt.ended_at is None:
            store.runs.update_attempt(attempt.id, outcome=Outcome.KILLED, ended_at=now)
    for question_id in _unread_answers(store, run):
        store.questions.reopen(run.id, question_id)
    # If this process owns the run, Clew did not die: only the database was unavailable.
    what = "The database was unavailable" if run.owner == context.owner else "Clew died"
    usage = _used(store, run)
    cost_usd = price(store, run.agent, run.model, usage)
    store.runs.update(
        run.id,
        status=RunStatus.INTERRUPTED,
        outcome=Outcome.KILLED,
        error=f"{what} while the run was in progress.",
        answer_turn_id=answer.id if answer else None,
        usage=usage,
        cost_usd=cost_usd,
        ended_at=now,
    )
    message = f"{what} while the run was in progress; what was said so far is kept."
    ended = RunEnded(RunStatus.INTERRUPTED, Outcome.KILLED, usage, cost_usd, message)
    store.events.append(run.id, [(store.events.last_seq(run.id) + 1, now, ended)])


def _partial_answer(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf, now: float) -> Turn | None:
    answer = AnswerBuilder()
    for stored in store.events.of_run(run.id):
        if stored.event is not None:
            answer.feed(stored.event)
    text = answer.text
    found = _answer_in_file(store, run, attempts, adapter_of)
    is_found = len(found.answer_text) >= len(text) and found.answer_text.startswith(text)
    if is_found:
        text = found.answer_text
    if not text:
        return None
    return Turn(
        id=TurnId(new_id()),
        role=Role.ASSISTANT,
        text=text,
        agent=run.agent,
        model=run.model,
        partial=not (is_found and found.complete),
        message_id=(found.end_id if is_found else None) or answer.message_id,
        run_id=run.id,
        created_at=now,
    )


def _answer_in_file(store: Store, run: Run, attempts: list[Attempt], adapter_of: AdapterOf) -> Observed:
    """As much of the answer as the session's file holds, whether it is complete, and where a copy can end after it."""
    adapter = adapter_of(run.agent)
    if adapter is None or not attempts:
        return NOTHING_OBSERVED
    session_id = attempts[-1].session_id
    pin = next((pin for pin in store.pins.of_thread(run.thread_id) if pin.session_id == session_id), None)
    if pin is None or pin.pending is None:
        return NOTHING_OBSERVED
    observed = observe(adapter, pin)
    return observed if observed.holds_pending else NOTHING_OBSERVED


def _used(store: Store, run: Run) -> Usage:
    """The run's usage, as far as the agent had reported it."""
    used, attempt = NO_USAGE, NO_USAGE
    for stored in store.events.of_run(run.id):
        if isinstance(stored.event, AttemptStarted):
            used, attempt = used + attempt, NO_USAGE
        elif isinstance(stored.event, TokensCounted):
            attempt = stored.event.usage
    return used + attempt


def _unread_answers(store: Store, run: Run) -> list[str]:
    """The answered questions after which the agent sent nothing: it may not have read the answers."""
    unread: list[str] = []
    for stored in store.events.of_run(run.id):
        if isinstance(stored.event, QuestionAnswered):
            unread.append(stored.event.question_id)
        elif isinstance(stored.event, TextStreamed | MessageSaid | ToolStarted | ToolFinished):
            unread.clear()
    return unread
