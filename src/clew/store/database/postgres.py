"""PostgreSQL: how Clew connects to it, and what its errors mean.

Rules
1. A write transaction takes advisory locks for its queries (`locks.py`), and keeps them until it ends. Only the version
   counter is locked for the whole store, and only within the message that commits: the server finishes that without the
   client.
2. A connection that the server dropped (a restart, a lost network) is replaced before the next transaction or at its
   first statement, where the loss is noticed. An open transaction is lost, and its caller gets an error.
3. A client that is stopped, suspended or disconnected inside a transaction holds its locks for at most IDLE_S: then the
   server ends its session and rolls back. The client gets an error at its next statement.
4. Only the host and the database of the address are ever shown: the rest may contain a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from clew.errors import ClewError, NotFound, StoreError, UsageError
from clew.store.database import locks
from clew.store.database.database import LOCK_WAIT_S
from clew.store.database.postgres_connection import PostgresConnection
from clew.store.database.sql import Style
from clew.store.database.text import pack

if TYPE_CHECKING:
    from clew.core.search import SearchQuery
    from clew.store.database.database import Statement
    from clew.store.database.locks import Locks

MIGRATIONS = 0x436C6578  # the advisory lock of migrations; those of `locks.py` are hashes of their names
CONNECT_S = 10
IDLE_S = 10  # the longest pause inside a transaction, which should have none: far below the life of a lease
NAMES_KEPT = 10_000  # names of locks in the cache
LONG_S = 5.0  # a transaction that has been idle for longer is reported: a transaction should take milliseconds

# Defaults, which the address can override. The server gets time-outs as well, because it holds the locks.
_TCP = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_SESSION = {
    "lock_timeout": f"{LOCK_WAIT_S:.0f}s",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}

_KINDS = {
    "25006": "read_only",
    "53100": "full",
    "55P03": "locked",  # lock_timeout, which we set
    "40P01": "locked",
    "40001": "locked",
    "42P01": "corrupt",  # a table that does not exist: our SQL is tested, so the schema is damaged
    "42703": "corrupt",
    "XX001": "corrupt",
    "XX002": "corrupt",
}
_RETRY_HELPS = frozenset({"40P01", "40001", "55P03"})  # two transactions conflicted, and this one was rolled back
# The messages of a server without a free connection: the driver gives these errors no SQLSTATE.
_NO_CONNECTIONS = re.compile("too many clients|too many connections|remaining connection slots")
_CLASSES = {"53": "full", "58": "unreachable", "XX": "corrupt"}

_SAYS = {
    "locked": ("is held by another process", "Try again; `clew doctor` shows who is running."),
    "read_only": ("cannot be written", "Give the address of the primary, and a user who may write."),
    "full": ("is out of space or connections", "Free some and try again; nothing stored is lost."),
    "corrupt": ("is damaged or not a Clew database", "Restore a copy, or name another in CLEW_STORE."),
    "unreachable": ("cannot be reached", "Check that the server runs, and check the address in CLEW_STORE."),
}

# The time is read together with the lock, because code that takes a lock often compares times next.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 0)), extract(epoch FROM clock_timestamp())::float8"

# Sessions in this database that have been idle inside a transaction for long, each with the number of its locks. A user
# who may not read the state of other users' sessions does not find them.
_LONG_HELD = """
SELECT session.pid, session.application_name, session.state,
    extract(epoch FROM clock_timestamp() - session.state_change)::float8,
    (SELECT count(*) FROM pg_locks WHERE pg_locks.pid = session.pid AND granted AND locktype = 'advisory') || ' locks'
FROM pg_stat_activity AS session
WHERE session.datname = current_database() AND session.pid <> pg_backend_pid()
    AND session.state LIKE 'idle in transaction%%'
    AND clock_timestamp() - session.state_change > make_interval(secs => %s)
ORDER BY session.state_change
"""
# The columns of the schema that holds our tables: a schema that was added since may come first in the search path.
_CATALOGUE = """
SELECT table_name::text, column_name::text, upper(data_type), is_nullable = 'NO'
FROM information_schema.columns WHERE table_schema = (
    SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_class.oid = to_regclass('schema_version'))
"""
APPLICATION_CHARS = 63  # the server cuts off the rest


class Postgres:
    """One database of a server."""

    style: Style = "pyformat"
    errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock_names: dict[tuple[str, Any], str] = {}  # by kind and id of a row: the lock of its thread
        try:
            parts = conninfo_to_dict(url)
            self.name = _shown(parts)
            self._settings = {name: value for name, value in _SESSION.items() if name not in str(parts.get("options"))}
            self._tcp: dict[str, Any] = {name: value for name, value in _TCP.items() if name not in parts}
        except psycopg.Error as error:
            raise UsageError(
                "CLEW_STORE is not an address of a PostgreSQL database.",
                hint="It looks like postgresql://user@host:5432/name.",
            ) from error

    def leave(self, connection: PostgresConnection) -> bool:
        """Never: the server would log a client that went away."""
        return False

    def create(self) -> None:
        """The administrator creates the database; migrations create the tables."""

    def connect(self) -> PostgresConnection:
        name = f"clew pid {os.getpid()} on {os.uname().nodename}"[:APPLICATION_CHARS]
        connection = PostgresConnection(
            psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_S, application_name=name, **self._tcp)
        )
        try:
            connection.run(";".join(f"SET {name} = '{value}'" for name, value in self._settings.items()))
        except BaseException:
            connection.close()
            raise
        return connection

    def is_broken(self, connection: PostgresConnection) -> bool:
        return connection.is_broken

    def begin(self, connection: PostgresConnection) -> None:
        connection.run("BEGIN")

    def locks(self) -> dict[str, Locks]:
        return locks.by_query()

    def lock_name(self, kind: str, value: Any) -> str | None:
        prefix = locks.PREFIXES.get(kind)
        return self._lock_names.get((kind, value)) if prefix is None else f"{prefix}{value}"

    def lock(self, connection: PostgresConnection, name: str) -> float | None:
        return float(connection.execute(_LOCK, (name,)).text(1))

    def lock_of(self, connection: PostgresConnection, kind: str, value: Any) -> str | None:
        select = locks.LOOKED_UP[kind].format("%s::text")
        row = connection.execute(
            f"SELECT it, pg_advisory_xact_lock(hashtextextended(it, 0)) FROM ({select}) AS l (it)", (value,)
        ).fetchone()
        if row is None:
            return None
        if kind in locks.OF_THREAD:
            self._keep(kind, value, str(row[0]))
        return str(row[0])

    def know_lock(self, kind: str, row_id: str, thread_id: str) -> None:
        self._keep(kind, pack(row_id), f"{locks.PREFIXES['thread']}{pack(thread_id)}")

    def _keep(self, kind: str, value: Any, name: str) -> None:
        if len(self._lock_names) >= NAMES_KEPT:
            self._lock_names.clear()
        self._lock_names[kind, value] = name

    def wait_for_locks(self, max_s: float) -> None:
        self._settings["lock_timeout"] = f"{max_s * 1000:.0f}ms"

    def commit(self, connection: PostgresConnection, statements: Sequence[Statement]) -> None:
        cursor = psycopg.ClientCursor(connection.driver)
        last = [cursor.mogrify(statement, parameters) for statement, parameters in statements]
        connection.run(";".join([*last, "COMMIT"]))

    def time(self, connection: PostgresConnection) -> float:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])

    def begin_reading(self, connection: PostgresConnection) -> None:
        connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def in_transaction(self, connection: PostgresConnection) -> bool:
        return connection.driver.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def columns(self, cursor: Any) -> list[str]:
        columns: list[str] = cursor.columns
        return columns

    def catalogue(self, connection: PostgresConnection) -> list[tuple[str, str, str, bool]]:
        return connection.execute(_CATALOGUE).fetchall()

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            connection = self.connect()
        except self.errors as error:
            raise self.translate(error) from error
        with connection:  # closing the connection releases the lock
            try:
                connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATIONS,))
            except psycopg.Error as error:
                raise self.translate(error) from error
            yield

    def is_ready(self, connection: PostgresConnection) -> bool:
        row = connection.execute("SELECT to_regclass('schema_version')").fetchone()
        return row is not None and row[0] is not None

    def prepare(self, connection: PostgresConnection) -> None:
        """Does nothing: Clew changes no settings of the database itself."""

    def translate(self, error: Exception) -> ClewError:
        """The error of `clew.errors`: a wrong call, or a StoreError with its kind."""
        state = getattr(error, "sqlstate", None) or ""
        if state == "23503":
            return NotFound("The row that this belongs to is not in the store.")
        if state.startswith("23"):
            return UsageError(f"The store refused it: {_first_line(error)}.")
        if state == "54000":
            return UsageError("The text is too long to be stored.")
        why = _first_line(error)
        no_connections = _NO_CONNECTIONS.search(why) is not None
        kind = _KINDS.get(state) or _CLASSES.get(state[:2]) or ("full" if no_connections else "unreachable")
        says, hint = _SAYS[kind]
        passing = kind == "unreachable" or state in _RETRY_HELPS or no_connections
        return StoreError(f"The database {self.name} {says} ({why}).", kind=kind, hint=hint, passing=passing)

    def search_words(self, words: SearchQuery) -> str:
        return " & ".join(
            f"({' <-> '.join(_quoted(word) for word in phrase.words)}{':*' if phrase.is_prefix else ''})"
            for phrase in words.phrases
        )

    def lost(self, connection: PostgresConnection) -> None:
        """Always None: a server does not lose its files under a client."""

    def rescue(self, connection: PostgresConnection) -> Path:
        raise NotImplementedError

    def obstacles(self, connection: PostgresConnection) -> list[tuple[str, str]]:
        return [
            (
                f"{name or 'A program without a name'} has been {state} for {silent_s:.0f} s and holds {held} "
                f"(process {pid} of the server of {self.name}).",
                "Check whether it is stopped, or its machine suspended. The server ends its session by itself after "
                f"idle_in_transaction_session_timeout; SELECT pg_terminate_backend({pid}) ends it at once.",
            )
            for pid, name, state, silent_s, held in connection.execute(_LONG_HELD, (LONG_S,)).fetchall()
        ]

    def problems(self, connection: PostgresConnection) -> list[str]:
        """Checks only that the server answers: it checks its own files."""
        connection.execute("SELECT 1")
        return []


def _quoted(word: str) -> str:
    """A word consists of letters and digits, so there is nothing to escape."""
    return f"'{word}'"


def _shown(parts: dict[str, Any]) -> str:
    host = str(parts.get("host") or "localhost")
    return f"{parts.get('dbname') or 'postgres'} on {host}"


def _first_line(error: Exception) -> str:
    """The first line of the driver's message; the other lines may contain the address."""
    text = str(error).strip()
    return text.splitlines()[0][:200].rstrip(".") if text else type(error).__name__
