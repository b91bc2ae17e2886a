"""Breaks connections to PostgreSQL: all of them at once, or one during a commit."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import psycopg

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"  # the server's message after a commit
SOCKET = ".s.PGSQL.5432"


def cut(url: str) -> int:
    """Ends every connection to the database, but not the server. Returns how many there were."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(ended, (connection.info.backend_pid,)).fetchall())


class Between:
    """A proxy between Clew and the server that counts commits, and drops the result of commit number `lose`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._server = str(Path(unquote(parse_qs(urlsplit(url).query)["host"][0])) / SOCKET)
        self._folder = folder
        self.url = url.replace(urlsplit(url).query, f"host={quote(str(folder), safe='')}")
        self.commits = 0
        self.lose: int | None = None  # the number of the commit, from 1
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def open(self) -> Iterator[Between]:
        self._folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self._folder / SOCKET))
            listening.listen()
            taking = threading.Thread(target=self._take, args=(listening,), daemon=True)
            taking.start()
            try:
                yield self
            finally:
                listening.shutdown(socket.SHUT_RDWR)
                taking.join()

    def _take(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._server)
            while True:
                for readable in select.select([client, server], [], [])[0]:
                    data = readable.recv(65536)
                    if not data or (readable is server and self._is_lost(data)):
                        return
                    (server if readable is client else client).sendall(data)

    def _is_lost(self, data: bytes) -> bool:
        with self._lock:
            for _ in range(data.count(COMMITTED)):
                self.commits += 1
                if self.commits == self.lose:
                    return True
        return False
