"""What surfaces show of the store: cards, views, changes, events as they become durable, figures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from clew.core.ids import RunId
from clew.core.question import Question
from clew.core.record import Record, replace
from clew.core.run import Run, RunStatus
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.store.records import Changes, RunCard, StoredEvent, Tally, ThreadCard, ThreadPage, ThreadView, TurnCard
from clew.store.search import Hit, Listed

if TYPE_CHECKING:
    from clew.core.savings import Day

MODELS_LISTED = 20
RUNS_DRAWN = 500


class AgentHealth(Record):
    """An agent as it is found on this machine."""

    name: str
    path: str | None
    source: str | None
    version: str
    product: str
    resumes: bool
    asks: bool
    problem: str | None  # None: it is well
    hint: str | None
    default_model: str | None
    models: tuple[str, ...]  # that have answered before


class Counts(Record):
    """What is in the store, for whoever watches it."""

    tallies: tuple[Tally, ...]
    live_runs: int
    jobs: Mapping[str, int]  # by status


class Named(Protocol):
    """Whatever holds a thread's record."""

    record: Thread


def _id(thread: Named | None) -> str | None:
    return None if thread is None else thread.record.id


class Board:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def version(self) -> int:
        """Moves with every change of any thread."""
        return await self.engine.database.call(lambda store: store.version())

    async def cards(
        self,
        *,
        q: str | None = None,
        cwd: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> ThreadPage:
        """`kind`: "chat", or that of another host; None: all."""
        return await self.engine.database.call(
            lambda store: store.cards(q=q, cwd=cwd, kind=kind, limit=limit, offset=offset)
        )

    async def listed(
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
    ) -> list[Listed]:
        """A page of threads with their sizes. `sort`: "updated", "size" or "cost"; `project`: a directory and below."""
        return await self.engine.database.call(
            lambda store: store.listed(
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
    ) -> list[Hit]:
        """Turns with all of these words, the newest first. `archived`: also those that no longer stand."""
        return await self.engine.database.call(
            lambda store: store.search(
                text, project=project, kind=kind, agent=agent, archived=archived, limit=limit, offset=offset
            )
        )

    async def card(self, name_or_id: str) -> ThreadCard:
        return await self.engine.database.call(lambda store: store.card(name_or_id))

    async def view(self, name_or_id: str, *, before: int | None = None, limit: int = 100) -> ThreadView:
        return await self.engine.database.read_large(lambda store: store.view(name_or_id, before=before, limit=limit))

    async def changes(self, after: int) -> Changes:
        return await self.engine.database.call(lambda store: store.changes(after))

    async def turn_card(self, thread: Named, turn_id: str) -> TurnCard:
        return await self.engine.database.call(lambda store: store.turn_card(thread.record.id, turn_id))

    async def run_card(self, run_id: str) -> RunCard:
        return await self.engine.database.call(lambda store: store.run_card(store.require_run(run_id)))

    async def run_cards(
        self, *, thread: Named | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[RunCard]:
        """The newest first."""
        of_thread = _id(thread)
        return await self.engine.database.call(
            lambda store: [
                store.run_card(run) for run in store.runs(thread_id=of_thread, statuses=statuses, limit=limit)
            ]
        )

    async def questions(self, *, thread: Named | None = None) -> list[Question]:
        """The open ones, the oldest first; of runs of any process, also of one that died."""
        of_thread = _id(thread)
        asked = await self.engine.database.call(lambda store: store.open_questions(of_thread))
        return [question for question in asked if question.is_open]

    async def steps(self, run_id: str) -> list[StoredEvent]:
        """What a run did, without the pieces of text."""
        return await self.engine.database.read_large(lambda store: store.steps(run_id))

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[StoredEvent, None]:
        """A run's events after that one as they become durable, to the last; of a run of any process."""
        return self.engine.follow(RunId(run_id), after)

    async def written(self) -> None:
        """Waits until this process has changed something; what others change only a look at `version` tells."""
        await self.engine.database.changed()

    async def recent(
        self, *, thread: Named | None = None, since: float | None = None, limit: int = RUNS_DRAWN
    ) -> list[Run]:
        """The last runs that came as far as a decision and ended, the oldest first."""
        of_thread = _id(thread)
        newest = await self.engine.database.call(
            lambda store: store.ended_runs(thread_id=of_thread, since=since, limit=limit)
        )
        return newest[::-1]

    async def daily(self, *, thread: Named | None = None, since: float | None = None) -> list[Day]:
        """What `stats` sums up, by day."""
        from clew.core.savings import daily

        of_thread = _id(thread)
        return daily(await self.engine.database.call(lambda store: store.stats(thread_id=of_thread, since=since)))

    async def counts(self) -> Counts:
        return await self.engine.database.call(
            lambda store: Counts(tuple(store.tallies()), store.count_live_runs(), store.count_jobs())
        )

    async def agents(self) -> list[AgentHealth]:
        return [await self._health(name) for name in self.engine.agents()]

    async def _health(self, name: str) -> AgentHealth:
        stats = await self.engine.database.call(lambda store: store.stats())
        models = tuple(dict.fromkeys(row.model for row in stats if row.agent == name and row.model))[:MODELS_LISTED]
        default = await self.engine.default_model(name)
        try:
            binary = self.engine.find(name)
            can = await self.engine.abilities(name, binary)
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
