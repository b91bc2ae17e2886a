"""SQLite: where its files are, how they are opened, and what its errors mean.

Rules
1. The file exists with mode 0600 before SQLite opens it; SQLite gives the -wal and -shm files the same mode.
2. WAL and synchronous=FULL: readers never wait, and a commit that returned survives a power cut.
3. Switching a new file to WAL and creating its tables happen under an flock on a file beside it. SQLite's own locks do
   not cover the switch: if several processes try it at once, some fail.
4. Connections open the file, and never create it: a database that was deleted must not be replaced by an empty,
   world-readable one. And a process stops writing when one of the files was deleted, replaced or cut short: SQLite
   would not notice, and everything written would be lost. The files are checked before and after each transaction. A
   process that has lost its store can never use it again: only a person can decide which files are the right ones.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, NotFound, StoreError, UsageError
from clew.store.database.database import LOCK_WAIT_S
from clew.store.database.sql import Style

if TYPE_CHECKING:
    from clew.core.search import SearchQuery
    from clew.store.database.database import Statement
    from clew.store.database.locks import Locks
    from clew.store.database.sqlite_holder import Holder

WAL_KEPT_BYTES = 16 * 1024 * 1024  # a larger log is truncated after a checkpoint
# A process that ends leaves a log up to this size to the next one, which reads it in a millisecond per megabyte. SQLite
# itself copies a log of 4 MB into the database, during a commit: closing comes before that.
WAL_LEFT_BYTES = 2 * 1024 * 1024

_WRITE_FAILED = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE})

_KINDS: dict[int, str] = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_FORMAT: "corrupt",
    sqlite3.SQLITE_ERROR: "corrupt",  # such as a missing table: our SQL is tested, so the schema is damaged
}

_SAYS: dict[str, tuple[str, str]] = {
    "locked": ("is held by another process", "Try again; `clew doctor` shows who is running."),
    "read_only": (
        "cannot be written",
        "Make the file and its folder writable for you, or set CLEW_HOME to another folder.",
    ),
    "full": (
        "cannot grow: the disk or your quota is full",
        "Free some space and try again; nothing stored is lost.",
    ),
    "corrupt": (
        "is damaged or not a Clew database",
        "Move it away together with its -wal file, and restore a copy or start again; `clew doctor` says more.",
    ),
    "lost": (
        "was deleted, replaced or cut short under this process",
        "Start this process again. A daemon or a worker tries to save what it had stored, in a copy beside the "
        "database: clew.db.rescued-….",
    ),
    "unreachable": (
        "cannot be opened",
        "Check that the folder exists and is yours, and that its disk works; CLEW_HOME names another.",
    ),
}


# SQLite allows NULL in a primary key, so its `notnull` is false. Other databases do not, so it counts as NOT NULL here.
_CATALOGUE = """
SELECT tables.name, columns.name, columns.type, columns."notnull" OR columns.pk
FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
"""

SUFFIXES = ("", "-wal", "-shm")
Files = dict[str, tuple[int, int]]  # by suffix: device and inode
Sizes = dict[str, int]
WAL_HEADER, FRAME_HEADER = 32, 24  # bytes


class _Connection(sqlite3.Connection):
    path: Path
    files: Files  # the files that this connection has open
    sizes: Sizes  # the sizes of the files at the last check
    is_lost = False

    def close(self) -> None:
        """Does not close a connection whose files were deleted or replaced: the last connection that closes copies its
        log into the database, over what other processes have written since. It stays open until the process ends, when
        the system closes the files and nothing is copied."""
        if not self.is_lost and difference(self.path, self.files) is None:
            super().close()
        else:
            import ctypes  # before Python 3.12, sqlite3 cannot tell SQLite to skip the copying

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


_left_open: list[_Connection] = []  # they end with the process: a connection that is collected is closed


class Sqlite:
    """One database file."""

    style: Style = "named"
    errors: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        self.path = Path(path).absolute()
        self.uri = self.path.as_uri() + "?mode=rw"
        self._lost: str | None = None  # what happened to the files that this process has open

    def create(self) -> None:
        """Creates the folder and the file if needed; only the owner may read them. Raises StoreError."""
        try:
            if not self.path.parent.is_dir():
                from clew.system.folders import make_private  # needed only once for each CLEW_HOME

                make_private(self.path.parent)
            if os.path.lexists(f"{self.path}-wal") and not os.path.lexists(self.path):  # the database was deleted
                _set_log_aside(self.path)
            _make_file(self.path)
        except OSError as error:
            raise self.translate(error) from error
        if not (os.access(self.path, os.R_OK | os.W_OK) and os.access(self.path.parent, os.W_OK | os.X_OK)):
            raise self._error("read_only")

    def connect(self) -> _Connection:
        self._check_lost()
        connection: _Connection = sqlite3.connect(
            self.uri,
            uri=True,
            timeout=LOCK_WAIT_S,
            isolation_level=None,  # autocommit: we begin every transaction
            check_same_thread=False,  # one thread uses the connection, but `close` may be called from another one
            factory=_Connection,
        )
        try:
            connection.path, connection.files, connection.sizes = self.path, {}, {}
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
            connection.files = {"": self._file()}
            if self.path.stat().st_size:  # an empty file is still being initialised: `begin` reads its identities
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()
                connection.files |= identities(self.path)  # after this read, no closing process deletes the log
        except BaseException:
            connection.close()
            raise
        return connection

    def is_broken(self, connection: _Connection) -> bool:
        """Whether the open files are no longer those at the path, or one was cut short. Once true, it stays true."""
        if self._lost is None:
            self._lost = difference(self.path, connection.files) or self._shortened(connection)
        connection.is_lost = self._lost is not None
        return connection.is_lost

    def _shortened(self, connection: _Connection) -> str | None:
        """Says which file was cut short. SQLite itself also shortens files, but never below the size that it needs."""
        if connection.in_transaction:
            return None  # the files are checked before and after a transaction
        seen, connection.sizes = connection.sizes, sizes(self.path)
        for suffix, needed in (("-wal", _needed_of_log), ("", _needed_of_database)):
            was, now = seen.get(suffix, 0), connection.sizes.get(suffix, 0)
            if now >= was:
                continue
            try:
                is_short = now < min(was, needed(connection))
            except sqlite3.Error:
                is_short = True
            if is_short:
                return f"{self.path.name}{suffix} was cut short"
        return None

    def leave(self, connection: _Connection) -> bool:
        """The last connection that is closed copies the log into the database, and deletes it. That takes longer than
        everything else at the end of a command, and it is safe to do it later: all that is in the log is durable, and
        whoever opens the database next reads the log, as after a crash."""
        if connection.in_transaction or sizes(self.path).get("-wal", 0) > WAL_LEFT_BYTES:
            return False
        _left_open.append(connection)
        return True

    def lost(self, connection: _Connection) -> StoreError | None:
        return self._lost_error() if self.is_broken(connection) else None

    def _lost_error(self) -> StoreError:
        says, hint = _SAYS["lost"]
        return StoreError(f"The database {self.path} {says} ({self._lost}).", kind="lost", hint=hint)

    def _check_lost(self) -> None:
        if self._lost is not None:
            raise self._lost_error()

    def rescue(self, connection: _Connection) -> Path:
        """Makes the copy beside the lost database, and returns its path."""
        copy = self.path.with_name(f"{self.path.name}.rescued-{os.getpid()}-{os.urandom(3).hex()}")
        _make_file(copy)
        to = sqlite3.connect(copy)
        try:
            connection.backup(to)
        finally:
            to.close()
        return copy

    def _file(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_dev, found.st_ino

    def begin(self, connection: _Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if len(connection.files) < len(SUFFIXES):
            connection.files = identities(self.path) | connection.files
        if self.is_broken(connection):
            connection.execute("ROLLBACK")
            self._check_lost()

    def locks(self) -> dict[str, Locks]:
        return {}

    # The methods of locks do nothing: there is only one write transaction at a time.

    def lock_name(self, kind: str, value: Any) -> str:
        return ""

    def know_lock(self, kind: str, row_id: str, thread_id: str) -> None: ...

    def lock(self, connection: sqlite3.Connection, name: str) -> float | None: ...

    def lock_of(self, connection: sqlite3.Connection, kind: str, value: Any) -> str | None: ...

    def wait_for_locks(self, max_s: float) -> None:
        """Does nothing: all transactions share one lock, so a caller that gave up sooner could do nothing else."""

    def commit(self, connection: _Connection, statements: Sequence[Statement]) -> None:
        for statement, parameters in statements:
            connection.execute(statement, parameters)
        if not self.is_broken(connection):
            connection.execute("COMMIT")
        if self.is_broken(connection):  # the files were lost before or during the commit
            self._check_lost()

    def time(self, connection: sqlite3.Connection) -> None:
        """Always None: all processes that open the file are on this machine and share its clock."""

    def begin_reading(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")

    def in_transaction(self, connection: sqlite3.Connection) -> bool:
        return connection.in_transaction

    def columns(self, cursor: sqlite3.Cursor) -> list[str]:
        return [column[0] for column in cursor.description]

    def catalogue(self, connection: sqlite3.Connection) -> list[tuple[str, str, str, bool]]:
        return connection.execute(_CATALOGUE).fetchall()

    @contextmanager
    def guard(self) -> Iterator[None]:
        import fcntl

        try:
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self.translate(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)  # releases the lock. If the file were deleted, two processes could lock different files

    def is_ready(self, connection: sqlite3.Connection) -> bool:
        if self.path.stat().st_size == 0:
            return False  # the database is being created: a caller must hold the guard before it reads
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            return False
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'")
        return found.fetchone() is not None

    def prepare(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreError(
                f"The database {self.path} cannot use a write-ahead log (its journal mode stays {mode}).",
                kind="unreachable",
                hint="Keep it on a local disk: set CLEW_HOME.",
            )

    def translate(self, error: Exception) -> ClewError:
        """The error of `clew.errors`: a wrong call, or a StoreError with its kind."""
        if isinstance(error, OSError):
            return self._error(_kind_of(error.errno), error)
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # raised by Python's sqlite3 module: a stored text that is not UTF-8, or a wrong call
            return self._error("corrupt" if "decode" in str(error) else "unreachable", error)
        if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return NotFound("The row that this belongs to is not in the store.")
        if code & 0xFF == sqlite3.SQLITE_CONSTRAINT:
            return UsageError(f"The store refused it: {error}.")
        if code & 0xFF == sqlite3.SQLITE_TOOBIG:
            return UsageError("The text is too long to be stored.")
        if "no such module" in str(error):
            return StoreError(
                f"This Python's SQLite cannot search texts ({error}).",
                kind="unreachable",
                hint="Use a Python whose SQLite has FTS5, or PostgreSQL by CLEW_STORE.",
            )
        if code == sqlite3.SQLITE_IOERR_SHORT_READ and self._has_no_log():
            return StoreError(
                f"The database {self.path} cannot be opened: its files were deleted or replaced under a process.",
                kind="unreachable",
                hint="Stop every daemon and worker, and start again. What they had stored is in clew.db.rescued-….",
            )
        if code in _WRITE_FAILED:
            return self._error("full", error)
        if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) and self.path.exists():
            writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
            return self._error("unreachable" if writable else "read_only", error)
        return self._error(_KINDS.get(code & 0xFF, "unreachable"), error)

    def _has_no_log(self) -> bool:
        """Whether the log is missing or empty although a process has the database open, as the log's index shows."""
        there = {suffix: Path(f"{self.path}{suffix}") for suffix in SUFFIXES}
        return there["-shm"].exists() and not (there["-wal"].exists() and there["-wal"].stat().st_size)

    def search_words(self, words: SearchQuery) -> str:
        return " AND ".join(f'"{" ".join(phrase.words)}"{" *" if phrase.is_prefix else ""}' for phrase in words.phrases)

    def _error(self, kind: str, error: Exception | None = None) -> StoreError:
        says, hint = _SAYS[kind]
        holder = self._holder() if kind == "locked" else None
        if holder is not None:
            return StoreError(f"The database {self.path} is held by {holder}.", kind=kind, hint=holder.hint)
        why = f" ({_words(error)})" if error is not None else ""
        return StoreError(f"The database {self.path} {says}{why}.", kind=kind, hint=hint)

    def _holder(self) -> Holder | None:
        from clew.store.database.sqlite_holder import write_lock_holder

        return write_lock_holder(self.path)

    def obstacles(self, connection: sqlite3.Connection) -> list[tuple[str, str]]:
        return [*self.why_not_opened(), *self.rescued()]

    def why_not_opened(self) -> list[tuple[str, str]]:
        """Why a command that only reads must not open the database: it would wait for long, or create a new one."""
        holder = self._holder()
        if holder is not None and holder.is_stopped:
            return [(f"No process can write to the database: it is held by {holder}.", holder.hint)]
        log = self.path.with_name(f"{self.path.name}-wal")
        if not self.path.exists() and log.exists():
            hint = "Put it back, or stop every daemon and worker, move the log away and start again."
            return [(f"{self.path} is gone, but its log, {log}, is there.", hint)]
        return []

    def rescued(self) -> list[tuple[str, str]]:
        """The copies that processes made when they lost the database."""
        hint = "See what it has (CLEW_HOME, or sqlite3), then move it into place or delete it."
        return [
            (f"{copy} is a copy from a process whose database was deleted, replaced or cut short.", hint)
            for copy in sorted(self.path.parent.glob(f"{self.path.name}.rescued-*"))
        ]

    def problems(self, connection: sqlite3.Connection) -> list[str]:
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
        orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(20)
        found += [f"a row of {row[0]} belongs to a row of {row[2]} that is missing" for row in orphans]
        for file in (Path(f"{self.path}{suffix}") for suffix in SUFFIXES):
            with suppress(FileNotFoundError):
                if file.stat().st_mode & 0o077:
                    found.append(f"{file} can be read by others: chmod 600 it")
        return found


def identities(path: Path) -> Files:
    """Device and inode of each of the database's files that exist."""
    found = {}
    for suffix in SUFFIXES:
        try:
            status = os.stat(f"{path}{suffix}")  # noqa: PTH116 - called at every transaction
        except FileNotFoundError:
            continue
        found[suffix] = (status.st_dev, status.st_ino)
    return found


def difference(path: Path, opened: Files) -> str | None:
    """Which of the opened files was deleted or replaced; None: they are still the files at the path."""
    there = identities(path)
    for suffix, identity in opened.items():
        if there.get(suffix) != identity:
            return f"{path.name}{suffix} was {'replaced' if suffix in there else 'deleted'}"
    return None


def sizes(path: Path) -> Sizes:
    found = {}
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            found[suffix] = os.stat(f"{path}{suffix}").st_size  # noqa: PTH116 - called at every transaction
    return found


def _needed_of_log(connection: sqlite3.Connection) -> int:
    """The size in bytes that the log must have for its frames. Raises when SQLite cannot read it."""
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    [page] = connection.execute("PRAGMA page_size").fetchone()
    return WAL_HEADER + int(frames) * (FRAME_HEADER + int(page)) if frames > 0 else 0


def _needed_of_database(connection: sqlite3.Connection) -> int:
    """The size in bytes of all pages. The file may be smaller while some pages are only in the log."""
    [pages], [page] = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    return int(pages) * int(page)


def _words(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _kind_of(number: int | None) -> str:
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "read_only"
    return "full" if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "unreachable"


def _set_log_aside(path: Path) -> None:
    """Renames the log of a database that was deleted without it. A new database of that name would use and empty the
    log, but a daemon that has both files open needs it for a copy of what it had stored."""
    import logging

    mark = f"left-{os.getpid()}-{os.urandom(3).hex()}"
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{path}{suffix}.{mark}")
    logging.getLogger("clew.store").warning(
        "%s was missing, but its log was there: the log is now %s-wal.%s", path, path, mark
    )


def _make_file(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:  # it is not opened here, because closing it would release this process's SQLite locks
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path)) from None
        if stat.S_ISREG(mode) and mode & 0o077:
            with suppress(PermissionError):  # another user owns the file and decides its mode
                path.chmod(0o600)
        return
    try:
        os.fchmod(file, 0o600)  # regardless of the umask
    finally:
        os.close(file)
