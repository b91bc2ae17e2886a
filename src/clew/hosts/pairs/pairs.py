"""The pair host: an instructor plans, a worker does, round by round, each in a thread of its own.

What is due stands in the store before it is asked, and what came of it before anything else follows; so a pair can be
stopped, or die, at any point, and goes on just there. A lease keeps two processes from carrying out the same one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import ThreadId
from clew.core.lookup import SEARCHED, by_beginning
from clew.core.pairs.pair import (
    Pair,
    PairPart,
    PairRound,
    PairStatus,
    PairWarned,
    known_models,
)
from clew.core.record import Record
from clew.core.thread import Permissions, name_from
from clew.engine import leases
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import NotFound, UsageError
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.pairs import imports as pair_import
from clew.hosts.pairs import rows as pair_rows
from clew.hosts.pairs.live import DEFAULT_RUN_OPTIONS, LivePair, PairRunOptions, check_free, lease_key, sessions_of
from clew.hosts.pairs.naming import check_pair_name
from clew.hosts.pairs.rows import ResumeOptions
from clew.hosts.pairs.runs import PairRuns, taken_over
from clew.hosts.validation import check_prompt, existing_dir
from clew.store.store import Store
from clew.store.tables.pairs import ALL_PAIRS

log = logging.getLogger("clew.hosts.pairs.pairs")

T = TypeVar("T")
MESSAGE_MOST = 1_000_000


class NewPair(Record):
    """What a pair is made with."""

    task: str
    cwd: str
    agent: str
    name: str | None = None
    instructor_model: str | None = None
    worker_model: str | None = None
    thinking: bool = False
    max_rounds: int = 10
    permissions: Permissions = Permissions.EDITS


class PairState(Record):
    """A pair with its rounds as they are."""

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
        self._runs = PairRuns(engine)

    async def start(self, new: NewPair, manner: PairRunOptions = DEFAULT_RUN_OPTIONS) -> LivePair:
        """The pair is on disk when this returns, and goes on by itself."""
        check_prompt(new.task)
        self._engine.find(new.agent)
        for model in (new.instructor_model, new.worker_model):
            check_argument("model", model)
        if new.name is not None:
            check_pair_name(new.name)
        context = self._engine.context
        now, cwd = context.clock(), existing_dir(new.cwd)
        pair = Pair(
            id=pair_folder.pair_id(now, context.new_id()),
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
            last_round=new.max_rounds,
            created_at=now,
            updated_at=now,
        )
        token = context.new_id()

        def create(store: Store) -> Pair:
            made = pair_import.create_with_threads(store, pair, new.permissions, unique=new.name is None)
            self._take(store, made, token)
            return pair_rows.open_round(store, made, 1, now, self._mark())

        return self._begin(await self._engine.store.atomically(create), token, manner)

    async def resume(
        self, pair_id: str, wishes: ResumeOptions, manner: PairRunOptions = DEFAULT_RUN_OPTIONS
    ) -> LivePair:
        """Goes on where it stopped. Raises NotFound, Busy, and UsageError when there is nothing to go on with."""
        pair = await self.check(pair_id, wishes)
        wishes = wishes.replace(cwd=existing_dir(wishes.cwd or pair.cwd))
        await self._engine.recover()
        token = self._engine.context.new_id()
        await self._engine.store.atomically(lambda store: self._take(store, pair, token))
        now, mark = self._engine.context.clock(), self._mark()

        def take_up(store: Store) -> Pair:
            return pair_rows.take_up(store, store.pairs.require(pair.id), wishes, now, mark)

        try:
            taken = await self._engine.store.atomically(take_up)
        except BaseException:
            await self._call(lambda store: store.leases.release(token))
            raise
        return self._begin(taken, token, manner, _differences(pair, taken))

    async def check(self, pair_id: str, wishes: ResumeOptions, *, fork_at: int | None = None) -> Pair:
        """Can it be gone on with so? Writes nothing. `fork_at`: in a fork that ends with this round.

        Raises NotFound, UsageError and AgentMissing.
        """
        state = await self.find(pair_id)
        pair = state.pair
        if len(wishes.message) > MESSAGE_MOST:
            raise UsageError(f"The message has {len(wishes.message):,} characters; the limit is {MESSAGE_MOST:,}.")
        self._engine.find(wishes.agent or pair.agent)
        for model in (wishes.instructor_model, wishes.worker_model):
            check_argument("model", model)
        existing_dir(wishes.cwd or pair.cwd)
        await self._call(lambda store: pair_rows.check_may(store, pair, wishes))
        order = next((round_.order for round_ in state.rounds if round_.number == fork_at), None)
        if order is not None and not order.should_continue and not (wishes.message or pair.message):
            raise UsageError(
                f"{pair.name} finished with round {fork_at}, and its fork would have nothing to do.",
                hint="Say what is next in a message, or fork before it.",
            )
        return pair

    async def bring_in(
        self, path: Path, *, cwd: str, agent: str, permissions: Permissions | None = None
    ) -> pair_import.ImportedPair:
        """The pair of a state file, in this store. Raises UsageError, Conflict, and Busy while the pair is going on."""
        return await pair_import.bring_in(
            self._engine, path, cwd=cwd, agent=agent, permissions=permissions or Permissions.EDITS
        )

    async def find(self, pair_id: str) -> PairState:
        """Raises NotFound."""
        return await self._call(lambda store: self._state(store, store.pairs.require(pair_id)))

    async def resolve(self, name: str) -> str:
        """The id that is meant: an id, a name, or an unambiguous beginning of an id. NotFound."""
        found = await self._call(lambda store: store.pairs.find(name))
        if found is not None:
            return found.id
        recent = await self._call(lambda store: store.pairs.recent(limit=SEARCHED))
        return by_beginning(name, recent, lambda pair: pair.id, noun="pair", hint=ALL_PAIRS).id

    async def latest(self, cwd: str) -> str:
        """The one last used in that directory. NotFound."""
        real = existing_dir(cwd)
        newest = await self._call(lambda store: store.pairs.recent(cwd=real, limit=1))
        if newest:
            return newest[0].id
        file = Path(real, pair_folder.FOLDER, pair_folder.CURRENT)
        # A repository may have brought it along: what stands in it is asked of an agent only when somebody says so.
        hint = "Start one with clew pair TASK."
        if file.exists():
            hint = f"There is a file: clew pair --session-file {file}"
        elif elsewhere := await self._call(lambda store: store.pairs.recent(limit=1)):
            hint = f"Start one with clew pair TASK; --session NAME --cwd {real} moves one here: {elsewhere[0].name}?"
        raise NotFound("There is no pair of this directory yet.", hint=hint)

    async def list(self, *, cwd: str | None = None, limit: int = 50) -> Sequence[PairState]:
        """Those last used come first."""
        return await self._call(
            lambda store: [self._state(store, pair) for pair in store.pairs.recent(cwd=cwd, limit=limit)]
        )

    def _begin(
        self,
        pair: Pair,
        token: str,
        manner: PairRunOptions,
        warnings: Sequence[tuple[str, str]] = (),
    ) -> LivePair:
        engine = self._engine
        held = leases.HeldLeases(engine.store, engine.settings, engine.context, partial(taken_over, pair))
        held.keep_as_fence(lease_key(pair), token)
        live = LivePair(pair, held, manner)
        for code, message in warnings:
            live.tell(PairWarned(pair.number, code, message))
        live.task = self._engine.in_background(self._runs.carry_out(live))
        return live

    def _take(self, store: Store, pair: Pair, token: str) -> None:
        """This process carries it out from here on. Raises Busy while another one does."""
        context, settings = self._engine.context, self._engine.settings
        check_free(store, self._engine, pair)
        leases.take_over(store, lease_key(pair), token, context, settings)

    def _state(self, store: Store, pair: Pair) -> PairState:
        held = leases.live_lease(store, lease_key(pair), self._engine.context)
        rows = [row for part in PairPart for row in store.runs.stats(thread_id=pair.thread_of(part))]
        return PairState(
            pair,
            pair.status(is_held=held is not None),
            tuple(store.pairs.rounds(pair.id)),
            store.threads.require_by_id(pair.worker_thread_id).permissions,
            {part.value: sessions_of(store, pair.thread_of(part)) for part in PairPart},
            sum((row.usage for row in rows), NO_USAGE),
            sum(row.cost_usd for row in rows),
        )

    def _mark(self) -> str:
        return self._engine.context.new_id()[:16]

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.store.call(work)


def _differences(pair: Pair, now: Pair) -> list[tuple[str, str]]:
    """What is not as it was saved, from here on."""
    named = (
        ("agent", pair.agent, now.agent),
        ("instructor's model", pair.instructor_model, now.instructor_model),
        ("worker's model", pair.worker_model, now.worker_model),
    )
    told = [
        ("another_model", f"the {what} was {old or 'the default'}; the pair goes on with {new or 'the default'}")
        for what, old, new in named
        if new != old
    ]
    if now.cwd != pair.cwd:
        told.append(("another_directory", f"the pair was in {pair.cwd}; from now on it is in {now.cwd}"))
    return told
