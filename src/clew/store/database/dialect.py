"""What one kind of database does in its own way: `sqlite.py`, `postgres.py`. No other module knows which it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clew.errors import ClewError, StoreError
from clew.store.database.sql import Style

if TYPE_CHECKING:
    from clew.core.search import SearchQuery
    from clew.store.database.database import Statement
    from clew.store.database.locks import Locks


class Column(NamedTuple):
    """What the catalogue of a database says of a column, in the same words for every database."""

    kind: str  # TEXT, BIGINT, SMALLINT or DOUBLE PRECISION
    is_required: bool  # NOT NULL


Catalogue = Mapping[str, Mapping[str, Column]]  # by table and column


class Dialect(Protocol):
    """The duties of a dialect."""

    style: Style
    errors: tuple[type[Exception], ...]  # the driver's, to be translated

    def connect(self) -> Any:
        """A connection of the calling thread, in autocommit mode."""

    def create(self) -> None:
        """See that there is a database to connect to, as far as that is ours to do."""

    def is_broken(self, connection: Any) -> bool:
        """It will never work again: a new one is needed."""

    def begin(self, connection: Any) -> None:
        """Begin a write transaction: alone, or with `locks` taken before each query."""

    def locks(self) -> Mapping[str, Locks]:
        """By query, what it must lock in a write transaction; empty where such a transaction is alone."""

    def lock_name(self, kind: str, value: Any) -> str | None:
        """None: a row says it, and has not been looked at yet."""

    def know_lock(self, kind: str, row_id: str, thread_id: str) -> None:
        """That row belongs to that thread."""

    def lock(self, connection: Any, name: str) -> float | None:
        """To the end of the transaction, waiting for whoever has it. Returns the shared `time` then."""

    def lock_of(self, connection: Any, kind: str, value: Any) -> str | None:
        """The same, of a lock whose name a row says. Returns the name; None: there is no such row."""

    def wait_for_locks(self, max_s: float) -> None:
        """For so long on new connections, where they are narrow; then the error says that another try may do."""

    def commit(self, connection: Any, statements: Sequence[Statement]) -> None:
        """Run these, and end the write transaction: in one step for everybody else."""

    def time(self, connection: Any) -> float | None:
        """The time by the clock that all users of the database share; None: they share this machine's."""

    def begin_reading(self, connection: Any) -> None:
        """Begin a transaction that only reads, and sees one moment's state."""

    def in_transaction(self, connection: Any) -> bool: ...

    def columns(self, cursor: Any) -> list[str]:
        """The names of what was selected."""

    def catalogue(self, connection: Any) -> Iterable[tuple[str, str, str, bool]]:
        """Every column of the schema: its table, its name, its type and whether it is NOT NULL."""

    def guard(self) -> AbstractContextManager[None]:
        """Only one process at a time is inside: for the first creation and for migrations."""

    def is_ready(self, connection: Any) -> bool:
        """Prepared, and has a version table."""

    def prepare(self, connection: Any) -> None:
        """Settings that are kept in the database itself. Called inside the guard."""

    def translate(self, error: Exception) -> ClewError: ...

    def search_words(self, words: SearchQuery) -> str:
        """What is looked for, as its index of words wants it: words in quotes, so that nothing in them is a sign."""

    def lost(self, connection: Any) -> StoreError | None:
        """The database that the connection has open is not the one that others open by its name, nor ever will be."""

    def rescue(self, connection: Any) -> Path:
        """A copy of all that the connection sees of a database that was lost."""

    def obstacles(self, connection: Any) -> list[tuple[str, str]]:
        """Who keeps others from writing, and what to do about it."""

    def problems(self, connection: Any) -> list[str]:
        """What a quick look at the database itself finds wrong."""
