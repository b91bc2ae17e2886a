"""Our faster connection to PostgreSQL gives the same results as the driver, prepared or not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from clew.store import open_store
from clew.store.database.postgres_connection import (
    MAX_PREPARED,
    MAX_ROWS,
    PREPARED_AFTER,
    KnownStatement,
    PostgresConnection,
)
from clew.testing.postgres import PostgresServer

SELECT = "SELECT a, b, c, d, e, '100%%' FROM t WHERE a = %(a)s AND (b = %(b)s OR a = %(a)s)"
ROW: tuple[Any, ...] = ("it's 100% \\ \n ü", 2**40, 0.1 + 0.2, b"\x00\xff", None)


@pytest.fixture
def connection(postgres: PostgresServer) -> PostgresConnection:
    driver = psycopg.connect(postgres.new_database(), autocommit=True)
    driver.execute("CREATE TABLE t (a TEXT, b BIGINT, c DOUBLE PRECISION, d BYTEA, e BOOLEAN)")
    return PostgresConnection(driver)


def test_values_are_read_back_unchanged(connection: PostgresConnection) -> None:
    insert = "INSERT INTO t VALUES (%s, %s, %s, %s, %s)"
    assert connection.execute(insert, ROW).rowcount == 1
    assert connection.execute("UPDATE t SET e = %s", (True,)).rowcount == 1
    for _ in range(PREPARED_AFTER + 3):
        answer = connection.execute(SELECT, {"a": ROW[0], "b": None, "unused": 1})
        assert answer.columns == ["a", "b", "c", "d", "e", "?column?"]
        assert answer.fetchall() == [(*ROW[:4], True, "100%")]
    assert connection.execute("SELECT 1 WHERE false").fetchone() is None
    names = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert names == (1,), "what is used often, and no more"
    connection.close()


def test_the_server_knows_the_type_of_every_value_in_every_query(postgres: PostgresServer) -> None:
    with open_store(postgres.new_database()) as store:
        connection = store.database.session().connection
        for name, statement in store.database._sql.items():
            prepared = connection.driver.pgconn.prepare(name.encode(), KnownStatement(statement).text)
            assert prepared.status == ExecStatus.COMMAND_OK, (name, prepared.error_message)


def test_a_value_of_an_unsupported_type_is_a_type_error(connection: PostgresConnection) -> None:
    with pytest.raises(TypeError, match="the store cannot write a list"):
        connection.execute("SELECT %s", ([1],))
    with pytest.raises(psycopg.DataError, match="NUL"):
        connection.execute("SELECT %s::text", ("a\0b",))
    connection.close()


def test_the_number_of_prepared_statements_is_limited(connection: PostgresConnection) -> None:
    for number in range(MAX_PREPARED + 5):
        for _ in range(PREPARED_AFTER + 1):
            assert connection.execute(f"SELECT {number} + %s::bigint", (1,)).fetchone() == (number + 1,)
    assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (MAX_PREPARED,)
    connection.close()


def test_many_rows_at_once_have_the_same_effect_as_one_after_another(connection: PostgresConnection) -> None:
    connection.run("CREATE TABLE u (a TEXT PRIMARY KEY, b BIGINT, c BYTEA)")
    plain = "INSERT INTO u (a, b, c) VALUES (%(a)s, %(b)s, %(c)s)"
    tolerant = f"{plain}\nON CONFLICT (a) DO NOTHING"
    counting = "INSERT INTO u (a, b) VALUES (%(a)s, (SELECT count(*) FROM u))"
    later = f"{plain} ON CONFLICT (a) DO UPDATE SET b = excluded.b"

    def rows(*names: str) -> list[dict[str, Any]]:
        return [{"c": b"\x00" if place else None, "b": place, "a": name} for place, name in enumerate(names)]

    connection.executemany(plain, rows())
    connection.executemany(plain, rows("one"))
    connection.executemany(plain, rows("two", "three"))
    connection.executemany(tolerant, rows("two", "four", "four"))
    connection.executemany(counting, rows("five", "six"))
    connection.executemany(later, rows("six", "six", "six"))
    connection.executemany(plain, rows(*(f"many {n}" for n in range(MAX_ROWS + 1))))
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.executemany(plain, rows("seven", "seven"))
    stored = connection.execute("SELECT a, b, c FROM u WHERE a NOT LIKE 'many%%'").fetchall()
    expected = [("one", 0, None), ("two", 0, None), ("three", 1, b"\x00"), ("four", 1, b"\x00")]
    assert sorted(stored) == sorted([*expected, ("five", 4, None), ("six", 2, None)])
    assert connection.execute("SELECT count(*), max(b) FROM u").fetchone() == (6 + MAX_ROWS + 1, MAX_ROWS)
    connection.close()


def test_errors_are_those_of_the_driver_and_a_lost_connection_names_its_cause(
    connection: PostgresConnection, postgres: PostgresServer
) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable) as caught:
        connection.execute("SELECT * FROM nowhere")
    assert caught.value.sqlstate == "42P01"
    assert not connection.is_broken
    [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    with pytest.raises(psycopg.OperationalError, match="terminating connection due to administrator command"):
        connection.execute("SELECT 1")
    assert connection.is_broken
