"""What a pair's rounds read and write of it, each inside one transaction: what is due next, and what follows an end."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.history import Turn
from clew.core.pairs import prompts as words
from clew.core.pairs.pair import Order, Pair, PairPart, PairRound, Phase, known_models
from clew.core.record import Record
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.core.thread import Permissions
from clew.engine.finish.failures import error_of_run
from clew.engine.finish.results import FinishedRun
from clew.errors import Busy, UsageError
from clew.store.rows.pairs import KeptFiles
from clew.store.store import Store

UNHEARD = "unheard"  # why a prompt was archived that no agent had been sent


def due(store: Store, pair: Pair, text: str, now: float, **changes: object) -> Pair:
    """`text` is to be asked next."""
    wanted = {"asking": text, "asked_at": now, "run_id": None, **changes}
    return store.pairs.update(pair.id, at=now, **wanted)


def open_round(store: Store, pair: Pair, number: int, now: float, mark: str) -> Pair:
    """The next round: the instructor is told what is new."""
    before = next((each for each in store.pairs.rounds(pair.id) if each.number == number - 1), None)
    message, changed = pair.message, pair.changed_files
    if before is None:
        text = words.first_round(pair)
    else:
        text = words.next_round(number, pair.last_round, before, mark, message=message, changed=changed)
    store.pairs.add_round(PairRound(pair.id, number, message, changed, started_at=now))
    told = {"message": "", "changed_files": ()} if before is not None else {}
    return due(
        store,
        pair,
        text,
        now,
        number=number,
        phase=Phase.INSTRUCTING,
        is_finished=False,
        asked_again=False,
        **told,
    )


def began(store: Store, pair: Pair, run: Run, now: float) -> Pair:
    """A run asks what is due."""
    if pair.part is PairPart.WORKER:
        store.pairs.update_round(pair.id, pair.number, worker_run_id=run.id, worker_model=run.model)
    else:
        store.pairs.update_round(pair.id, pair.number, instructor_run_id=run.id)
    return store.pairs.update(pair.id, at=now, run_id=run.id)


def ended(store: Store, pair: Pair) -> FinishedRun | None:
    """The run that the present phase was left with, and how it ended. None: none was begun. Raises Busy."""
    run = store.runs.find(pair.run_id) if pair.run_id is not None else None
    if run is None:
        return None
    if run.status in LIVE:
        raise Busy(f"A run of {pair.name} is going on.", hint="Wait for it, or stop it.", run_id=run.id)
    turn = _answer(store, run)
    if run.status is RunStatus.INTERRUPTED and turn is not None and not turn.partial:
        return FinishedRun(run, turn.text, None)  # its words were whole when Clew died
    return FinishedRun(run, turn.text if turn is not None else "", error_of_run(run))


def _answer(store: Store, run: Run) -> Turn | None:
    return store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None


def known_files(store: Store, pair: Pair) -> tuple[str | None, KeptFiles | None]:
    """The worker's newest run, and what the files were at its end.

    Of a worker that Clew died with, nobody knows what it had still done: then nothing is known.
    """
    newest = next(iter(store.runs.newest(thread_id=pair.worker_thread_id, limit=1)), None)
    run_id, kept = newest.id if newest is not None else None, store.pairs.files(pair.id)
    return run_id, kept if kept is not None and kept.run_id == run_id else None


def pick_up(store: Store, pair: Pair, changed: Sequence[str], now: float, mark: str) -> FinishedRun | None:
    """What is due after a process that did not end well: asked anew, gone on with, or (returned) only to be put down.

    A prompt that nobody heard is asked again; a session that was cut off is told to go on. Raises Busy.
    """
    if changed:
        pair = store.pairs.update(pair.id, at=now, changed_files=tuple(dict.fromkeys([*pair.changed_files, *changed])))
    finished = ended(store, pair)
    if finished is None:
        _due_with_news(store, pair, pair.asking, now, mark)
        return None
    if finished.error is None:
        return finished
    thread_id, run = pair.thread_of(pair.part), finished.run
    stands = any(turn.id == run.prompt_turn_id for turn in store.turns.history(thread_id))
    # A process's id is stored before the prompt is sent to it.
    heard = stands and any(attempt.pid is not None for attempt in store.runs.attempts(run.id))
    if stands and not heard:
        store.turns.archive(thread_id, run.prompt_turn_id, inclusive=True, at=now, why=UNHEARD)
    _due_with_news(store, pair, words.CONTINUE if heard else pair.asking, now, mark)
    return None


def _due_with_news(store: Store, pair: Pair, text: str, now: float, mark: str) -> None:
    """To the instructor, with what the user says and what else is new."""
    message, changed = pair.message, pair.changed_files
    if pair.phase is not Phase.INSTRUCTING or not (message or changed):
        if text != pair.asking or pair.run_id is not None:
            due(store, pair, text, now)
        return
    round_ = next(each for each in store.pairs.rounds(pair.id) if each.number == pair.number)
    said = "\n\n".join(part for part in (round_.message, message) if part)
    known = tuple(dict.fromkeys([*round_.changed_files, *changed]))
    store.pairs.update_round(pair.id, pair.number, message=said, changed_files=known)
    due(store, pair, words.with_news(text, mark, message=message, changed=changed), now, message="", changed_files=())


def ordered(store: Store, pair: Pair, order: Order, now: float, mark: str) -> Pair:
    """The instructor has answered."""
    model = order.worker_model if order.worker_model in pair.models else None
    store.pairs.update_round(pair.id, pair.number, order=order)
    if order.should_continue:
        store.pairs.update_round(pair.id, pair.number, worker_model=model or pair.worker_model)
        return due(store, pair, order.instruction, now, phase=Phase.WORKING, asked_again=False)
    store.pairs.update_round(pair.id, pair.number, ended_at=now)
    if (pair.message or pair.changed_files) and pair.number < pair.last_round:
        return open_round(store, pair, pair.number + 1, now, mark)  # it has not heard everything yet
    return store.pairs.update(pair.id, at=now, phase=Phase.DONE, is_finished=True, asking="", run_id=None)


def worked(store: Store, pair: Pair, text: str, now: float, mark: str) -> Pair:
    """The worker has ended."""
    store.pairs.update_round(pair.id, pair.number, result=text, ended_at=now)
    if pair.number >= pair.last_round:
        return store.pairs.update(pair.id, at=now, phase=Phase.DONE, is_finished=False, asking="", run_id=None)
    return open_round(store, pair, pair.number + 1, now, mark)


class ResumeOptions(Record):
    """What somebody who goes on with a pair asks for; None: as it was."""

    message: str = ""
    more_rounds: int | None = None
    instructor_model: str | None = None
    worker_model: str | None = None
    agent: str | None = None
    thinking: bool | None = None
    permissions: Permissions | None = None
    cwd: str | None = None


def take_up(store: Store, pair: Pair, wishes: ResumeOptions, now: float, mark: str) -> Pair:
    """The pair as it goes on: with its wishes, and with a next round when it was done. Raises UsageError and Busy."""
    ended(store, pair)
    if pair.phase is Phase.DONE and pair.is_finished and not (wishes.message or pair.message):
        raise UsageError(
            f"The pair {pair.name} has finished.",
            hint=f'Say what is next: clew pair --session {pair.name} "and now …".',
        )
    check_may(store, pair, wishes)
    if wishes.cwd not in (None, pair.cwd):
        store.pairs.keep_files(pair.id, None)  # they are others there
    last = pair.last_round
    if wishes.more_rounds is not None:
        last = pair.rounds_done + wishes.more_rounds
    elif not pair.rounds_left:
        last = pair.rounds_done + pair.max_rounds
    message = "\n\n".join(part for part in (pair.message, wishes.message) if part)
    same_agent = wishes.agent in (None, pair.agent)  # another one does not know the names of its models
    pair = store.pairs.update(
        pair.id,
        at=now,
        cwd=wishes.cwd or pair.cwd,
        agent=wishes.agent or pair.agent,
        instructor_model=wishes.instructor_model or (pair.instructor_model if same_agent else None),
        worker_model=wishes.worker_model or (pair.worker_model if same_agent else None),
        models=known_models(wishes.instructor_model, wishes.worker_model, before=pair.models if same_agent else ()),
        thinking=pair.thinking if wishes.thinking is None else wishes.thinking,
        last_round=last,
        message=message,
        asked_again=False,  # another chance
        error=None,
        hint=None,
        error_code=None,
    )
    _set_threads(store, pair, wishes, now)
    if pair.phase is Phase.WORKING and (wishes.worker_model or not same_agent):
        store.pairs.update_round(pair.id, pair.number, worker_model=pair.worker_model)
    return open_round(store, pair, pair.number + 1, now, mark) if pair.phase is Phase.DONE else pair


def check_may(store: Store, pair: Pair, wishes: ResumeOptions) -> None:
    """Raises UsageError when nobody has said yet what the worker may do here: an import leaves it so."""
    if wishes.permissions is None and store.threads.require_by_id(pair.worker_thread_id).permissions is Permissions.ASK:
        raise UsageError(
            f"The worker of {pair.name} may do nothing without asking, and nobody is asked in every round.",
            hint="Say what it may do: --permissions edits, all or read-only.",
        )


def _set_threads(store: Store, pair: Pair, wishes: ResumeOptions, now: float) -> None:
    wanted = {
        PairPart.INSTRUCTOR: {"model": pair.instructor_model, "standing": words.rubric(pair)},
        PairPart.WORKER: {"model": pair.worker_model}
        | ({"permissions": wishes.permissions} if wishes.permissions is not None else {}),
    }
    for part, fields in wanted.items():
        thread = store.threads.require(pair.thread_of(part))
        fields |= {"cwd": pair.cwd, "agent": pair.agent}
        fields["model"] = fields["model"] or (thread.model if thread.agent == pair.agent else None)
        changes = {key: value for key, value in fields.items() if getattr(thread, key) != value}
        if changes:
            store.threads.update(thread.id, at=now, **changes)
