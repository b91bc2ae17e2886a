"""Replays a pair with other models: the same task, and the same messages of the user, in a new pair that runs afresh.

The prompts of a pair's parts are made from each other's answers, so they are not asked again: only what the user said
is. A message comes in the round in which it was sent. If the new instructor is done before, the message comes then.
The old pair is only read. Read-only is the default for the worker, as in every replay, because the same task would
otherwise be carried out a second time in the same files.
"""

from __future__ import annotations

from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairPart, PairRound, PairStatus, Phase, PlannedMessage
from clew.core.record import Record
from clew.core.thread import Origin, OriginKind, Permissions, SourceThread, Thread, name_from
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import Conflict, UsageError
from clew.hosts.pairs.live import LivePair, PairRunOptions
from clew.hosts.pairs.naming import check_pair_name
from clew.hosts.pairs.pairs import NewPair, Pairs, PairState
from clew.hosts.pairs.rows import ResumeOptions
from clew.hosts.validation import existing_dir
from clew.store.store import Store

OLD_NAME_CHARS = 39  # of the old pair's name, in the name of the new one
# A replay leaves no state file: the directory's newest one stays that of the pair that the user works with.
DEFAULT_RUN_OPTIONS = PairRunOptions(auto_save=False)


class PairReplayOptions(Record):
    """Who is asked, and how. None: as in the old pair; but another agent uses its own default models."""

    model: str | None = None  # of both parts
    instructor_model: str | None = None
    worker_model: str | None = None
    agent: str | None = None
    rounds: int | None = None  # at most so many; None: as many as the old pair may have
    cwd: str | None = None
    permissions: Permissions | None = None  # of the worker; None: read-only
    name: str | None = None  # None: made from the old pair's name and the model


class PairReplay(Record):
    """A replay that runs, or that has nothing more to do."""

    old: PairState
    pair: Pair
    live: LivePair | None  # None: the replay was over already
    is_continued: bool  # the new pair existed already


class _Replayed(Record):
    """The old pair, and the replay of it that has the name that was given, if there is one."""

    old: Pair
    threads: dict[PairPart, Thread]
    messages: tuple[PlannedMessage, ...]
    found: Pair | None


async def replay_pair(
    engine: Engine,
    pairs: Pairs,
    name: str,
    options: PairReplayOptions,
    run_options: PairRunOptions = DEFAULT_RUN_OPTIONS,
) -> PairReplay:
    """Starts the replay, or continues the one with that name. The new pair is stored when this returns.

    Raises NotFound, UsageError, AgentMissing, Busy while the replay is running, and Conflict when its name is that of
    another pair or thread, or when it is a replay with other models.
    """
    _check(options)
    known = await engine.store.call(lambda store: _read(store, name, options))
    old, found = known.old, known.found
    state = await pairs.find(old.id)
    agent = options.agent or old.agent
    models = {part: _model(old, part, agent, options) for part in PairPart}
    if found is not None:
        _check_same(found, old, agent, models)
        live = await _continued(pairs, found, options, run_options)
        return PairReplay(state, live.pair if live is not None else found, live, is_continued=True)
    live = await pairs.start(
        NewPair(
            task=old.task,
            cwd=options.cwd or old.cwd,
            agent=agent,
            name=options.name or _name(old, options),
            number_if_taken=options.name is None,
            instructor_model=models[PairPart.INSTRUCTOR],
            worker_model=models[PairPart.WORKER],
            thinking=old.thinking,
            max_rounds=options.rounds or old.max_rounds,
            last_round=options.rounds or old.last_round,
            permissions=options.permissions or Permissions.READ_ONLY,
            planned_messages=known.messages,
            origins={
                part: Origin(OriginKind.REPLAY, (SourceThread(thread.id, thread.name),))
                for part, thread in known.threads.items()
            },
        ),
        run_options,
    )
    return PairReplay(state, live.pair, live, is_continued=False)


def _check(options: PairReplayOptions) -> None:
    for model in (options.model, options.instructor_model, options.worker_model):
        if model is not None and not model.strip():
            raise UsageError("The model has no name.", hint="Name one, or leave it out to use the pair's.")
        check_argument("model", model)
    if options.name is not None:
        check_pair_name(options.name)
    if options.cwd is not None:
        existing_dir(options.cwd)
    if options.permissions is Permissions.ASK:
        raise UsageError(
            "The worker's permissions cannot be ask.",
            hint="One of read-only, edits, all: no person answers questions in every round.",
        )


def _read(store: Store, name: str, options: PairReplayOptions) -> _Replayed:
    with store.reading():
        old = store.pairs.require(name)
        threads = {part: store.threads.require_by_id(old.thread_of(part)) for part in PairPart}
        found = store.pairs.find(options.name) if options.name is not None else None
        if found is not None and not _is_replay_of(store, found, old):
            raise Conflict(
                f"There is a pair named {found.name} already, and it is not a replay of {old.name}.",
                hint="Choose another --name.",
            )
        return _Replayed(old, threads, messages_of(old, store.pairs.rounds(old.id)), found)


def _is_replay_of(store: Store, pair: Pair, old: Pair) -> bool:
    origin = store.threads.require_by_id(pair.instructor_thread_id).origin
    sources = [source.id for source in origin.of] if origin is not None and origin.how is OriginKind.REPLAY else []
    return sources == [old.instructor_thread_id]


def messages_of(pair: Pair, rounds: list[PairRound]) -> tuple[PlannedMessage, ...]:
    """What the user has said to the instructor, each with its round; what was not sent yet belongs to the next one."""
    said = [PlannedMessage(round_.number, round_.message) for round_ in rounds if round_.message]
    if pair.message:
        said.append(PlannedMessage(pair.number + (pair.phase is not Phase.INSTRUCTING), pair.message))
    return (*said, *pair.planned_messages)


def _model(old: Pair, part: PairPart, agent: str, options: PairReplayOptions) -> str | None:
    named = options.instructor_model if part is PairPart.INSTRUCTOR else options.worker_model
    # Another agent does not know the names of the old pair's models.
    return named or options.model or (old.model_of(part) if agent == old.agent else None)


def _name(old: Pair, options: PairReplayOptions) -> str:
    with_what = options.model or options.worker_model or options.instructor_model or options.agent or "replay"
    return f"{old.name[:OLD_NAME_CHARS]}-{name_from(with_what)}"[:PAIR_NAME_CHARS].rstrip("-")


def _check_same(found: Pair, old: Pair, agent: str, models: dict[PairPart, str | None]) -> None:
    asked = (agent, *(models[part] for part in PairPart))
    stored = (found.agent, *(found.model_of(part) for part in PairPart))
    if asked != stored:
        who = ", ".join(f"{part} {found.model_of(part) or 'the default model'}" for part in PairPart)
        raise Conflict(
            f"{found.name} is a replay of {old.name} with {found.agent} ({who}).",
            hint="Choose another --name for other models.",
        )


async def _continued(
    pairs: Pairs, found: Pair, options: PairReplayOptions, run_options: PairRunOptions
) -> LivePair | None:
    """Continues the replay where it stopped. None: it has finished, or has used up its rounds."""
    state = await pairs.find(found.id)
    more = None if options.rounds is None else options.rounds - found.rounds_done
    is_used_up = state.status is PairStatus.OUT_OF_ROUNDS if more is None else more <= 0
    is_finished = state.status is PairStatus.FINISHED and not found.planned_messages
    if (is_used_up or is_finished) and state.status is not PairStatus.RUNNING:
        return None
    resumption = ResumeOptions(more_rounds=more, permissions=options.permissions, cwd=options.cwd)
    return await pairs.resume(found.id, resumption, run_options)
