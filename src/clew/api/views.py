"""What surfaces show of the store: lists and views of threads, changes, stored events, figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, Unpack

from clew.core.ids import RunId
from clew.core.images import Image
from clew.core.record import Record, replace
from clew.core.runs.question import Question
from clew.core.runs.run import Run, RunBelonging, RunStatus
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.errors import ClewError, NotFound
from clew.store.records import Changes as Changes
from clew.store.records import RunTotals as RunTotals
from clew.store.records import RunView as RunView
from clew.store.records import StoredEvent as StoredEvent
from clew.store.records import ThreadPage as ThreadPage
from clew.store.records import ThreadSummary as ThreadSummary
from clew.store.records import ThreadView as ThreadView
from clew.store.records import TurnView as TurnView
from clew.store.views.search import ListedThread as ListedThread
from clew.store.views.search import PageFilters, ThreadFilters, TurnFilters
from clew.store.views.search import SearchHit as SearchHit

if TYPE_CHECKING:
    from clew.core.costs.savings import DailySavings
    from clew.core.runs.proposed_edits import ProposedEdit
    from clew.store.store import Store

MODELS_LISTED = 20
RECENT_RUNS = 500


class AgentHealth(Record):
    """An agent on this machine, and whether it works."""

    name: str
    path: str | None
    source: str | None
    version: str
    product: str
    resumes: bool
    asks: bool
    problem: str | None  # None: it works
    hint: str | None
    default_model: str | None
    models: tuple[str, ...]  # the models that have been used


class StoreCounts(Record):
    """What is in the store, for monitoring."""

    tallies: tuple[RunTotals, ...]
    live_runs: int
    jobs: Mapping[str, int]  # by status


class HasThread(Protocol):
    """Anything that holds a thread's record."""

    record: Thread


def _id(thread: HasThread | None) -> str | None:
    return None if thread is None else thread.record.id


class Views:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store

    async def version(self) -> int:
        """A number that grows with every change of any thread."""
        return await self._store.call(lambda store: store.versions.current())

    async def page(self, **filters: Unpack[PageFilters]) -> ThreadPage:
        """A page of threads, the last used first, and the number of all."""
        return await self._store.call(lambda store: store.views.page(**filters))

    async def threads(self, **filters: Unpack[ThreadFilters]) -> list[ListedThread]:
        """A page of threads with their sizes, in any order."""
        return await self._store.call(lambda store: store.search.threads(**filters))

    async def search(self, text: str, **filters: Unpack[TurnFilters]) -> list[SearchHit]:
        """Turns that contain all of these words, the newest first."""
        return await self._store.call(lambda store: store.search.turns(text, **filters))

    async def names(self, what: Literal["threads", "pairs", "reviews"], limit: int = 1000) -> list[str]:
        """The names of the threads or pairs that were used last, or the ids of the newest reviews."""

        def read(store: Store) -> list[str]:
            if what == "reviews":
                return [review.id for review in store.reviews.newest(limit=limit)]
            table = store.threads if what == "threads" else store.pairs
            return [each.name for each in table.recent(limit=limit)]

        return await self._store.call(read)

    async def summary(self, name_or_id: str) -> ThreadSummary:
        return await self._store.call(lambda store: store.views.summary(name_or_id))

    async def thread(self, name_or_id: str, *, before: int | None = None, limit: int = 100) -> ThreadView:
        return await self._store.read_large(lambda store: store.views.thread(name_or_id, before=before, limit=limit))

    async def changes(self, after: int) -> Changes:
        return await self._store.call(lambda store: store.views.changes(after))

    async def turn(self, thread: HasThread, turn_id: str) -> TurnView:
        return await self._store.call(lambda store: store.views.turn(thread.record.id, turn_id))

    async def image(self, thread: HasThread, digest: str) -> tuple[Image, bytes]:
        """An image of the thread with its bytes. Raises NotFound if no turn and no prompt of the thread has it."""

        def read(store: Store) -> tuple[Image, bytes]:
            named = {image.digest: image for image in store.turns.images(thread.record.id)}
            image = named.get(digest)
            content = self._engine.images.read(image) if image is not None else None
            if image is None or content is None:
                raise NotFound(f"{thread.record.name} has no such image.")
            return image, content

        return await self._store.call(read)

    async def run(self, run_id: str) -> RunView:
        return await self._store.call(lambda store: store.views.run(store.runs.require(run_id)))

    async def runs(
        self, *, thread: HasThread | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[RunView]:
        """The newest first."""

        def view(store: Store) -> list[RunView]:
            runs = store.runs.newest(thread_id=_id(thread), statuses=statuses, limit=limit)
            return store.views.runs(runs)

        return await self._store.call(view)

    async def belongings(self, runs: Sequence[Run]) -> dict[str, RunBelonging]:
        """By the id of the run: the name and kind of its thread, and the job, review or pair that it is part of.

        A run that was deleted in the meantime has none.
        """
        return await self._store.call(lambda store: store.runs.belongings(runs))

    async def questions(self, *, thread: HasThread | None = None) -> list[Question]:
        """The open questions, the oldest first, of runs of any process, also of a dead one."""
        asked = await self._store.call(lambda store: store.questions.open(_id(thread)))
        return [question for question in asked if question.is_open]

    async def questions_of(self, run_id: str) -> list[Question]:
        """All questions of a run, open or not, the oldest first."""
        return await self._store.call(lambda store: store.questions.of_run(run_id))

    async def proposed_edits(self, run_id: str, question_id: str) -> tuple[ProposedEdit, ...]:
        """What the tool that a question is about would change in files, as they are now. Reads the files."""
        from clew.engine.proposed_edits import proposed_edits

        def read(store: Store) -> tuple[Question, Run, Thread]:
            question = store.questions.require(run_id, question_id)
            return question, store.runs.require(run_id), store.threads.require_by_id(question.thread_id)

        question, run, thread = await self._store.call(read)
        edits = () if question.is_form else self._engine.adapter(run.agent).edits(question.tool, question.input)
        return await asyncio.to_thread(proposed_edits, edits, thread.cwd) if edits else ()

    async def events(self, run_id: str) -> list[StoredEvent]:
        """The events of a run so far, in order."""
        return await self._store.read_large(lambda store: store.events.of_run(run_id))

    async def steps(self, run_id: str) -> list[StoredEvent]:
        """The events of a run, without the pieces of text."""
        return await self._store.read_large(lambda store: store.events.steps(run_id))

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[StoredEvent, None]:
        """The events of a run of any process after number `after`, each when it is stored, until the run ends."""
        return self._engine.follow(RunId(run_id), after)

    async def written(self) -> None:
        """Waits until this process has changed something. Only `version` shows changes by other processes."""
        await self._store.changed()

    async def recent_runs(
        self, *, thread: HasThread | None = None, since: float | None = None, limit: int = RECENT_RUNS
    ) -> list[Run]:
        """The last runs that had a decision and ended, the oldest first."""
        newest = await self._store.call(lambda store: store.runs.ended(thread_id=_id(thread), since=since, limit=limit))
        return newest[::-1]

    async def daily(self, *, thread: HasThread | None = None, since: float | None = None) -> list[DailySavings]:
        """The sums of `stats` by day."""
        from clew.core.costs.savings import daily_savings

        return daily_savings(await self._store.call(lambda store: store.runs.stats(thread_id=_id(thread), since=since)))

    async def counts(self) -> StoreCounts:
        return await self._store.call(
            lambda store: StoreCounts(tuple(store.counts.by_outcome()), store.counts.live_runs(), store.counts.jobs())
        )

    async def agents(self) -> list[AgentHealth]:
        return [await self._health(name) for name in self._engine.agents()]

    async def _health(self, name: str) -> AgentHealth:
        stats = await self._store.call(lambda store: store.runs.stats())
        models = tuple(dict.fromkeys(row.model for row in stats if row.agent == name and row.model))[:MODELS_LISTED]
        default = await self._engine.default_model(name)
        try:
            binary = self._engine.find(name)
            can = await self._engine.abilities(name, binary)
        except ClewError as error:
            return AgentHealth(name, None, None, "", "", False, False, error.message, error.hint, default, models)
        health = AgentHealth(
            name=name,
            path=binary.path,
            source=binary.source,
            version=can.version,
            product=can.product,
            resumes=can.resume,
            asks=can.asks,
            problem=None,
            hint=None,
            default_model=default,
            models=models,
        )
        if can.is_agent:
            return health
        problem = f"{binary.path} is not the {name} CLI."
        return replace(health, problem=problem, hint=f"Set agents.{name}.path to the right one.")
