"""The pair host: an instructor plans, a worker does, round by round, each in a thread of its own.

What is due stands in the store before it is asked, and what came of it before anything else follows; so a pair can be
stopped, or die, at any point, and goes on just there. A lease keeps two processes from carrying out the same one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from clew.core.ids import ThreadId
from clew.core.pair import (
    Pair,
    PairStatus,
    PairWarned,
    Part,
    Round,
    known_models,
)
from clew.core.record import Record
from clew.core.thread import Permissions, name_from
from clew.core.usage import NO_USAGE, Usage
from clew.engine import leases
from clew.engine.engine import Engine, check_word
from clew.engine.leases import is_dead
from clew.errors import NotFound, UsageError
from clew.hosts import pair_folder, pair_import, pair_rows
from clew.hosts.checks import check_prompt, existing_dir
from clew.hosts.pair_live import AS_EVER, LivePair, Manner, check_free, lease_key, sessions_of
from clew.hosts.pair_naming import check_pair_name
from clew.hosts.pair_rows import Wishes
from clew.hosts.pair_runs import PairRuns
from clew.store.pairs import ALL_PAIRS
from clew.store.store import Store

log = logging.getLogger("clew.hosts.pair")

T = TypeVar("T")
MESSAGE_MOST = 1_000_000
SEARCHED = 1000


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
    rounds: tuple[Round, ...]
    permissions: Permissions
    sessions: dict[str, dict[str, str]]  # by part and model
    usage: Usage
    cost_usd: float


class Pairs:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._runs = PairRuns(engine)

    async def start(self, new: NewPair, manner: Manner = AS_EVER) -> LivePair:
        """The pair is on disk when this returns, and goes on by itself."""
        check_prompt(new.task)
        self._engine.find(new.agent)
        for model in (new.instructor_model, new.worker_model):
            check_word("model", model)
        if new.name is not None:
            check_pair_name(new.name)
        around = self._engine.around
        now, cwd = around.clock(), existing_dir(new.cwd)
        pair = Pair(
            id=pair_folder.pair_id(now, around.new_id()),
            name=new.name or name_from(new.task),
            task=new.task.strip(),
            cwd=cwd,
            agent=new.agent,
            instructor_thread_id=ThreadId(around.new_id()),
            worker_thread_id=ThreadId(around.new_id()),
            instructor_model=new.instructor_model,
            worker_model=new.worker_model,
            models=known_models(new.instructor_model, new.worker_model),
            thinking=new.thinking,
            max_rounds=new.max_rounds,
            last_round=new.max_rounds,
            created_at=now,
            updated_at=now,
        )
        token = around.new_id()

        def create(store: Store) -> Pair:
            made = pair_import.create_with_threads(store, pair, new.permissions, unique=new.name is None)
            self._take(store, made, token)
            return pair_rows.open_round(store, made, 1, now, self._mark())

        return self._begin(await self._engine.database.atomically(create), token, manner)

    async def resume(self, pair_id: str, wishes: Wishes, manner: Manner = AS_EVER) -> LivePair:
        """Goes on where it stopped. Raises NotFound, Busy, and UsageError when there is nothing to go on with."""
        pair = await self.check(pair_id, wishes)
        wishes = wishes.replace(cwd=existing_dir(wishes.cwd or pair.cwd))
        await self._engine.recover()
        token = self._engine.around.new_id()
        await self._engine.database.atomically(lambda store: self._take(store, pair, token))
        now, mark = self._engine.around.clock(), self._mark()

        def take_up(store: Store) -> Pair:
            return pair_rows.take_up(store, store.require_pair(pair.id), wishes, now, mark)

        try:
            taken = await self._engine.database.atomically(take_up)
        except BaseException:
            await self._call(lambda store: store.release_lease(token))
            raise
        return self._begin(taken, token, manner, _differences(pair, taken))

    async def check(self, pair_id: str, wishes: Wishes, *, fork_at: int | None = None) -> Pair:
        """Can it be gone on with so? Writes nothing. `fork_at`: in a fork that ends with this round.

        Raises NotFound, UsageError and AgentMissing.
        """
        state = await self.find(pair_id)
        pair = state.pair
        if len(wishes.message) > MESSAGE_MOST:
            raise UsageError(f"The message has {len(wishes.message):,} characters; the limit is {MESSAGE_MOST:,}.")
        self._engine.find(wishes.agent or pair.agent)
        for model in (wishes.instructor_model, wishes.worker_model):
            check_word("model", model)
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
    ) -> pair_import.Imported:
        """The pair of a state file, in this store. Raises UsageError, Conflict, and Busy while the pair is going on."""
        return await pair_import.bring_in(
            self._engine, path, cwd=cwd, agent=agent, permissions=permissions or Permissions.EDITS
        )

    async def find(self, pair_id: str) -> PairState:
        """Raises NotFound."""
        return await self._call(lambda store: self._state(store, store.require_pair(pair_id)))

    async def resolve(self, name: str) -> str:
        """The id that is meant: an id, a name, or an unambiguous beginning of an id. NotFound."""
        found = await self._call(lambda store: store.pair(name))
        if found is not None:
            return found.id
        recent = await self._call(lambda store: store.pairs(limit=SEARCHED))
        close = [pair.id for pair in recent if name and pair.id.startswith(name)]
        if len(close) != 1:
            what = f"More than one pair begins with {name}" if close else f"There is no pair {name}"
            raise NotFound(f"{what}.", hint=ALL_PAIRS)
        return close[0]

    async def latest(self, cwd: str) -> str:
        """The one last used in that directory. NotFound."""
        real = existing_dir(cwd)
        newest = await self._call(lambda store: store.pairs(cwd=real, limit=1))
        if newest:
            return newest[0].id
        file = Path(real, pair_folder.FOLDER, pair_folder.CURRENT)
        # A repository may have brought it along: what stands in it is asked of an agent only when somebody says so.
        hint = "Start one with clew pair TASK."
        if file.exists():
            hint = f"There is a file: clew pair --session-file {file}"
        elif elsewhere := await self._call(lambda store: store.pairs(limit=1)):
            hint = f"Start one with clew pair TASK; --session NAME --cwd {real} moves one here: {elsewhere[0].name}?"
        raise NotFound("There is no pair of this directory yet.", hint=hint)

    async def list(self, *, cwd: str | None = None, limit: int = 50) -> Sequence[PairState]:
        """Those last used come first."""
        return await self._call(lambda store: [self._state(store, pair) for pair in store.pairs(cwd=cwd, limit=limit)])

    def _begin(
        self,
        pair: Pair,
        token: str,
        manner: Manner,
        warnings: Sequence[tuple[str, str]] = (),
    ) -> LivePair:
        live = LivePair(pair, token, manner)
        for code, message in warnings:
            live.tell(PairWarned(pair.number, code, message))
        live.task = self._engine.beside(self._runs.carry_out(live))
        return live

    def _take(self, store: Store, pair: Pair, token: str) -> None:
        """This process carries it out from here on. Raises Busy while another one does."""
        around, settings = self._engine.around, self._engine.settings
        check_free(store, self._engine, pair)
        held = store.lease(lease_key(pair))
        if held is not None:
            store.release_lease(held.token)
        now = leases.now(store, around)
        store.acquire_lease(
            lease_key(pair), token=token, owner=around.owner, run_id=None, now=now, ttl_s=settings.lease_s
        )

    def _state(self, store: Store, pair: Pair) -> PairState:
        held = store.lease(lease_key(pair))
        rows = [row for part in Part for row in store.stats(thread_id=pair.thread_of(part))]
        return PairState(
            pair,
            pair.status(is_held=held is not None and not is_dead(store, held, self._engine.around)),
            tuple(store.pair_rounds(pair.id)),
            store.require_thread_by_id(pair.worker_thread_id).permissions,
            {part.value: sessions_of(store, pair.thread_of(part)) for part in Part},
            sum((row.usage for row in rows), NO_USAGE),
            sum(row.cost_usd for row in rows),
        )

    def _mark(self) -> str:
        return self._engine.around.new_id()[:16]

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.database.call(work)


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
