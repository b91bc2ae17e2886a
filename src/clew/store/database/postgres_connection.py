"""A connection to PostgreSQL that is faster than psycopg's for the store's own statements.

psycopg makes a cursor for each statement, looks up how to encode each value, and polls the socket in Python. That takes
80 µs of CPU time for a statement; libpq, called through psycopg's own binding, takes 20 µs. A job needs 95 statements.

What differs from psycopg: a statement cannot be interrupted from Python (the store's thread gets no signals, and the
server ends a wait for a lock); and values are sent as text, whose type the server infers from the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import psycopg
from psycopg import abc
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

PREPARED_AFTER = 5  # a statement is prepared after this many uses, because preparing costs a round trip
MAX_ROWS = 16  # in one INSERT: each number of rows is another statement to prepare
MAX_PREPARED = 250  # statements: the server keeps a plan for each

_PARAMETER = re.compile(r"%(?:\((\w+)\)s|s|%)")
# Finds VALUES that consist of parameters only and are not followed by anything that depends on earlier rows.
_GIVEN = r"%\(\w+\)s"
_ROW = re.compile(rf"\bVALUES\s*(?P<row>\(\s*{_GIVEN}(?:,\s*{_GIVEN})*\s*\))(?=\s*(?:ON CONFLICT[^;]*DO NOTHING\s*)?$)")
_GOOD = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY})


class StatementResult:
    """The result of a statement, with the methods of a cursor that the store needs."""

    def __init__(self, result: PGresult, known: KnownStatement, types: abc.Transformer) -> None:
        self._result, self._known, self._types = result, known, types

    @property
    def rowcount(self) -> int:
        return self._result.command_tuples or 0

    @property
    def columns(self) -> list[str]:
        result, known = self._result, self._known
        if known.columns is None or known.prepared is None:  # the columns of a prepared statement do not change
            known.columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        return known.columns

    def fetchall(self) -> list[tuple[Any, ...]]:
        if not self._result.nfields:
            return []
        self._types.set_pgresult(self._result)
        return self._types.load_rows(0, self._result.ntuples, tuple)

    def text(self, column: int) -> str:
        """A value of the first row, as the server sent it."""
        return (self._result.get_value(0, column) or b"").decode()

    def fetchone(self) -> tuple[Any, ...] | None:
        rows = self.fetchall()
        return rows[0] if rows else None


class KnownStatement:
    """A statement with the server's parameter syntax, and how often it was used."""

    def __init__(self, statement: str) -> None:
        self.names: list[str | None] = []
        self.text = _PARAMETER.sub(self._place, statement).encode()
        self.uses = 0
        self.prepared: bytes | None = None
        self.columns: list[str] | None = None

    def _place(self, match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        if match[1] is None or match[1] not in self.names:
            self.names.append(match[1])
            return f"${len(self.names)}"
        return f"${self.names.index(match[1]) + 1}"


class PostgresConnection:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.driver = connection
        self._libpq = connection.pgconn
        self._types: abc.Transformer = Transformer(connection)
        self._known: dict[str, KnownStatement] = {}
        self._prepared = 0

    @property
    def is_broken(self) -> bool:
        return bool(self.driver.closed or self.driver.broken)

    def close(self) -> None:
        self.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def executemany(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Sends up to MAX_ROWS rows as one statement if that has the same effect, else as a batch of the driver."""
        found = _ROW.search(statement) if len(rows) <= MAX_ROWS else None
        if len(rows) == 1:
            self.execute(statement, rows[0])
        elif found is None:
            self.driver.cursor().executemany(statement, rows)  # type: ignore[arg-type, unused-ignore]
        elif rows:
            names = _PARAMETER.findall(found["row"])
            group = f"({', '.join(['%s'] * len(names))})"
            whole = f"{statement[: found.start('row')]}{', '.join([group] * len(rows))}{statement[found.end('row') :]}"
            self.execute(whole, [row[name] for row in rows for name in names])

    def run(self, script: str) -> None:
        """Sends statements without parameters in one message."""
        self._checked(self._libpq.exec_(script.encode()))

    def execute(self, statement: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> StatementResult:
        known = self._known.get(statement)
        if known is None:
            known = self._known[statement] = KnownStatement(statement)
        if isinstance(parameters, dict):
            given = [parameters[name] for name in known.names if name is not None]
        else:
            given = list(parameters)
        values = [None if value is None else _encoded(value) for value in given]
        formats = None
        if bytes in map(type, given):
            formats = [Format.BINARY if isinstance(value, bytes) else Format.TEXT for value in given]
        return StatementResult(self._checked(self._sent(known, values, formats)), known, self._types)

    def _sent(self, known: KnownStatement, values: list[bytes | None], formats: list[Format] | None) -> PGresult:
        if not values and not known.text.startswith(b"SELECT"):
            return self._libpq.exec_(known.text)  # preparing a SAVEPOINT or a CREATE TABLE would save nothing
        known.uses += 1
        if known.prepared is None and known.uses > PREPARED_AFTER and self._prepared < MAX_PREPARED:
            name = f"clew_{self._prepared}".encode()
            self._checked(self._libpq.prepare(name, known.text))
            self._prepared += 1
            known.prepared = name
        if known.prepared is not None:
            return self._libpq.exec_prepared(known.prepared, values, formats)  # type: ignore[arg-type]
        return self._libpq.exec_params(known.text, values, None, formats)

    def _checked(self, result: PGresult) -> PGresult:
        if result.status in _GOOD:
            return result
        if self._libpq.status == ConnStatus.BAD:  # the result has only the last message, without the cause
            raise psycopg.OperationalError(self._libpq.get_error_message().removeprefix("FATAL:").strip())
        raise error_from_result(result)


def _encoded(value: Any) -> bytes:
    if isinstance(value, str):
        if "\0" in value:  # libpq would cut the text off there
            raise psycopg.DataError("a text with a NUL character")
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return repr(value).encode()
    raise TypeError(f"the store cannot write a {type(value).__name__}")
