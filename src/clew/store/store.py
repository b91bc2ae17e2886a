"""The store: every operation on the database, in one class made of one part a noun.

Ids and times come from the caller: the store has no clock and makes no names but the suffix of a thread's that is
taken. Every operation is a transaction of its own, durable when it returns; `with store.transaction():` groups several.
It may be used from several OS threads and any number of processes at once. What it raises is in `clew.errors`, but for
two that tell of a caller's mistake: `core.run.IllegalStatus` and `core.pins.IllegalMove`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clew.errors import StoreError, UsageError
from clew.store.archives import Archives
from clew.store.facts import Facts
from clew.store.hooks import Hooks
from clew.store.jobs import Jobs
from clew.store.leases import Leases
from clew.store.pairs import Pairs
from clew.store.pins import Pins
from clew.store.reviews import Reviews
from clew.store.search import Search
from clew.store.tallies import Tallies
from clew.store.turns import Turns

if TYPE_CHECKING:
    from clew.store.dialect import Dialect

CHECK_LIMIT = 20  # problems of one kind that are worth listing


class Store(Search, Archives, Turns, Pins, Leases, Jobs, Reviews, Hooks, Pairs, Tallies, Facts):
    """All of it. Made by `open_store`; closed by `close` or at the end of a `with`."""

    def wait_for_locks(self, most_s: float) -> None:
        """A transaction of another process that has what is needed here is waited for so long (PostgreSQL)."""
        self._dialect.wait_for_locks(most_s)

    def ping(self) -> None:
        """Raises StoreError unless it answers, and is still the store that this process opened."""
        error = self.lost()
        if error is not None:
            raise error
        self.version()

    def lost(self) -> StoreError | None:
        """Why this process can never use it again: its files were deleted, replaced or cut short. None: all is well."""
        try:
            return self._dialect.lost(self._session().connection)
        except StoreError as error:
            return error if error.kind == "lost" else None

    def rescue(self) -> Path:
        """A copy of what this process still sees of a store that it lost. Call it in a thread that has used it."""
        session = getattr(self._local, "session", None)
        if session is None:
            raise StoreError("This thread has not used the store.", kind="lost")
        try:
            return self._dialect.rescue(session.connection)
        except self._dialect.errors as error:
            raise self._dialect.translate(error) from error

    def obstacles(self) -> list[tuple[str, str]]:
        """Who keeps others from writing for long, each with what to do about it."""
        try:
            return self._dialect.obstacles(self._session().connection)
        except self._dialect.errors as error:
            raise self._dialect.translate(error) from error

    def check(self) -> list[str]:
        """What is wrong with the database, one line each; empty when nothing is."""
        try:
            connection = self._session().connection
            try:
                problems = self._dialect.problems(connection)
            except self._dialect.errors as error:
                raise self._dialect.translate(error) from error
            for row in self._all("pins_miscounted", limit=CHECK_LIMIT):
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
        store._migrate()
    except BaseException:
        store.close()
        raise
    return store


def _dialect(where: Path | str) -> Dialect:
    if isinstance(where, str) and "://" in where and not where.startswith(("postgresql://", "postgres://")):
        raise UsageError("CLEW_STORE is no address that Clew knows.", hint="It looks like postgresql://user@host/name.")
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        from clew.store.postgres import Postgres

        return Postgres(where)
    from clew.store.sqlite import Sqlite

    return Sqlite(Path(where))
