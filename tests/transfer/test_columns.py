"""What import checks know of columns: the catalogue of the database, and what each part declares, which must match."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clew.core.images import Image
from clew.store.store import Store, open_store
from clew.store.transfer.dumped_tables import NAMES_NO_ROW, TABLES
from clew.testing.postgres import PostgresServer
from clew.testing.store_contract.samples import a_run, a_turn
from transfer.samples import fill, fill_pair

OF_A_THREAD = tuple(TABLES)
JSON = {(name, column): kept for name, table in TABLES.items() for column, kept in table.json.items()}
WITH_ID = {name for name, table in TABLES.items() if table.has_id}
BELONGS_TO = {(name, column): owner for name, table in TABLES.items() for column, owner in table.belongs_to.items()}
MAY_NAME = {(name, column): owner for name, table in TABLES.items() for column, owner in table.may_name.items()}
KINDS = {"TEXT", "BIGINT", "SMALLINT", "DOUBLE PRECISION"}
INDEX_OF_WORDS = "turn_words"  # each database has its own


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "clew.db") as store:
        yield store


AN_IMAGE = Image("a.png", "image/png", 3, "0" * 64)


def test_the_catalogue_is_read_once_and_knows_every_column_of_a_thread(store: Store) -> None:
    catalogue = store.database.catalogue()
    assert store.database.catalogue() is catalogue
    for table in OF_A_THREAD:
        assert {column.kind for column in catalogue[table].values()} <= KINDS, table
    required = {name for name, column in catalogue["turns"].items() if column.is_required}
    assert required == {"id", "thread_id", "position", "role", "text", "partial", "revision", "created_at", "outside"}


@pytest.mark.always
def test_both_databases_have_the_same_catalogue(store: Store, postgres: PostgresServer) -> None:
    with open_store(postgres.new_store()) as other:
        here, there = store.database.catalogue(), other.database.catalogue()
    shared = here.keys() & there.keys() - {INDEX_OF_WORDS}
    assert shared >= set(OF_A_THREAD)
    assert {table: here[table] for table in shared} == {table: there[table] for table in shared}


def test_a_schema_that_was_added_before_ours_in_the_search_path_hides_no_column(postgres: PostgresServer) -> None:
    address = postgres.new_store()
    with open_store(address) as store:
        before = store.database.catalogue()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA AUTHORIZATION CURRENT_USER")  # PostgreSQL tries it before public
    with open_store(address) as store:
        assert store.database.catalogue() == before


def test_owners_are_written_before_what_belongs_to_them() -> None:
    order = list(TABLES)
    assert all(order.index(owner) < order.index(table) for (table, _), owner in BELONGS_TO.items())
    assert {"jobs", "review_rounds", "hook_jobs", "pair_rounds"} <= set(order), "hosts' tables are found"


def test_every_listed_column_is_one_of_the_schema_and_a_text(store: Store) -> None:
    catalogue = store.database.catalogue()
    for table, name in (*JSON, *BELONGS_TO, *MAY_NAME):
        assert table in OF_A_THREAD and catalogue[table][name].kind == "TEXT", (table, name)
    for table, name in BELONGS_TO:
        assert catalogue[table][name].is_required, (table, name)
    assert {*BELONGS_TO.values(), *MAY_NAME.values()} <= WITH_ID


def test_tables_with_an_id_are_those_whose_primary_key_it_is(store: Store) -> None:
    connection = store.database.session().connection
    keys = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[5]] for table in OF_A_THREAD
    }
    assert {table for table, key in keys.items() if key == ["id"]} == WITH_ID


def test_every_foreign_key_and_every_id_is_listed(store: Store) -> None:
    connection, catalogue = store.database.session().connection, store.database.catalogue()
    for table in OF_A_THREAD:
        for foreign in connection.execute(f"PRAGMA foreign_key_list({table})"):
            assert BELONGS_TO[table, foreign[3]] == foreign[2], (table, foreign[3])
        for name in catalogue[table]:
            is_listed = (table, name) in BELONGS_TO or (table, name) in MAY_NAME or name in NAMES_NO_ROW
            absorbed = (table, name) == ("pin_absorbed", "turn_id")  # recognised by its digest as well
            assert is_listed or absorbed or not name.endswith("_id"), (table, name)


def test_every_column_that_holds_json_is_listed(store: Store) -> None:
    fill(store)
    fill_pair(store)
    store.turns.add("thread-1", a_turn("turn-with-image", images=(AN_IMAGE,)))
    store.runs.create(a_run("run-with-image", images=(AN_IMAGE,)))
    found = set()
    for table in OF_A_THREAD:
        for row in store.database.session().connection.execute(f"SELECT * FROM {table}"):
            for name, value in zip(store.database.catalogue()[table], row, strict=True):
                if isinstance(value, str) and _is_json(value):
                    found.add((table, name))
    assert found <= JSON.keys()
    assert found >= {place for place, kept in JSON.items() if kept.shape is list}, "the samples have them all"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False
