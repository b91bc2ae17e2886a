"""The order of the runs in a thread: one at a time, first come, first served.

Rules
1. An open question outlives the run that asked it, and keeps that run's place in the queue. Prompts that were queued
   behind that run wait until the question is answered (the run with the answer starts before them) or withdrawn. A
   person who asks after the run has ended knows that it has ended: a prompt from a terminal starts at once, a daemon's
   prompt starts after those that already wait.
2. A person who stops a run may no longer want the prompts that are queued behind it. So a daemon's prompts are held: a
   held prompt delays no other, and starts when somebody sends it. A prompt that a process waits for is not held, and
   neither is an answer.
3. A prompt that was cancelled before its run started is not a turn of the thread, no matter who cancelled it and which
   processes died afterwards (docs/threads.md). Its run is kept, with the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clew.core.history import Role
from clew.core.ids import ThreadId
from clew.core.lookup import ALL_ROWS
from clew.core.outcome import Outcome
from clew.core.record import Record, replace
from clew.core.runs.events import RunEnded
from clew.core.runs.question import QuestionState
from clew.core.runs.run import IN_TERMINAL, Run, RunStatus
from clew.core.thread import Thread
from clew.engine import leases
from clew.engine.request import TurnRequest
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.errors import Busy, Conflict
from clew.store.records import Lease
from clew.store.store import Store

CANCELLED_WAITING = "The run was cancelled while it waited."


class Opened(Record):
    """A run that was stored, and what it holds already."""

    leased: bool  # it has the thread's lease; else it waits, and has a waiting lease
    slots: tuple[str, ...] = ()  # the tokens of the slots that were free (see `leases.slots_for`)


def open_run(
    store: Store,
    request: TurnRequest,
    run: Run,
    token: str,
    context: RuntimeContext,
    settings: EngineSettings,
    also: Callable[[Store, Run], None] | None = None,
) -> Opened:
    """Stores the run with its prompt, and takes the thread's lease and the slots that are free.

    `token` is the token of that lease, or of the waiting lease. `also` writes what a host stores in the same
    transaction. Nothing is stored when this raises: Busy if the run would have to wait and must not; Conflict if the
    answer that it carries was already delivered, or if a run with its id exists.
    """
    with store.transaction():
        if request.options.new_run_id is not None and store.runs.find(run.id) is not None:
            raise Conflict("This was asked already.", hint=f"clew runs show {run.id} shows the run.")
        store.runs.create(run)
        holder = take_turn(store, run, token, context, settings)
        if holder is not None and not request.options.wait:
            raise another_run(request.thread, holder, store.leases.find(leases.thread_key(run.thread_id)))
        if holder is not None:
            _wait_in_queue(store, run, token, context, settings)
        if request.answers is not None:
            asked = store.questions.require(request.answers.run_id, request.answers.id)
            if asked.state is not QuestionState.OPEN:  # a daemon may have delivered the answer
                raise Conflict("The answer was passed on already.", hint="clew runs list shows the run that brings it.")
            allowed = request.answers.reply.allow if request.answers.reply is not None else None
            store.questions.close(request.answers, QuestionState.ANSWERED, context.clock(), allowed)
        if also is not None:
            also(store, run)
        if holder is not None or request.not_before is not None:  # without a slot: others may run meanwhile
            return Opened(holder is None)
        wanted = leases.slots_for(request, context, settings)
        return Opened(True, leases.take_slots(store, wanted, token, context, settings, run.id))


def another_run(thread: Thread, run_id: str, held: Lease | None = None) -> Busy:
    """The error of a run that would have to wait, and must not. `held` is the thread's lease."""
    if run_id == IN_TERMINAL:
        return leases.open_in_terminal(thread, held)
    return Busy(
        f"Another run is in progress in {thread.name}.",
        hint="Wait for it (leave --no-wait out), or stop it with clew runs cancel.",
        run_id=run_id,
    )


def left_behind(store: Store) -> list[Run]:
    """The queued runs that no process carries out, in the order of the queue."""
    queued = store.runs.newest(statuses=[RunStatus.QUEUED], limit=ALL_ROWS)
    return sorted((run for run in queued if run.owner is None), key=_order)


def take_up(store: Store, run: Run, token: str, context: RuntimeContext, settings: EngineSettings) -> Opened | None:
    """Claims a run of `left_behind`. Returns what `open_run` does, or None if another process was faster."""
    with store.transaction():
        if not store.runs.claim(run.id, context.owner):
            return None
        if take_turn(store, run, token, context, settings) is None:
            return Opened(True)
        _wait_in_queue(store, run, token, context, settings)
        return Opened(False)


def end_unstarted(store: Store, run: Run, status: RunStatus, message: str, at: float) -> None:
    """Ends a queued run that no process carries out."""
    outcome = Outcome.CANCELLED if status is RunStatus.CANCELLED else Outcome.FAILED
    store.runs.update(run.id, status=status, outcome=outcome, error=message, ended_at=at)
    store.events.append(run.id, [(store.events.last_seq(run.id) + 1, at, RunEnded(status, outcome, message=message))])


def stop(store: Store, run: Run, at: float) -> bool:
    """Asks a live run to stop, and holds the prompts behind it if the run had the thread. False: the run has ended.

    A second stop of the same run holds nothing more: prompts that were queued after the first stop are wanted.
    """
    held = store.leases.find(leases.thread_key(run.thread_id))
    had_thread = run.status is not RunStatus.QUEUED or (held is not None and held.run_id == run.id)
    if had_thread and not run.cancel_requested:
        hold(store, run, at)
    return store.runs.request_cancel(run.id, at)


def hold(store: Store, stopped: Run, at: float) -> None:
    """Holds a daemon's prompts that waited behind the stopped run: each then waits until somebody sends it."""
    for run in store.runs.newest(thread_id=stopped.thread_id, statuses=[RunStatus.QUEUED], limit=ALL_ROWS):
        asked = run.asked
        if run.id == stopped.id or not asked.lasting or asked.answers or asked.held or asked.sent_now:
            continue
        # A run that no process carries out and that is older than the stopped run was not behind it.
        is_behind = run.owner is not None or run.created_at > stopped.created_at
        if is_behind and run.created_at <= at:
            store.runs.update(run.id, asked=replace(asked, held=True))


def send(store: Store, run: Run, at: float) -> Run:
    """Lets a queued run start before the others that wait, and stops the run in progress. Raises Conflict."""
    if run.status is not RunStatus.QUEUED or run.cancel_requested:
        what = "was cancelled" if run.status is RunStatus.QUEUED else f"has started: it is {run.status}"
        raise Conflict(f"The run {what}.", hint="Only a queued one can be sent.")
    for active in store.runs.newest(thread_id=run.thread_id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=2):
        store.runs.request_cancel(active.id, at)
    lease = store.leases.find(leases.thread_key(run.thread_id))
    holder = store.runs.find(lease.run_id) if lease is not None and lease.run_id not in (None, run.id) else None
    if holder is not None and holder.asked.not_before is not None:
        store.runs.request_cancel(holder.id, at)  # the holder has not started: it waits for a usage limit to reset
    return store.runs.update(run.id, asked=replace(run.asked, held=False, sent_now=True, not_before=None))


def still_continues(store: Store, run: Run) -> bool:
    """Whether the prompt of the run that this one continues is still the last prompt of the thread.

    True for a run that continues no other.
    """
    if run.asked.continues is None:
        return True
    prompts = [turn.id for turn in store.turns.history(run.thread_id) if turn.role is Role.USER]
    return prompts[-1:] == [store.runs.require(run.asked.continues).prompt_turn_id]


def _wait_in_queue(store: Store, run: Run, token: str, context: RuntimeContext, settings: EngineSettings) -> None:
    leases.acquire(store, leases.waiting_key(run.id), token, context, settings, run.id)


def _order(run: Run) -> tuple[bool, bool, float, str]:
    return not run.asked.answers, not run.asked.sent_now, run.created_at, run.id


def take_turn(store: Store, run: Run, token: str, context: RuntimeContext, settings: EngineSettings) -> str | None:
    """Takes the thread's lease if it is this run's turn, and returns None.

    Else returns the id of the run that this run waits for; a held run waits for itself. The lease of a dead holder
    counts until it expires or recovery releases it, and a run that has started counts until its end is stored. A
    queued run that no process carries out (its daemon died) does not count: it gets its place when the next daemon
    takes it up.
    """
    key = leases.thread_key(run.thread_id)
    with store.transaction():
        held = store.leases.find(key)
        if held is not None and held.token == token:
            return None  # an earlier call took the lease, but its result was lost with the connection
        stored = store.runs.require(run.id)  # the run may have been held or sent since it was stored
        if stored.asked.held:
            return run.id
        ahead = run_ahead(store, stored, held, context)
        if ahead is None:
            leases.acquire(store, key, token, context, settings, run.id)
        return ahead


def run_ahead(store: Store, run: Run, held: Lease | None, context: RuntimeContext) -> str | None:
    """The id of the run that this run, which need not be stored, would wait for now. None: it is its turn.

    `held` is the thread's lease.
    """
    now = leases.now(store, context)
    if held is not None and not (held.expires_at < now and leases.is_holder_dead(store, held, context)):
        return held.run_id or IN_TERMINAL
    for other in store.runs.newest(thread_id=run.thread_id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=2):
        if other.id != run.id:
            return other.id
    asking = _runs_with_questions(store, run.thread_id)
    behind = _behind(run, asking)
    if behind is not None:
        return behind.id
    first = _first(store, run, asking)
    return first.id if first.id != run.id else None


def is_next(store: Store, run: Run) -> bool:
    """Whether the run is the first in the queue and not held."""
    stored = store.runs.find(run.id)
    is_held = stored is not None and stored.asked.held
    return not is_held and _first(store, run, _runs_with_questions(store, run.thread_id)).id == run.id


def _first(store: Store, run: Run, asking: Sequence[Run]) -> Run:
    """The first run that waits for the thread and that a process carries out.

    For a daemon's prompt, runs that wait behind a question count too. An answer, or a prompt from a terminal, starts
    before them (rule 1).
    """
    queued = store.runs.newest(thread_id=run.thread_id, statuses=[RunStatus.QUEUED], limit=ALL_ROWS)
    waiting = [other for other in queued if other.owner is not None and not other.asked.held]
    if run.asked.answers or not run.asked.lasting:
        waiting = [other for other in waiting if other.id == run.id or _behind(other, asking) is None]
    return min(waiting, key=_order, default=run)


def _runs_with_questions(store: Store, thread_id: ThreadId) -> list[Run]:
    """The runs whose questions are open."""
    return [store.runs.require(question.run_id) for question in store.questions.open(thread_id)]


def _behind(run: Run, asking: Sequence[Run]) -> Run | None:
    """The run with an open question that had not ended when this run was created (rule 1)."""
    if run.asked.answers or run.asked.sent_now:
        return None
    return next((other for other in asking if other.ended_at is None or run.created_at < other.ended_at), None)
