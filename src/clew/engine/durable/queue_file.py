"""The queue's own SQLite file, next to the store's. If it is lost, the queue is rebuilt from the store."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from clew.errors import StoreError

log = logging.getLogger("clew.engine.durable.worker")

CHECKED_BYTES = 64 * 1024 * 1024  # of a larger file, only the header and the schema are checked
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


@contextmanager
def prepared(file: str) -> Iterator[int]:
    """Makes the file usable. A damaged file is renamed and replaced, unless other workers use it.

    Yields a descriptor: while it is open, the file counts as in use. Workers that start at the same time enter one
    after the other, and the first one creates the tables inside this context. This process must not have the file open
    already, because closing a file drops all locks that the process has on it. Raises StoreError.
    """
    import fcntl

    guard, users = (_open(file, suffix) for suffix in (".lock", ".users"))
    is_ready = False
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        in_use = _has_others(users)
        making = Path(f"{file}.making")
        if making.exists():  # a worker was killed while it created the tables, so nobody has used them
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
        os.close(_open(file))
        if not Path(file).stat().st_size:
            making.touch(0o600)
        if _is_damaged(file):
            if in_use:
                raise StoreError(
                    f"The queue's file {file} is damaged, and other workers have it open.",
                    kind="corrupt",
                    hint="Stop them and start again. The queue is then rebuilt from the store, and nothing is lost.",
                )
            _rename(file)
            os.close(_open(file))
            making.touch(0o600)
        yield users
        making.unlink(missing_ok=True)
        is_ready = True
    finally:
        os.close(guard)
        if not is_ready:
            os.close(users)


def _has_others(users: int) -> bool:
    """Whether other workers use the file. From now on the file also counts as used by this worker."""
    import fcntl

    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_alone = True
    except BlockingIOError:
        is_alone = False
    fcntl.flock(users, fcntl.LOCK_SH)
    return not is_alone


def _open(file: str, suffix: str = "") -> int:
    try:
        return os.open(f"{file}{suffix}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(file, error) from error


def connected(file: str) -> Any:
    """An SQLAlchemy engine with a write-ahead log, so that workers do not block each other."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"sqlite:///{file}", connect_args={"timeout": 30})

    @sqlalchemy.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    return engine


def _is_damaged(file: str) -> bool:
    """Checks the header, the schema and, if the file is small, all of it. An empty file is a new one."""
    try:
        with closing(sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if Path(file).stat().st_size > CHECKED_BYTES:
                return False
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            return True
        raise _unusable(file, error) from error


def _rename(file: str) -> None:
    name = f"{file}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
    while os.path.lexists(name):
        name += "x"
    for suffix in ("-wal", "-shm"):
        if os.path.lexists(f"{file}{suffix}"):
            Path(f"{file}{suffix}").rename(f"{name}{suffix}")
    Path(file).rename(name)
    log.warning("the queue's file was damaged: it is now %s, and the queue is rebuilt from the rows of hooks", name)


def _unusable(file: str, error: Exception) -> StoreError:
    number = error.errno if isinstance(error, OSError) else None
    kinds = {errno.EACCES: "read_only", errno.EPERM: "read_only", errno.EROFS: "read_only", errno.ENOSPC: "full"}
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StoreError(
        f"The queue's file {file} cannot be used ({why}).",
        kind=kinds.get(number or 0, "unreachable"),
        hint="It must be a file that you may write to. If you move it away, it is rebuilt, and nothing is lost.",
    )
