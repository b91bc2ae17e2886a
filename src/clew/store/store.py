"""The store: every operation on the database, in one object that holds one part for each noun.

Ids and times come from the caller: the store has no clock, and it generates only the suffix of a thread's name that is
taken. Every operation is a transaction of its own, and durable when it returns; `with store.transaction():`
groups several. A store may be used from several OS threads, and its database by any number of processes at once. It
raises errors of `clew.errors`, and two more that show a mistake of the caller: `core.runs.run.IllegalStatus` and
`core.pins.IllegalMove`.

A turn needs only a few of the parts. The others are loaded when they are first used.
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
    from clew.store.tables.table import Table
    from clew.store.tables.workers import WorkerTable
    from clew.store.views.counts import Counts
    from clew.store.views.search import ThreadSearch
    from clew.store.views.thread_views import ThreadViews

CHECK_LIMIT = 20  # problems of one kind that are listed


class Store:
    """Made by `open_store`; closed by `close` or at the end of a `with`."""

    def __init__(self, dialect: Dialect) -> None:
        self.database = Database(dialect)
        self.versions = Versions(self.database)
        self._shared = shared = self.database, self.versions
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

        return JobTable(*self._shared)

    @cached_property
    def workers(self) -> WorkerTable:
        from clew.store.tables.workers import WorkerTable

        return WorkerTable(*self._shared)

    @cached_property
    def reviews(self) -> ReviewTable:
        from clew.store.tables.reviews import ReviewTable

        return ReviewTable(*self._shared)

    @cached_property
    def hooks(self) -> HookTables:
        from clew.store.tables.hooks import HookTables

        return HookTables(*self._shared)

    @cached_property
    def pairs(self) -> PairTable:
        from clew.store.tables.pairs import PairTable

        return PairTable(*self._shared)

    @cached_property
    def views(self) -> ThreadViews:
        from clew.store.views.thread_views import ThreadViews

        return ThreadViews(*self._shared, self.threads, self.runs, self.events, self.questions)

    @cached_property
    def search(self) -> ThreadSearch:
        from clew.store.views.search import ThreadSearch

        return ThreadSearch(self.database, self.threads, self.views)

    @cached_property
    def counts(self) -> Counts:
        from clew.store.views.counts import Counts

        return Counts(self.database)

    def hosts(self) -> list[Table]:
        """The parts that hold rows of hosts: some of these rows are dumped and imported with a thread."""
        return [self.jobs, self.reviews, self.hooks, self.pairs]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, process_ends: bool = False) -> None:
        """Closes the connections of all OS threads. Safe to call twice. `process_ends`: the process ends at once, so
        what the next process does as well may be left to it."""
        self.database.close(process_ends=process_ends)

    def transaction(self) -> AbstractContextManager[None]:
        """Commits everything inside, or nothing. An inner transaction joins the outer one."""
        return self.database.transaction()

    def savepoint(self) -> AbstractContextManager[None]:
        """A transaction whose failure undoes only itself: the outer transaction can continue."""
        return self.database.savepoint()

    def reading(self) -> AbstractContextManager[None]:
        """Everything read inside is of one consistent state, and writers are not blocked. Joins an open transaction."""
        return self.database.reading()

    def wait_for_locks(self, max_s: float) -> None:
        """Sets how long new connections wait for a lock that another process holds (PostgreSQL only)."""
        self.database.dialect.wait_for_locks(max_s)

    def ping(self) -> None:
        """Raises StoreError unless the database answers and is still the one that this process opened."""
        error = self.lost()
        if error is not None:
            raise error
        self.versions.current()

    def lost(self) -> StoreError | None:
        """Why this process can never use its store again: files were deleted, replaced or cut short. None: it can."""
        try:
            return self.database.dialect.lost(self.database.session().connection)
        except StoreError as error:
            return error if error.kind == "lost" else None

    def rescue(self) -> Path:
        """Copies what this process still sees of a lost store. Call it in an OS thread that has used the store."""
        session = self.database.known_session()
        if session is None:
            raise StoreError("This thread has not used the store.", kind="lost")
        with self.database.translated():
            return self.database.dialect.rescue(session.connection)

    def obstacles(self) -> list[tuple[str, str]]:
        """What blocks writers for a long time, each with what to do about it."""
        with self.database.translated():
            return self.database.dialect.obstacles(self.database.session().connection)

    def check(self) -> list[str]:
        """The problems of the database, one line each."""
        try:
            with self.database.translated():
                problems = self.database.dialect.problems(self.database.session().connection)
            for row in self.database.all("pins_miscounted", limit=CHECK_LIMIT):
                problems.append(f"pin {row['id']} has a wrong count of its turns: its next turn must be fresh")
        except StoreError as error:
            return [error.message]
        return problems


def open_store(where: Path | str) -> Store:
    """Opens and migrates the database: a file, which is created if needed, or an address `postgresql://…`.

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
        raise UsageError(
            "CLEW_STORE is not an address that Clew knows.", hint="It looks like postgresql://user@host/name."
        )
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        try:
            from clew.store.database.postgres import Postgres
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise UsageError(
                "CLEW_STORE names a PostgreSQL server, and its driver is not installed.",
                hint="Install it: pip install 'clew-threads[postgres]'",
            ) from error
        return Postgres(where)
    from clew.store.database.sqlite import Sqlite

    return Sqlite(Path(where))
