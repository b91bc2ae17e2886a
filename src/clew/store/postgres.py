"""PostgreSQL: how it is reached, and what its errors mean.

Rules
1. A write transaction is alone, as on SQLite: it begins by taking one advisory lock of the whole store. Every read in
   it is then still true when it writes, so the operations need no locks of their own.
2. A connection that the server dropped (a restart, a lost network) is replaced before the next transaction, or at its
   first statement: that is where one learns of it. What was under way is lost, and its caller is told.
3. Nothing that is in the address but host and database is ever shown: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from clew.errors import ClewError, NotFound, StoreError, UsageError
from clew.store.sql import Style

if TYPE_CHECKING:
    from clew.core.search import Words

WRITERS = 0x436C6577  # advisory locks are numbers: "Clew", and the next one for migrations
MIGRATIONS = WRITERS + 1
WAIT_S = 30  # for the lock, as long as SQLite's busy time-out
CONNECT_S = 10

_KINDS = {
    "25006": "read_only",
    "53100": "full",
    "55P03": "locked",  # our own lock_timeout
    "40P01": "locked",
    "42P01": "corrupt",  # our SQL is tested: what it names is not there
    "42703": "corrupt",
    "XX001": "corrupt",
    "XX002": "corrupt",
}
_NO_ROOM = re.compile("too many clients|too many connections|remaining connection slots")  # told without a state
_CLASSES = {"53": "full", "58": "unreachable", "XX": "corrupt"}

_SAYS = {
    "locked": ("is held by another process", "Try again; `clew doctor` shows who is running."),
    "read_only": ("cannot be written", "Give the address of the primary, and a user who may write."),
    "full": ("is out of space or connections", "Free some and try again; nothing that was stored is lost."),
    "corrupt": ("is damaged or not a Clew database", "Restore a copy, or name another in CLEW_STORE."),
    "unreachable": ("cannot be reached", "See that the server runs, and check the address in CLEW_STORE."),
}


class Postgres:
    """One database of a server."""

    style: Style = "pyformat"
    errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.name = _shown(conninfo_to_dict(url))
        except psycopg.Error as error:
            raise UsageError(
                "CLEW_STORE is not an address of a PostgreSQL database.",
                hint="It looks like postgresql://user@host:5432/name.",
            ) from error

    def create(self) -> None:
        """The database itself is the administrator's to create; the tables are ours."""

    def connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_S, application_name="clew")
        try:
            connection.execute(f"SET lock_timeout = '{WAIT_S}s'")
        except BaseException:
            connection.close()
            raise
        return connection

    def is_broken(self, connection: psycopg.Connection[Any]) -> bool:
        return bool(connection.closed or connection.broken)

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
        except psycopg.Error:
            if not self.is_broken(connection):
                connection.execute("ROLLBACK")
            raise

    def begin_reading(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def in_transaction(self, connection: psycopg.Connection[Any]) -> bool:
        return connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            connection = self.connect()
        except self.errors as error:
            raise self.translate(error) from error
        with connection:  # closing it gives the lock back
            try:
                connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATIONS,))
            except psycopg.Error as error:
                raise self.translate(error) from error
            yield

    def is_ready(self, connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute("SELECT to_regclass('schema_version')").fetchone()
        return row is not None and row[0] is not None

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Nothing is kept in the database but its tables."""

    def translate(self, error: Exception) -> ClewError:
        """What the error means for the caller: usage, or the store with its kind."""
        state = getattr(error, "sqlstate", None) or ""
        if state == "23503":
            return NotFound("What this belongs to is not in the store (any more).")
        if state.startswith("23"):
            return UsageError(f"The store refused it: {_first_line(error)}.")
        if state == "54000":
            return UsageError("The text is too long to be stored.")
        why = _first_line(error)
        kind = _KINDS.get(state) or _CLASSES.get(state[:2]) or ("full" if _NO_ROOM.search(why) else "unreachable")
        says, hint = _SAYS[kind]
        passing = kind == "unreachable" or bool(_NO_ROOM.search(why))
        return StoreError(f"The database {self.name} {says} ({why}).", kind=kind, hint=hint, passing=passing)

    def search_words(self, words: Words) -> str:
        return " & ".join(
            f"({' <-> '.join(_quoted(word) for word in phrase.words)}{':*' if phrase.is_prefix else ''})"
            for phrase in words.phrases
        )

    def problems(self, connection: psycopg.Connection[Any]) -> list[str]:
        """The server looks after its own files: that it answers is all that we can tell."""
        connection.execute("SELECT 1")
        return []


def _quoted(word: str) -> str:
    """Letters and digits alone: there is nothing in it to escape."""
    return f"'{word}'"


def _shown(parts: dict[str, Any]) -> str:
    host = str(parts.get("host") or "localhost")
    return f"{parts.get('dbname') or 'postgres'} on {host}"


def _first_line(error: Exception) -> str:
    """Of the driver's words; the rest may repeat the address."""
    text = str(error).strip()
    return text.splitlines()[0][:200].rstrip(".") if text else type(error).__name__
