"""The contract, on SQLite and on a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.store import Store, open_store
from clew.testing.postgres import PostgresServer
from clew.testing.store_contract import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with open_store(tmp_path / "home" / "clew.db") as store:
            yield store


@pytest.mark.always
class TestPostgres(StoreContract):
    @pytest.fixture
    def store(self, postgres: PostgresServer) -> Iterator[Store]:
        with open_store(postgres.new_store()) as store:
            yield store
