"""The transitions of a pair in the store: the next prompt, the end of a run, a new round, a resume.

Each function is called inside one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.pairs import prompts
from clew.core.pairs.pair import Order, Pair, PairPart, PairRound, Phase, known_models
from clew.core.record import Record
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.core.thread import Permissions
from clew.engine.finish.failures import error_of_run
from clew.engine.finish.results import FinishedRun
from clew.engine.settings import RuntimeContext
from clew.errors import Busy, UsageError
from clew.store.rows.pairs import KeptFiles
from clew.store.store import Store

UNHEARD = "unheard"  # stored as the reason when a prompt is archived that no agent received


def new_mark(context: RuntimeContext) -> str:
    """A random mark for the fence lines of one prompt."""
    return context.new_id()[:16]


def set_prompt(store: Store, pair: Pair, text: str, now: float, **changes: object) -> Pair:
    """Stores the prompt of the next run, with other changes of the pair."""
    return store.pairs.update(pair.id, at=now, **{"asking": text, "asked_at": now, "run_id": None, **changes})


def open_round(store: Store, pair: Pair, number: int, now: float, mark: str) -> Pair:
    """Starts a round: the instructor's prompt has the last report, the user's message and the changed files."""
    before = next((each for each in store.pairs.rounds(pair.id) if each.number == number - 1), None)
    due = [each.text for each in pair.planned_messages if each.round <= number]
    message, files = _joined(pair.message, *due), pair.changed_files
    if before is None:
        text = prompts.with_news(prompts.first_round(pair), mark, message=message, changed=files)
    else:
        text = prompts.next_round(number, pair.last_round, before, mark, message=message, changed=files)
    store.pairs.add_round(PairRound(pair.id, number, message, files, started_at=now))
    return set_prompt(
        store,
        pair,
        text,
        now,
        number=number,
        phase=Phase.INSTRUCTING,
        is_finished=False,
        asked_again=False,
        message="",
        changed_files=(),
        planned_messages=pair.planned_messages[len(due) :],
    )


def _open_round_after_end(store: Store, pair: Pair, now: float, mark: str) -> Pair:
    """Starts a round of a pair whose instructor was done. The first message that is planned for later comes now."""
    planned, number = pair.planned_messages, pair.number + 1
    sooner = max(0, planned[0].round - number) if planned else 0
    moved = tuple(each.replace(round=each.round - sooner) for each in planned)
    return open_round(store, pair.replace(planned_messages=moved), number, now, mark)


def record_start(store: Store, pair: Pair, run: Run, now: float) -> None:
    """Records the run that asks the pair's prompt."""
    if pair.part is PairPart.WORKER:
        store.pairs.update_round(pair.id, pair.number, worker_run_id=run.id, worker_model=run.model)
    else:
        store.pairs.update_round(pair.id, pair.number, instructor_run_id=run.id)
    fresh = tuple(part for part in pair.fresh_parts if part is not pair.part)
    store.pairs.update(pair.id, at=now, run_id=run.id, fresh_parts=fresh)


def finished_run(store: Store, pair: Pair) -> FinishedRun | None:
    """The newest run of the present phase, and how it ended. None: there is none. Raises Busy while it runs."""
    run = store.runs.find(pair.run_id) if pair.run_id is not None else None
    if run is None:
        return None
    if run.status in LIVE:
        raise Busy(f"A run of {pair.name} is in progress.", hint="Wait for it, or stop it.", run_id=run.id)
    turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
    if run.status is RunStatus.INTERRUPTED and turn is not None and not turn.partial:
        return FinishedRun(run, turn.text, None)  # the answer was complete when Clew crashed
    return FinishedRun(run, turn.text if turn is not None else "", error_of_run(run))


def known_files(store: Store, pair: Pair) -> tuple[str | None, KeptFiles | None]:
    """The worker's newest run, and the files at its end.

    If Clew crashed during that run, nobody knows what the worker has done after the last scan: then there are no files.
    """
    newest = next(iter(store.runs.newest(thread_id=pair.worker_thread_id, limit=1)), None)
    run_id, kept = newest.id if newest is not None else None, store.pairs.files(pair.id)
    return run_id, kept if kept is not None and kept.run_id == run_id else None


def recover(store: Store, pair: Pair, changed: Sequence[str], now: float, mark: str) -> FinishedRun | None:
    """Sets the prompt after a run that did not succeed. Returns a successful run that is not recorded yet.

    A prompt that no agent has received is asked again. A session that was interrupted is told to continue. `changed`
    are files that somebody else has changed since. Raises Busy.
    """
    if changed:
        pair = store.pairs.update(pair.id, at=now, changed_files=tuple(dict.fromkeys([*pair.changed_files, *changed])))
    finished = finished_run(store, pair)
    if finished is None:
        _set_prompt_with_news(store, pair, pair.asking, now, mark)
        return None
    if finished.error is None:
        return finished
    thread_id, run = pair.thread_of(pair.part), finished.run
    is_in_thread = any(turn.id == run.prompt_turn_id for turn in store.turns.history(thread_id))
    # A process's id is stored before the prompt is sent to the process: without an id, no agent received the prompt.
    was_received = is_in_thread and any(attempt.pid is not None for attempt in store.runs.attempts(run.id))
    if is_in_thread and not was_received:
        store.turns.archive(thread_id, run.prompt_turn_id, inclusive=True, at=now, why=UNHEARD)
    _set_prompt_with_news(store, pair, prompts.CONTINUE_PAIR if was_received else pair.asking, now, mark)
    return None


def _set_prompt_with_news(store: Store, pair: Pair, text: str, now: float, mark: str) -> None:
    """Sets the prompt. A prompt for the instructor also gets the user's message and the changed files."""
    message, changed = pair.message, pair.changed_files
    if pair.phase is not Phase.INSTRUCTING or not (message or changed):
        if text != pair.asking or pair.run_id is not None:
            set_prompt(store, pair, text, now)
        return
    round_ = next(each for each in store.pairs.rounds(pair.id) if each.number == pair.number)
    known = tuple(dict.fromkeys([*round_.changed_files, *changed]))
    store.pairs.update_round(pair.id, pair.number, message=_joined(round_.message, message), changed_files=known)
    text = prompts.with_news(text, mark, message=message, changed=changed)
    set_prompt(store, pair, text, now, message="", changed_files=())


def record_order(store: Store, pair: Pair, order: Order, now: float, mark: str) -> Pair:
    """Records the instructor's answer, and what follows from it."""
    store.pairs.update_round(pair.id, pair.number, order=order)
    if order.should_continue:
        model = order.worker_model if order.worker_model in pair.models else None
        store.pairs.update_round(pair.id, pair.number, worker_model=model or pair.worker_model)
        return set_prompt(store, pair, order.instruction, now, phase=Phase.WORKING, asked_again=False)
    store.pairs.update_round(pair.id, pair.number, ended_at=now)
    is_incomplete = bool(pair.message or pair.changed_files or pair.planned_messages)
    if is_incomplete and pair.number < pair.last_round:
        return _open_round_after_end(store, pair, now, mark)  # the instructor lacks the messages or the files
    return _end(store, pair, now, is_finished=True)


def record_report(store: Store, pair: Pair, text: str, now: float, mark: str) -> Pair:
    """Records the worker's report, and starts the next round if there is one left."""
    store.pairs.update_round(pair.id, pair.number, result=text, ended_at=now)
    if pair.number >= pair.last_round:
        return _end(store, pair, now, is_finished=False)
    return open_round(store, pair, pair.number + 1, now, mark)


def _end(store: Store, pair: Pair, now: float, *, is_finished: bool) -> Pair:
    return store.pairs.update(pair.id, at=now, phase=Phase.DONE, is_finished=is_finished, asking="", run_id=None)


class ResumeOptions(Record):
    """How to continue a pair. None: as before; but another agent uses its own default models."""

    message: str = ""
    more_rounds: int | None = None
    instructor_model: str | None = None
    worker_model: str | None = None
    agent: str | None = None
    thinking: bool | None = None
    permissions: Permissions | None = None
    cwd: str | None = None
    fresh_session: bool = False  # the next run of each part starts a fresh session, with the whole transcript


def resume(store: Store, pair: Pair, options: ResumeOptions, now: float, mark: str) -> Pair:
    """Applies the options, and starts the next round of a pair that was done. Raises UsageError and Busy."""
    finished_run(store, pair)
    if pair.phase is Phase.DONE and pair.is_finished and not (options.message or has_more_to_say(pair)):
        raise UsageError(
            f"The pair {pair.name} has finished.",
            hint=f'Say what is next: clew pair --session {pair.name} "and now …".',
        )
    check_permissions(store, pair, options)
    if options.cwd not in (None, pair.cwd):
        store.pairs.keep_files(pair.id, None)  # the other directory has other files
    last = pair.last_round
    if options.more_rounds is not None:
        last = pair.rounds_done + options.more_rounds
    elif not pair.rounds_left:
        last = pair.rounds_done + pair.max_rounds
    is_same_agent = options.agent in (None, pair.agent)  # another agent does not know the names of these models
    pair = store.pairs.update(
        pair.id,
        at=now,
        cwd=options.cwd or pair.cwd,
        agent=options.agent or pair.agent,
        instructor_model=options.instructor_model or (pair.instructor_model if is_same_agent else None),
        worker_model=options.worker_model or (pair.worker_model if is_same_agent else None),
        models=known_models(
            options.instructor_model, options.worker_model, before=pair.models if is_same_agent else ()
        ),
        thinking=pair.thinking if options.thinking is None else options.thinking,
        last_round=last,
        message=_joined(pair.message, options.message),
        fresh_parts=tuple(PairPart) if options.fresh_session else pair.fresh_parts,
        stop_requested=False,
        asked_again=False,  # so that the next invalid answer is asked for once more
        error=None,
        hint=None,
        error_code=None,
    )
    _update_threads(store, pair, options, now)
    if pair.phase is Phase.WORKING and (options.worker_model or not is_same_agent):
        store.pairs.update_round(pair.id, pair.number, worker_model=pair.worker_model)
    if pair.phase is not Phase.DONE:
        return pair
    if pair.is_finished:
        return _open_round_after_end(store, pair, now, mark)
    return open_round(store, pair, pair.number + 1, now, mark)


def has_more_to_say(pair: Pair) -> bool:
    """Whether there is a message for the instructor that was not sent yet."""
    return bool(pair.message or pair.planned_messages)


def _joined(*messages: str) -> str:
    return "\n\n".join(message for message in messages if message)


def check_permissions(store: Store, pair: Pair, options: ResumeOptions) -> None:
    """Raises UsageError if the worker would have to ask for permissions, and the options give it none."""
    worker = store.threads.require_by_id(pair.worker_thread_id)
    if options.permissions is None and worker.permissions is Permissions.ASK:
        raise UsageError(
            f"The worker of {pair.name} may do nothing without asking, and nobody is asked in every round.",
            hint="Say what it may do: --permissions edits, all or read-only.",
        )


def _update_threads(store: Store, pair: Pair, options: ResumeOptions, now: float) -> None:
    for part in PairPart:
        thread = store.threads.require(pair.thread_of(part))
        model = pair.model_of(part) or (thread.model if thread.agent == pair.agent else None)
        fields: dict[str, object] = {"cwd": pair.cwd, "agent": pair.agent, "model": model}
        if part is PairPart.INSTRUCTOR:
            fields["standing"] = prompts.rubric(pair)
        elif options.permissions is not None:
            fields["permissions"] = options.permissions
        changes = {key: value for key, value in fields.items() if getattr(thread, key) != value}
        if changes:
            store.threads.update(thread.id, at=now, **changes)
