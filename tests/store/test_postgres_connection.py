"""The short way to PostgreSQL says the same as the driver's own, prepared or not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from clew.store.postgres_connection import PREPARED_AFTER, PREPARED_MOST, Connection
from clew.testing.postgres import PostgresServer

SELECT = "SELECT a, b, c, d, e, '100%%' FROM t WHERE a = %(a)s AND (b = %(b)s OR a = %(a)s)"
ROW: tuple[Any, ...] = ("it's 100% \\ \n ü", 2**40, 0.1 + 0.2, b"\x00\xff", None)


@pytest.fixture
def connection(postgres: PostgresServer) -> Connection:
    driver = psycopg.connect(postgres.new_database(), autocommit=True)
    driver.execute("CREATE TABLE t (a TEXT, b BIGINT, c DOUBLE PRECISION, d BYTEA, e BOOLEAN)")
    return Connection(driver)


def test_values_come_back_as_they_went(connection: Connection) -> None:
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


def test_a_value_of_another_kind_is_a_fault_of_ours(connection: Connection) -> None:
    with pytest.raises(TypeError, match="a list is no value of the store"):
        connection.execute("SELECT %s", ([1],))
    connection.close()


def test_no_more_is_prepared_than_the_server_is_to_keep(connection: Connection) -> None:
    for number in range(PREPARED_MOST + 5):
        for _ in range(PREPARED_AFTER + 1):
            assert connection.execute(f"SELECT {number} + %s::bigint", (1,)).fetchone() == (number + 1,)
    assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (PREPARED_MOST,)
    connection.close()


def test_errors_are_the_drivers_own_and_a_lost_connection_says_why(
    connection: Connection, postgres: PostgresServer
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
