"""Whose turn it is in a thread: one run at a time, first come, first served.

A question outlives the run that asked it, and so does its place: prompts that were queued behind it go on waiting until
it is answered (the run that brings the answer is before them) or withdrawn. Who asks later has seen that the run is
over, and moves on: a terminal's prompt at once, a daemon's behind those that wait already.

Whoever stops a run may not want what was queued behind it any more: a daemon's prompts are held then. A held one is in
nobody's way, and starts when it is sent. Prompts that a process waits for are not held, nor is an answer.

A prompt that was cancelled before its run started is no turn of the thread, whoever cancelled it and whatever died
afterwards (docs/threads.md). Its run is kept, with the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clew.core.events import RunEnded
from clew.core.history import Role
from clew.core.ids import ThreadId
from clew.core.outcome import Outcome
from clew.core.question import QuestionState
from clew.core.record import replace
from clew.core.run import Run, RunStatus
from clew.engine import leases
from clew.engine.settings import Ask, EngineSettings, Surroundings
from clew.errors import Busy, Conflict
from clew.store.store import Store

RUNS_LOOKED_AT = 100_000
CANCELLED_WAITING = "The run was cancelled while it waited."


def open_run(
    store: Store,
    ask: Ask,
    run: Run,
    token: str,
    around: Surroundings,
    settings: EngineSettings,
    also: Callable[[Store, Run], None] | None = None,
) -> bool:
    """The prompt on disk, with the thread's lease when it is free, else with one that says it is waiting.

    `also` is a host's part of the same transaction. `token` is of either lease. Raises Busy, and stores nothing, when
    it would have to wait and must not; Conflict when the answer that it brings has been passed on already, or when
    there is a run of its id.
    """
    with store.transaction():
        if ask.run_id is not None and store.run(run.id) is not None:
            raise Conflict("This was asked already.", hint=f"clew runs show {run.id} tells what became of it.")
        store.create_run(run)
        holder = take_turn(store, run, token, around, settings)
        if holder is not None and not ask.wait:
            raise Busy(
                f"Another run is going on in {ask.thread.name}.",
                hint="Wait for it (leave --no-wait out), or stop it with clew runs cancel.",
                run_id=holder,
            )
        if holder is not None:
            _wait(store, run, token, around, settings)
        if ask.answers is not None:
            asked = store.question(ask.answers.run_id, ask.answers.id)
            if asked.state is not QuestionState.OPEN:  # a daemon looks for answers that nobody has passed on
                raise Conflict("The answer is on its way already.", hint="clew runs list shows the run that brings it.")
            allowed = ask.answers.reply.allow if ask.answers.reply is not None else None
            store.close_question(ask.answers, QuestionState.ANSWERED, around.clock(), allowed)
        if also is not None:
            also(store, run)
        return holder is None


def left_behind(store: Store) -> list[Run]:
    """Queued runs that nobody carries out, the oldest first."""
    queued = store.runs(statuses=[RunStatus.QUEUED], limit=RUNS_LOOKED_AT)
    return sorted((run for run in queued if run.owner is None), key=_place)


def take_up(store: Store, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> bool | None:
    """Makes a run that was left behind this process's own: leased already, or waiting. None: somebody was faster."""
    with store.transaction():
        if not store.claim_run(run.id, around.owner):
            return None
        if take_turn(store, run, token, around, settings) is None:
            return True
        _wait(store, run, token, around, settings)
        return False


def end_unstarted(store: Store, run: Run, status: RunStatus, message: str, at: float) -> None:
    """A queued run that nobody carries out, so nobody else would end it."""
    outcome = Outcome.CANCELLED if status is RunStatus.CANCELLED else Outcome.FAILED
    store.update_run(run.id, status=status, outcome=outcome, error=message, ended_at=at)
    store.append_events(run.id, [(store.last_seq(run.id) + 1, at, RunEnded(status, outcome, message=message))])


def stop(store: Store, run: Run, at: float) -> bool:
    """Asks a live run to stop, and holds the prompts behind it if it had its turn already. False: it is over.

    A second stop of the same run holds nothing more: what was queued since is what was meant.
    """
    held = store.lease(leases.thread_key(run.thread_id))
    had_its_turn = run.status is not RunStatus.QUEUED or (held is not None and held.run_id == run.id)
    if had_its_turn and not run.cancel_requested:
        hold(store, run, at)
    return store.request_cancel(run.id, at)


def hold(store: Store, stopped: Run, at: float) -> None:
    """A daemon's prompts that waited behind that run when it was stopped go on waiting until they are sent."""
    for run in store.runs(thread_id=stopped.thread_id, statuses=[RunStatus.QUEUED], limit=RUNS_LOOKED_AT):
        asked = run.asked
        if run.id == stopped.id or not asked.lasting or asked.answers or asked.held or asked.sent_now:
            continue
        # One that nobody carries out was queued before: it was not behind it.
        is_behind = run.owner is not None or run.created_at > stopped.created_at
        if is_behind and run.created_at <= at:
            store.update_run(run.id, asked=replace(asked, held=True))


def send(store: Store, run: Run, at: float) -> Run:
    """Lets a queued run start before the others that wait, and stops the one that is going on. Raises Conflict."""
    if run.status is not RunStatus.QUEUED or run.cancel_requested:
        what = "was taken back" if run.status is RunStatus.QUEUED else f"has started: it is {run.status}"
        raise Conflict(f"The run {what}.", hint="Only a queued one can be sent.")
    for going in store.runs(thread_id=run.thread_id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=2):
        store.request_cancel(going.id, at)
    lease = store.lease(leases.thread_key(run.thread_id))
    holder = store.run(lease.run_id) if lease is not None and lease.run_id not in (None, run.id) else None
    if holder is not None and holder.asked.not_before is not None:
        store.request_cancel(holder.id, at)  # it only waits for a usage limit to reset
    return store.update_run(run.id, asked=replace(run.asked, held=False, sent_now=True, not_before=None))


def still_continues(store: Store, run: Run) -> bool:
    """A run that continues another after a usage limit: is that one's prompt still the last that was asked?"""
    if run.asked.continues is None:
        return True
    prompts = [turn.id for turn in store.history(run.thread_id) if turn.role is Role.USER]
    return prompts[-1:] == [store.require_run(run.asked.continues).prompt_turn_id]


def _wait(store: Store, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> None:
    key = leases.waiting_key(run.id)
    now = leases.now(store, around)
    store.acquire_lease(key, token=token, owner=around.owner, run_id=run.id, now=now, ttl_s=settings.lease_s)


def _place(run: Run) -> tuple[bool, bool, float, str]:
    return not run.asked.answers, not run.asked.sent_now, run.created_at, run.id


def take_turn(store: Store, run: Run, token: str, around: Surroundings, settings: EngineSettings) -> str | None:
    """Takes the thread's lease if it is this run's turn. Else: the run that is in the way; itself, when it is held.

    A dead holder, or a run that was left without its lease, is in the way too, until recovery has cleaned up after it.
    A queued run that nobody carries out (its daemon died) is not: it takes its place when the next daemon takes it up.
    """
    key = leases.thread_key(run.thread_id)
    with store.transaction():
        held = store.lease(key)
        if held is not None and held.token == token:
            return None  # it was taken, and the store's answer was lost
        stored = store.require_run(run.id)  # it may have been held or sent since it was opened
        if stored.asked.held:
            return run.id
        now = leases.now(store, around)
        if held is not None and not (held.expires_at < now and leases.is_dead(store, held, around)):
            return held.run_id or "?"
        for other in store.runs(thread_id=run.thread_id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=2):
            if other.id != run.id:
                return other.id
        asking = _asking(store, run.thread_id)
        behind = _behind(stored, asking)
        if behind is not None:
            return behind.id
        first = _first(store, run, asking)
        if first.id != run.id:
            return first.id
        store.acquire_lease(key, token=token, owner=around.owner, run_id=run.id, now=now, ttl_s=settings.lease_s)
        return None


def is_next(store: Store, run: Run) -> bool:
    """No other waits before it, and nothing holds it."""
    stored = store.run(run.id)
    is_held = stored is not None and stored.asked.held
    return not is_held and _first(store, run, _asking(store, run.thread_id)).id == run.id


def _first(store: Store, run: Run, asking: Sequence[Run]) -> Run:
    """Of those that wait for the thread and have somebody to carry them out.

    One that waits behind a question is in the way of a daemon's prompts only.
    """
    queued = store.runs(thread_id=run.thread_id, statuses=[RunStatus.QUEUED], limit=RUNS_LOOKED_AT)
    waiting = [other for other in queued if other.owner is not None and not other.asked.held]
    if run.asked.answers or not run.asked.lasting:
        waiting = [other for other in waiting if other.id == run.id or _behind(other, asking) is None]
    return min(waiting, key=_place, default=run)


def _asking(store: Store, thread_id: ThreadId) -> list[Run]:
    """The runs whose questions are open."""
    return [store.require_run(question.run_id) for question in store.open_questions(thread_id)]


def _behind(run: Run, asking: Sequence[Run]) -> Run | None:
    """The one of them that was not over yet when this run was asked for."""
    if run.asked.answers or run.asked.sent_now:
        return None
    return next((other for other in asking if other.ended_at is None or run.created_at < other.ended_at), None)
