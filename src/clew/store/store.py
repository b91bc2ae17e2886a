"""The store: every operation on the database, in one object that holds one part a noun.

Ids and times come from the caller: the store has no clock, and the only name that it makes up is the suffix of a
thread's name that is taken. Every operation is a transaction of its own, durable when it returns;
`with store.transaction():` groups several. It may be used from several OS threads and any number of processes at once.
What it raises is in `clew.errors`, except for two that show a caller's mistake: `core.runs.run.IllegalStatus` and
`core.pins.IllegalMove`.

A turn needs few of the parts: the others are loaded when they are first used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from clew.errors import StoreError, UsageError
from clew.store.database.database import Database
from clew.store.database.versions import Versions
from clew.store.tables.events import EventTable
from clew.store.tables.key_values import KeyValueTable
from clew.store.tables.leases import LeaseTable
from clew.store.tables.pins import PinTable
from clew.store.tables.questions import QuestionTable
from clew.store.tables.runs import RunTable
from clew.store.tables.threads import ThreadTable
from clew.store.tables.turns import TurnTable

if TYPE_CHECKING:
    from clew.store.database.dialect import Dialect
    from clew.store.tables.hooks import HookTables
    from clew.store.tables.jobs import JobTable
    from clew.store.tables.pairs import PairTable
    from clew.store.tables.reviews import ReviewTable
    from clew.store.tables.workers import WorkerTable
    from clew.store.views.counts import Counts
    from clew.store.views.search import ThreadSearch
    from clew.store.views.thread_views import ThreadViews

CHECK_LIMIT = 20  # problems of one kind that are worth listing


class Store:
    """All of it. Made by `open_store`; closed by `close` or at the end of a `with`."""

    def __init__(self, dialect: Dialect) -> None:
        self.database = Database(dialect)
        self.versions = Versions(self.database)
        shared = self.database, self.versions
        self.threads = ThreadTable(*shared)
        self.turns = TurnTable(*shared)
        self.pins = PinTable(*shared)
        self.runs = RunTable(*shared)
        self.questions = QuestionTable(*shared)
        self.events = EventTable(*shared, self.questions)
        self.leases = LeaseTable(*shared)
        self.key_values = KeyValueTable(*shared)

    @cached_property
    def jobs(self) -> JobTable:
        from clew.store.tables.jobs import JobTable

        return JobTable(self.database, self.versions)

    @cached_property
    def workers(self) -> WorkerTable:
        from clew.store.tables.workers import WorkerTable

        return WorkerTable(self.database, self.versions)

    @cached_property
    def reviews(self) -> ReviewTable:
        from clew.store.tables.reviews import ReviewTable

        return ReviewTable(self.database, self.versions)

    @cached_property
    def hooks(self) -> HookTables:
        from clew.store.tables.hooks import HookTables

        return HookTables(self.database, self.versions)

    @cached_property
    def pairs(self) -> PairTable:
        from clew.store.tables.pairs import PairTable

        return PairTable(self.database, self.versions)

    @cached_property
    def views(self) -> ThreadViews:
        from clew.store.views.thread_views import ThreadViews

        return ThreadViews(self.database, self.versions, self.threads, self.runs, self.events, self.questions)

    @cached_property
    def search(self) -> ThreadSearch:
        from clew.store.views.search import ThreadSearch

        return ThreadSearch(self.database, self.threads, self.views)

    @cached_property
    def counts(self) -> Counts:
        from clew.store.views.counts import Counts

        return Counts(self.database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every thread's connection. Safe to call twice."""
        self.database.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside happens, or nothing does. Re-entrant: inner ones join."""
        return self.database.transaction()

    def savepoint(self) -> AbstractContextManager[None]:
        """A transaction. What fails in it is undone, and the one around it may continue without it."""
        return self.database.savepoint()

    def reading(self) -> AbstractContextManager[None]:
        """One moment's view for all that is read inside, without keeping writers out. Joins a transaction."""
        return self.database.reading()

    def wait_for_locks(self, most_s: float) -> None:
        """A transaction of another process that has what is needed here is waited for so long (PostgreSQL)."""
        self.database.dialect.wait_for_locks(most_s)

    def ping(self) -> None:
        """Raises StoreError unless it answers, and is still the store that this process opened."""
        error = self.lost()
        if error is not None:
            raise error
        self.versions.current()

    def lost(self) -> StoreError | None:
        """Why this process can never use it again: its files were deleted, replaced or cut short. None: all is well."""
        try:
            return self.database.dialect.lost(self.database.session().connection)
        except StoreError as error:
            return error if error.kind == "lost" else None

    def rescue(self) -> Path:
        """A copy of what this process still sees of a store that it lost. Call it in a thread that has used it."""
        session = self.database.known_session()
        if session is None:
            raise StoreError("This thread has not used the store.", kind="lost")
        try:
            return self.database.dialect.rescue(session.connection)
        except self.database.dialect.errors as error:
            raise self.database.dialect.translate(error) from error

    def obstacles(self) -> list[tuple[str, str]]:
        """Who keeps others from writing for long, each with what to do about it."""
        try:
            return self.database.dialect.obstacles(self.database.session().connection)
        except self.database.dialect.errors as error:
            raise self.database.dialect.translate(error) from error

    def check(self) -> list[str]:
        """What is wrong with the database, one line each; empty when nothing is."""
        try:
            connection = self.database.session().connection
            try:
                problems = self.database.dialect.problems(connection)
            except self.database.dialect.errors as error:
                raise self.database.dialect.translate(error) from error
            for row in self.database.all("pins_miscounted", limit=CHECK_LIMIT):
                problems.append(f"pin {row['id']} does not count its turns right: its next turn must be fresh")
        except StoreError as error:
            return [error.message]
        return problems


def open_store(where: Path | str) -> Store:
    """Open the database: a file, made when needed, or an address `postgresql://…`. Migrates it.

    Raises StoreError with its kind and a hint.
    """
    dialect = _dialect(where)
    dialect.create()
    store = Store(dialect)
    try:
        store.database.migrate()
    except BaseException:
        store.close()
        raise
    return store


def _dialect(where: Path | str) -> Dialect:
    if isinstance(where, str) and "://" in where and not where.startswith(("postgresql://", "postgres://")):
        raise UsageError("CLEW_STORE is no address that Clew knows.", hint="It looks like postgresql://user@host/name.")
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        from clew.store.database.postgres import Postgres

        return Postgres(where)
    from clew.store.database.sqlite import Sqlite

    return Sqlite(Path(where))
