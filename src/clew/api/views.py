"""What surfaces show of the store: lists and views of threads, changes, events as they are stored, figures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from clew.core.ids import RunId
from clew.core.record import Record, replace
from clew.core.runs.question import Question
from clew.core.runs.run import Run, RunStatus
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.store.records import Changes, RunTotals, RunView, StoredEvent, ThreadPage, ThreadSummary, ThreadView, TurnView
from clew.store.views.search import ListedThread, SearchHit

if TYPE_CHECKING:
    from clew.core.costs.savings import DailySavings

MODELS_LISTED = 20
RECENT_RUNS = 500


class AgentHealth(Record):
    """An agent as it was found on this machine."""

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
    models: tuple[str, ...]  # that have answered before


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

    async def version(self) -> int:
        """A number that grows with every change of any thread."""
        return await self._engine.store.call(lambda store: store.versions.current())

    async def page(
        self,
        *,
        q: str | None = None,
        cwd: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> ThreadPage:
        """`kind`: "chat", or another host's; None: all."""
        return await self._engine.store.call(
            lambda store: store.views.page(q=q, cwd=cwd, kind=kind, limit=limit, offset=offset)
        )

    async def threads(
        self,
        *,
        q: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        used_before: float | None = None,
        used_after: float | None = None,
        sort: str = "updated",
        limit: int = 50,
        offset: int = 0,
    ) -> list[ListedThread]:
        """A page of threads with their sizes. `sort`: "updated", "size" or "cost"; `project`: a directory and those
        below it."""
        return await self._engine.store.call(
            lambda store: store.search.threads(
                q=q,
                cwd=cwd,
                project=project,
                kind=kind,
                agent=agent,
                used_before=used_before,
                used_after=used_after,
                sort=sort,
                limit=limit,
                offset=offset,
            )
        )

    async def search(
        self,
        text: str,
        *,
        project: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        archived: bool = False,
        limit: int = 20,
        offset: int = 0,
    ) -> list[SearchHit]:
        """Turns with all of these words, the newest first. `archived`: also archived turns."""
        return await self._engine.store.call(
            lambda store: store.search.turns(
                text, project=project, kind=kind, agent=agent, archived=archived, limit=limit, offset=offset
            )
        )

    async def summary(self, name_or_id: str) -> ThreadSummary:
        return await self._engine.store.call(lambda store: store.views.summary(name_or_id))

    async def thread(self, name_or_id: str, *, before: int | None = None, limit: int = 100) -> ThreadView:
        return await self._engine.store.read_large(
            lambda store: store.views.thread(name_or_id, before=before, limit=limit)
        )

    async def changes(self, after: int) -> Changes:
        return await self._engine.store.call(lambda store: store.views.changes(after))

    async def turn(self, thread: HasThread, turn_id: str) -> TurnView:
        return await self._engine.store.call(lambda store: store.views.turn(thread.record.id, turn_id))

    async def run(self, run_id: str) -> RunView:
        return await self._engine.store.call(lambda store: store.views.run(store.runs.require(run_id)))

    async def runs(
        self, *, thread: HasThread | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[RunView]:
        """The newest first."""
        of_thread = _id(thread)
        return await self._engine.store.call(
            lambda store: [
                store.views.run(run) for run in store.runs.newest(thread_id=of_thread, statuses=statuses, limit=limit)
            ]
        )

    async def questions(self, *, thread: HasThread | None = None) -> list[Question]:
        """The open questions, the oldest first; of runs of any process, also of a dead one."""
        of_thread = _id(thread)
        asked = await self._engine.store.call(lambda store: store.questions.open(of_thread))
        return [question for question in asked if question.is_open]

    async def steps(self, run_id: str) -> list[StoredEvent]:
        """What a run did, without the pieces of text."""
        return await self._engine.store.read_large(lambda store: store.events.steps(run_id))

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[StoredEvent, None]:
        """The events of any process's run after that one, each when it is stored, to the last."""
        return self._engine.follow(RunId(run_id), after)

    async def written(self) -> None:
        """Waits until this process has changed something. Changes by other processes are seen in `version` alone."""
        await self._engine.store.changed()

    async def recent_runs(
        self, *, thread: HasThread | None = None, since: float | None = None, limit: int = RECENT_RUNS
    ) -> list[Run]:
        """The last runs that came to a decision and ended, the oldest first."""
        of_thread = _id(thread)
        newest = await self._engine.store.call(
            lambda store: store.runs.ended(thread_id=of_thread, since=since, limit=limit)
        )
        return newest[::-1]

    async def daily(self, *, thread: HasThread | None = None, since: float | None = None) -> list[DailySavings]:
        """What `stats` sums up, by day."""
        from clew.core.costs.savings import daily_savings

        of_thread = _id(thread)
        return daily_savings(
            await self._engine.store.call(lambda store: store.runs.stats(thread_id=of_thread, since=since))
        )

    async def counts(self) -> StoreCounts:
        return await self._engine.store.call(
            lambda store: StoreCounts(tuple(store.counts.by_outcome()), store.counts.live_runs(), store.counts.jobs())
        )

    async def agents(self) -> list[AgentHealth]:
        return [await self._health(name) for name in self._engine.agents()]

    async def _health(self, name: str) -> AgentHealth:
        stats = await self._engine.store.call(lambda store: store.runs.stats())
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
