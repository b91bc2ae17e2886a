"""What differs between databases; `sqlite.py` and `postgres.py` implement it. Only they know which one is used."""

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
    """What the database's catalogue says about a column, in the same terms for every database."""

    kind: str  # TEXT, BIGINT, SMALLINT or DOUBLE PRECISION
    is_required: bool  # NOT NULL


Catalogue = Mapping[str, Mapping[str, Column]]  # by table and column


class Dialect(Protocol):
    """Each method is what `Database` needs from one kind of database."""

    style: Style
    errors: tuple[type[Exception], ...]  # the driver's exceptions, which `translate` takes

    def connect(self) -> Any:
        """A connection for the calling OS thread, in autocommit mode."""

    def leave(self, connection: Any) -> bool:
        """Leaves the connection to the end of the process, which is near. False: it must be closed."""

    def create(self) -> None:
        """Creates the database if it does not exist. On a server, creating it is the administrator's task."""

    def is_broken(self, connection: Any) -> bool:
        """Whether the connection will never work again, so that a new one is needed."""

    def begin(self, connection: Any) -> None:
        """Begins a write transaction: the only one at a time, or with `locks` taken before each query."""

    def locks(self) -> Mapping[str, Locks]:
        """By query: its locks in a write transaction. Empty if there is only one write transaction at a time."""

    def lock_name(self, kind: str, value: Any) -> str | None:
        """The name of the lock. None: the name depends on a row that has not been read yet."""

    def know_lock(self, kind: str, row_id: str, thread_id: str) -> None:
        """Remembers that the row belongs to that thread."""

    def lock(self, connection: Any, name: str) -> float | None:
        """Takes the lock until the transaction ends; waits while it is held. Returns the server's time then."""

    def lock_of(self, connection: Any, kind: str, value: Any) -> str | None:
        """Takes a lock whose name depends on a row. Returns the name; None: there is no such row."""

    def wait_for_locks(self, max_s: float) -> None:
        """Sets how long new connections wait for a lock (PostgreSQL). The error then says that a retry may help."""

    def commit(self, connection: Any, statements: Sequence[Statement]) -> None:
        """Runs the statements and commits; other processes see both as one step."""

    def time(self, connection: Any) -> float | None:
        """The server's time. None: all users of the database are on this machine and share its clock."""

    def begin_reading(self, connection: Any) -> None:
        """Begins a transaction that only reads, and sees one consistent state."""

    def in_transaction(self, connection: Any) -> bool: ...

    def columns(self, cursor: Any) -> list[str]:
        """The names of the selected columns."""

    def catalogue(self, connection: Any) -> Iterable[tuple[str, str, str, bool]]:
        """Every column of the schema: its table, its name, its type and whether it is NOT NULL."""

    def guard(self) -> AbstractContextManager[None]:
        """A lock that one process holds at a time, for the first creation and for migrations."""

    def is_ready(self, connection: Any) -> bool:
        """Whether the database was prepared and has a version table."""

    def prepare(self, connection: Any) -> None:
        """Changes settings that are stored in the database itself. Called inside the guard."""

    def translate(self, error: Exception) -> ClewError: ...

    def search_words(self, words: SearchQuery) -> str:
        """The search in the syntax of the database's text index. The words are quoted, so they contain no operators."""

    def lost(self, connection: Any) -> StoreError | None:
        """An error if the open files are no longer the database's files, which cannot be repaired. None: they are."""

    def rescue(self, connection: Any) -> Path:
        """Copies everything that the connection still sees of a lost database."""

    def obstacles(self, connection: Any) -> list[tuple[str, str]]:
        """What blocks writers, each with what to do about it."""

    def problems(self, connection: Any) -> list[str]:
        """The problems that a quick check of the database finds."""
