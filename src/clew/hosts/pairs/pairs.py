"""The pair host: an instructor plans and a worker carries out, round by round, each in its own thread.

Each prompt is stored before it is asked, and its result is stored before anything else follows. So a pair can be
stopped, or crash, at any point, and continues there. A lease keeps two processes from running the same pair.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import ThreadId
from clew.core.lookup import SEARCH_LIMIT, by_prefix
from clew.core.pairs.cursor import BEGINNING, FollowedEvent, PairCursor
from clew.core.pairs.pair import (
    Pair,
    PairPart,
    PairRound,
    PairStatus,
    PairWarned,
    PlannedMessage,
    known_models,
)
from clew.core.record import Record
from clew.core.thread import Origin, OriginKind, Permissions, name_from
from clew.engine import leases
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import NotFound, UsageError
from clew.hosts.pairs import folder, imports, rows
from clew.hosts.pairs.following import follow
from clew.hosts.pairs.live import DEFAULT_RUN_OPTIONS, LivePair, PairRunOptions, check_free, lease_key, sessions_of
from clew.hosts.pairs.naming import check_pair_name
from clew.hosts.pairs.rows import ResumeOptions
from clew.hosts.pairs.runs import PairRuns, taken_over
from clew.hosts.validation import check_prompt, existing_dir
from clew.store.store import Store
from clew.store.tables.pairs import ALL_PAIRS

MAX_MESSAGE_CHARS = 1_000_000


class NewPair(Record):
    """What a pair is created with."""

    task: str
    cwd: str
    agent: str
    name: str | None = None
    number_if_taken: bool = False  # a taken name gets a number; else it raises Conflict
    instructor_model: str | None = None
    worker_model: str | None = None
    thinking: bool = False
    max_rounds: int = 10
    last_round: int | None = None  # None: `max_rounds`
    permissions: Permissions = Permissions.EDITS
    planned_messages: tuple[PlannedMessage, ...] = ()
    origins: Mapping[PairPart, Origin] = imports.NO_ORIGINS  # of its threads, if it was made from another pair


class PairState(Record):
    """A pair with its rounds, sessions and costs."""

    pair: Pair
    status: PairStatus
    rounds: tuple[PairRound, ...]
    permissions: Permissions
    sessions: dict[str, dict[str, str]]  # by part and model
    usage: Usage
    cost_usd: float


class Pairs:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._runs = PairRuns(engine)

    async def start(self, new: NewPair, options: PairRunOptions = DEFAULT_RUN_OPTIONS) -> LivePair:
        """Creates a pair and runs it in the background. The pair is on disk when this returns."""
        check_prompt(new.task)
        self._engine.find(new.agent)
        for model in (new.instructor_model, new.worker_model):
            check_argument("model", model)
        if new.name is not None:
            check_pair_name(new.name)
        context = self._engine.context
        now, cwd = context.clock(), existing_dir(new.cwd)
        pair = Pair(
            id=folder.new_pair_id(now, context.new_id()),
            name=new.name or name_from(new.task),
            task=new.task.strip(),
            cwd=cwd,
            agent=new.agent,
            instructor_thread_id=ThreadId(context.new_id()),
            worker_thread_id=ThreadId(context.new_id()),
            instructor_model=new.instructor_model,
            worker_model=new.worker_model,
            models=known_models(new.instructor_model, new.worker_model),
            thinking=new.thinking,
            max_rounds=new.max_rounds,
            last_round=new.last_round or new.max_rounds,
            planned_messages=new.planned_messages,
            created_at=now,
            updated_at=now,
        )
        token = context.new_id()

        def create(store: Store) -> Pair:
            made = imports.create_with_threads(
                store, pair, new.permissions, unique=new.name is None or new.number_if_taken, origins=new.origins
            )
            self._take_lease(store, made, token)
            return rows.open_round(store, made, 1, now, rows.new_mark(context))

        return self._run(await self._store.atomically(create), token, options)

    async def resume(
        self, pair_id: str, resume_options: ResumeOptions, options: PairRunOptions = DEFAULT_RUN_OPTIONS
    ) -> LivePair:
        """Continues a pair where it stopped. Raises NotFound, Busy, and UsageError when there is nothing to do."""
        pair = await self.check(pair_id, resume_options)
        resume_options = resume_options.replace(cwd=existing_dir(resume_options.cwd or pair.cwd))
        await self._engine.recover()
        context = self._engine.context
        token = context.new_id()
        await self._store.atomically(lambda store: self._take_lease(store, pair, token))

        def resume(store: Store) -> Pair:
            stored = store.pairs.require(pair.id)
            return rows.resume(store, stored, resume_options, context.clock(), rows.new_mark(context))

        try:
            resumed = await self._store.atomically(resume)
        except BaseException:
            await self._store.call(lambda store: store.leases.release(token))
            raise
        return self._run(resumed, token, options, _differences(pair, resumed))

    async def stop(self, pair_id: str) -> bool:
        """Asks the process that runs the pair, whichever it is, to stop gently. False: no process runs it.

        Raises NotFound.
        """

        def ask_to_stop(store: Store) -> Pair | None:
            pair = store.pairs.require(pair_id)
            if leases.live_lease(store, lease_key(pair), self._engine.context) is None:
                return None
            return store.pairs.update(pair.id, at=pair.updated_at, stop_requested=True)

        pair = await self._store.atomically(ask_to_stop)
        if pair is not None and pair.run_id is not None:
            await self._engine.cancel(pair.run_id)
        return pair is not None

    def follow(self, pair_id: str, after: PairCursor = BEGINNING) -> AsyncGenerator[FollowedEvent, None]:
        """The events of a pair that any process runs, after that one, until no process runs it. Raises NotFound."""
        return follow(self._engine, pair_id, after)

    async def check(self, pair_id: str, options: ResumeOptions, *, fork_at: int | None = None) -> Pair:
        """Checks that the pair could be resumed with these options, and writes nothing.

        With `fork_at`, checks that a fork that ends with this round could be resumed. Raises NotFound, UsageError and
        AgentMissing.
        """
        state = await self.find(pair_id)
        pair = state.pair
        if len(options.message) > MAX_MESSAGE_CHARS:
            raise UsageError(
                f"The message has {len(options.message):,} characters; the limit is {MAX_MESSAGE_CHARS:,}."
            )
        self._engine.find(options.agent or pair.agent)
        for model in (options.instructor_model, options.worker_model):
            check_argument("model", model)
        existing_dir(options.cwd or pair.cwd)
        await self._store.call(lambda store: rows.check_permissions(store, pair, options))
        order = next((round_.order for round_ in state.rounds if round_.number == fork_at), None)
        if order is not None and not order.should_continue and not (options.message or rows.has_more_to_say(pair)):
            raise UsageError(
                f"{pair.name} finished with round {fork_at}, and its fork would have nothing to do.",
                hint="Say what is next in a message, or fork before it.",
            )
        return pair

    async def import_file(
        self, path: Path, *, cwd: str, agent: str, permissions: Permissions = Permissions.EDITS
    ) -> imports.ImportedPair:
        """Imports the pair in a state file. Raises UsageError, Conflict, and Busy while the pair is running."""
        return await imports.import_file(self._engine, path, cwd=cwd, agent=agent, permissions=permissions)

    async def find(self, pair_id: str) -> PairState:
        """Raises NotFound."""
        return await self._store.call(lambda store: self._state(store, store.pairs.require(pair_id)))

    async def resolve(self, name: str) -> str:
        """The id of the pair with that id or name, or with an id that begins so, if only one does. Raises NotFound."""
        found = await self._store.call(lambda store: store.pairs.find(name))
        if found is not None:
            return found.id
        recent = await self._store.call(lambda store: store.pairs.recent(limit=SEARCH_LIMIT))
        return by_prefix(name, recent, lambda pair: pair.id, noun="pair", hint=ALL_PAIRS).id

    async def latest(self, cwd: str) -> str:
        """The id of the pair that was last used in that directory; replays do not count. Raises NotFound."""
        real = existing_dir(cwd)

        def newest(store: Store) -> Pair | None:
            recent = store.pairs.recent(cwd=real, limit=SEARCH_LIMIT)
            return next((pair for pair in recent if not _is_replay(store, pair)), None)

        found = await self._store.call(newest)
        if found is not None:
            return found.id
        file = Path(real, folder.FOLDER, folder.CURRENT)
        # The file may have come with a repository, so it is used only if the user names it.
        hint = "Start one with clew pair TASK."
        if file.exists():
            hint = f"There is a file: clew pair --session-file {file}"
        elif elsewhere := await self._store.call(lambda store: store.pairs.recent(limit=1)):
            hint = f"Start one with clew pair TASK; --session NAME --cwd {real} moves one here: {elsewhere[0].name}?"
        raise NotFound("There is no pair of this directory yet.", hint=hint)

    async def list(self, *, cwd: str | None = None, limit: int = 50) -> Sequence[PairState]:
        """The most recently used first."""
        return await self._store.call(
            lambda store: [self._state(store, pair) for pair in store.pairs.recent(cwd=cwd, limit=limit)]
        )

    def _run(
        self, pair: Pair, token: str, options: PairRunOptions, warnings: Sequence[tuple[str, str]] = ()
    ) -> LivePair:
        engine = self._engine
        held = leases.HeldLeases(engine.store, engine.settings, engine.context, partial(taken_over, pair))
        held.keep_as_fence(lease_key(pair), token)
        live = LivePair(pair, held, options)
        for code, message in warnings:
            live.send(PairWarned(pair.number, code, message))
        live.task = self._engine.in_background(self._runs.run(live))
        return live

    def _take_lease(self, store: Store, pair: Pair, token: str) -> None:
        """Raises Busy while another process runs the pair."""
        check_free(store, self._engine, pair)
        leases.take_over(store, lease_key(pair), token, self._engine.context, self._engine.settings)

    def _state(self, store: Store, pair: Pair) -> PairState:
        held = leases.live_lease(store, lease_key(pair), self._engine.context)
        runs = [run for part in PairPart for run in store.runs.stats(thread_id=pair.thread_of(part))]
        return PairState(
            pair,
            pair.status(is_held=held is not None),
            tuple(store.pairs.rounds(pair.id)),
            store.threads.require_by_id(pair.worker_thread_id).permissions,
            {part.value: sessions_of(store, pair.thread_of(part)) for part in PairPart},
            sum((run.usage for run in runs), NO_USAGE),
            sum(run.cost_usd for run in runs),
        )


def _is_replay(store: Store, pair: Pair) -> bool:
    origin = store.threads.require_by_id(pair.instructor_thread_id).origin
    return origin is not None and origin.how is OriginKind.REPLAY


def _differences(before: Pair, now: Pair) -> list[tuple[str, str]]:
    """Warnings, as code and message, about what a resume changed."""
    named = (
        ("agent", before.agent, now.agent),
        ("instructor's model", before.instructor_model, now.instructor_model),
        ("worker's model", before.worker_model, now.worker_model),
    )
    warnings = [
        ("another_model", f"the {what} was {old or 'the default'}; the pair continues with {new or 'the default'}")
        for what, old, new in named
        if new != old
    ]
    if now.cwd != before.cwd:
        warnings.append(("another_directory", f"the pair was in {before.cwd}; from now on it is in {now.cwd}"))
    return warnings
