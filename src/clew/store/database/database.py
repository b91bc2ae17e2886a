"""Connections, transactions and migrations: the base of every operation of the store.

Theory of operation
1. What an operation reads in a write transaction is still true when it writes. On SQLite there is only one write
   transaction at a time (BEGIN IMMEDIATE), and no lock is ever upgraded, which would cause "database is locked". On
   PostgreSQL each query takes its locks before it runs, and the transaction keeps them until it ends (`locks.py`).
   Writes that concern the whole store (the version counter, the numbers of jobs) are deferred to the last step. It is
   sent to the server in one message with the commit, so no other process waits for this client, even if it dies.
2. Each OS thread has its own connection. Transactions nest: an inner one joins the outer one, and its writes are
   durable when the outermost one ends. Do not `await` inside a transaction: other code on that OS thread would join it.
3. When an operation fails after it has written, or a statement fails in the database, the whole transaction is lost:
   every further step in it raises the same error, so that a caller that caught the first error cannot commit half of
   its work. A caller that can continue after a failed operation runs it in a `savepoint`, which undoes only that
   operation. A savepoint costs two more statements, so there is none unless a caller asks for it.
4. No exception of a driver leaves this module: the dialect translates it.
5. No SQL in this module is specific to one database. Such SQL is in the dialect's module.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from clew.errors import ClewError, StoreError
from clew.store.database import sql
from clew.store.database.text import ESCAPE, pack, unpack

if TYPE_CHECKING:
    from clew.store.database.dialect import Catalogue, Column, Dialect

Row = dict[str, Any]
T = TypeVar("T")
Statement = tuple[str, Row]

LOCK_WAIT_S = 30.0  # how long a transaction waits for another one
LOG_AFTER_S = 1.0  # a migration that takes longer is logged …
LOG_EVERY_S = 10.0  # … and again at this interval


class Session:
    """One OS thread's connection, and the state of its transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.thread = threading.current_thread()
        self.depth = 0  # how many transactions are nested
        self.savepoints = 0
        self.written = 0  # how many statements of this transaction may have changed something
        # Rows that were read under a lock, with `written` at that time. No other process can have changed them, so they
        # are valid until this transaction writes.
        self.read: dict[tuple[str, tuple[tuple[str, Any], ...]], tuple[int, list[Row]]] = {}
        # The locks that this transaction holds: their names, and the kinds and values that were asked for. None: there
        # is no write transaction, so no locks are taken.
        self.locked: frozenset[str | tuple[str, Any] | None] | None = None
        self.time: float | None = None  # the server's time when the last lock of this transaction was taken
        self.last_step: tuple[Statement, ...] = ()
        self.lost: ClewError | None = None  # the reason why the whole transaction cannot be committed


class Database:
    """Runs named queries. Every part of the store holds it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._sql = sql.own_queries(dialect.style)
        self._locks = dialect.locks()
        self.commits = 0  # of this process: tells whether an operation that failed had committed something
        self._local = threading.local()
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False
        self._catalogue: dict[str, dict[str, Column]] | None = None

    def close(self, *, process_ends: bool = False) -> None:
        """Close every thread's connection. Safe to call twice. `process_ends`: the system is about to close them."""
        with self._lock:
            self._closed = True
            sessions, self._sessions = self._sessions, []
        for session in sessions:
            if not (process_ends and self.dialect.leave(session.connection)):
                session.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits everything inside, or nothing. An inner transaction joins the outer one."""
        session = self.session()
        if session.depth:
            with self._joined(session):
                yield
            return
        session = self._begun(session, self.dialect.begin)
        session.locked, session.written = frozenset(), 0
        session.depth = 1
        try:
            yield
            self._check_not_lost(session)
            self._commit(session)
        except BaseException:
            self._undo(session)
            raise
        finally:
            session.depth = 0
            session.lost, session.locked, session.last_step, session.read = None, None, (), {}
            session.time = None

    @contextmanager
    def _joined(self, session: Session) -> Iterator[None]:
        self._check_not_lost(session)
        written = session.written
        session.depth += 1
        try:
            yield
        except BaseException as error:
            if session.written != written:
                session.lost = session.lost or _as_clew_error(error)
            raise
        finally:
            session.depth -= 1

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A transaction whose failure undoes only itself: the outer transaction can continue."""
        session = self.session()
        if not session.depth:
            with self.transaction():
                yield
            return
        self._check_not_lost(session)
        session.savepoints += 1
        level = session.savepoints
        self._execute(session, f"SAVEPOINT level_{level}")
        before = session.locked, session.last_step
        session.depth += 1
        try:
            yield
            self._check_not_lost(session)
            self._execute(session, f"RELEASE SAVEPOINT level_{level}")
        except BaseException:
            self._undo(session, level)
            session.locked, session.last_step = before  # the rollback released the locks that were taken inside
            session.read = {}
            raise
        finally:
            session.depth -= 1
            session.savepoints -= 1

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Everything read inside is of one consistent state, and writers are not blocked. Joins an open transaction."""
        session = self.session()
        if session.depth:
            yield
            return
        session = self._begun(session, self.dialect.begin_reading)
        session.depth += 1
        try:
            yield
        finally:
            session.depth -= 1
            self._undo(session)
            session.lost = None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises the driver's exceptions as those of `clew.errors`."""
        try:
            yield
        except self.dialect.errors as error:
            raise self.dialect.translate(error) from error

    def _begun(self, session: Session, begin: Callable[[Any], None]) -> Session:
        def begun(session: Session) -> Session:
            begin(session.connection)
            return session

        return self._first(session, begun)

    def _first(self, session: Session, work: Callable[[Session], T]) -> T:
        """Runs the first work on an idle connection. A broken one is replaced once: no transaction was open on it."""
        try:
            return work(session)
        except self.dialect.errors as error:
            if not self.dialect.is_broken(session.connection):
                raise self.dialect.translate(error) from error
        with self.translated():
            return work(self.session())

    def _commit(self, session: Session) -> None:
        statements = session.last_step and ((self._sql["count_change"], {}), *session.last_step)
        try:
            self.dialect.commit(session.connection, statements)
        except self.dialect.errors as error:
            translated = self._failed(session, error)
            if isinstance(translated, StoreError) and self.dialect.is_broken(session.connection):
                translated.passing, translated.in_doubt = False, True
            raise translated from error
        self.commits += 1

    def _check_not_lost(self, session: Session) -> None:
        if session.lost is None and not self.dialect.in_transaction(session.connection):
            session.lost = StoreError("The database ended the transaction.", kind="unreachable", hint="Try again.")
        if session.lost is not None:
            raise session.lost

    def _undo(self, session: Session, level: int = 0) -> None:
        """Rolls back to that savepoint, or everything. The caller sees the first error, not one of the rollback."""
        if not self.dialect.in_transaction(session.connection):
            return
        try:
            if level:
                session.connection.execute(f"ROLLBACK TO SAVEPOINT level_{level}")
                session.connection.execute(f"RELEASE SAVEPOINT level_{level}")
                session.lost = None
            else:
                session.connection.execute("ROLLBACK")
        except self.dialect.errors as error:
            session.lost = session.lost or self.dialect.translate(error)

    def known_session(self) -> Session | None:
        """The session of this OS thread, if it has used the store."""
        return getattr(self._local, "session", None)

    def session(self) -> Session:
        """The session of this OS thread; a broken connection is replaced, unless a transaction is open on it."""
        session = self.known_session()
        if self._closed:
            raise StoreError("The store has been closed.", kind="unreachable")
        if session is not None and not session.depth and self.dialect.is_broken(session.connection):
            session = None
        if session is None:
            with self.translated():
                session = Session(self.dialect.connect())
            self._local.session = session
            self._adopt(session)
        return session

    def _adopt(self, session: Session) -> None:
        """Keeps the session for `close`, and closes the sessions of OS threads that have ended."""
        with self._lock:
            ended = [known for known in self._sessions if not known.thread.is_alive()]
            self._sessions = [known for known in self._sessions if known not in ended] + [session]
        for known in ended:
            known.connection.close()

    def _execute(self, session: Session, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        try:
            return session.connection.execute(statement, parameters or {})
        except self.dialect.errors as error:
            raise self._failed(session, error) from error

    def _execute_many(self, session: Session, statement: str, rows: Iterable[Row]) -> None:
        session.written += 1
        try:
            session.connection.executemany(statement, [packed(row) for row in rows])
        except self.dialect.errors as error:
            raise self._failed(session, error) from error

    def _failed(self, session: Session, error: Exception) -> ClewError:
        translated = self.dialect.translate(error)
        if session.depth:
            session.lost = session.lost or translated
        return translated

    def _hold(self, session: Session, kind: str, value: Any) -> None:
        """Takes a lock until the transaction ends. Outside of a write transaction nothing is locked."""
        if session.locked is None:
            return
        asked = kind, pack(value) if isinstance(value, str) else value
        name = self.dialect.lock_name(*asked)
        if asked in session.locked or name in session.locked:
            return
        try:
            if name is None:
                name = self.dialect.lock_of(session.connection, *asked)
            else:
                session.time = self.dialect.lock(session.connection, name)
        except self.dialect.errors as error:
            raise self._failed(session, error) from error
        session.locked |= {asked, name}

    def hold(self, kind: str, value: Any) -> None:
        """Takes the lock of that kind and value until the transaction ends."""
        self._hold(self.session(), kind, value)

    def time(self) -> float | None:
        """The server's time. None: the database has no clock, because all its users are on one machine."""

        def read(session: Session) -> float | None:
            return self.dialect.time(session.connection) if session.time is None else session.time

        return self._first_or_inside(read)

    def belongs(self, kind: str, row_id: str, thread_id: str) -> None:
        """Remembers the row's thread, which never changes, so that the name of its lock need not be looked up."""
        self.dialect.know_lock(kind, row_id, thread_id)

    def _hold_for(self, session: Session, query: str, parameters: Mapping[str, Any]) -> None:
        for kind, parameter in self._locks.get(query, ()):
            self._hold(session, kind, parameters[parameter])

    def at_commit(self, query: str, **parameters: Any) -> None:
        """Runs the query in the last step of the transaction, after the version counter was increased."""
        session = self.session()
        assert session.locked is not None, "inside a write transaction"
        statement = (self._sql[query], packed(parameters))
        session.written += 1
        if statement not in session.last_step:
            session.last_step += (statement,)

    def all(self, query: str, **parameters: Any) -> list[Row]:
        """The rows of a named query."""

        def read(session: Session) -> list[Row]:
            self._hold_for(session, query, parameters)
            is_held = session.locked is not None and query in self._locks
            key = query, tuple(parameters.items())
            written, known = session.read.get(key, (-1, [])) if is_held else (-1, [])
            if written == session.written:
                return [row.copy() for row in known]
            statement = self._sql[query]
            session.written += not statement.startswith("SELECT")
            cursor = session.connection.execute(statement, packed(parameters))
            names = self.dialect.columns(cursor)
            found = [_unpacked(names, values) for values in cursor.fetchall()]
            if is_held:
                session.read[key] = session.written, [row.copy() for row in found]
            return found

        return self._first_or_inside(read)

    def _first_or_inside(self, work: Callable[[Session], T]) -> T:
        """Runs a read, inside or outside of a transaction."""
        session = self.session()
        if not session.depth:
            return self._first(session, work)
        try:
            return work(session)
        except self.dialect.errors as error:
            raise self._failed(session, error) from error

    def one(self, query: str, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def number(self, query: str, **parameters: Any) -> int:
        """The column `n` of the first row; 0 if there is no row."""
        row = self.one(query, **parameters)
        return int(row["n"]) if row else 0

    def do(self, query: str, **parameters: Any) -> int:
        """Runs a named query that writes. Returns how many rows it changed."""
        with self.transaction():
            session = self.session()
            self._hold_for(session, query, parameters)
            session.written += 1
            return int(self._execute(session, self._sql[query], packed(parameters)).rowcount)

    def do_many(self, query: str, rows: Iterable[Row]) -> None:
        with self.transaction():
            session = self.session()
            rows = list(rows)
            for row in rows:
                self._hold_for(session, query, row)
            self._execute_many(session, self._sql[query], rows)

    def insert(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        """Inserts rows, which all have these columns, into a table of the schema. Call it inside a transaction."""
        values = ", ".join(f":{name}" for name in names)
        statement = sql.spell(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})", self.dialect.style)
        self._execute_many(self.session(), statement, rows)

    def catalogue(self) -> Catalogue:
        """The columns of every table, from the database's own catalogue. Read once: only `migrate` changes them."""
        from clew.store.database.dialect import Column

        def read(session: Session) -> dict[str, dict[str, Column]]:
            found: dict[str, dict[str, Column]] = {}
            for table, name, kind, is_required in self.dialect.catalogue(session.connection):
                found.setdefault(table, {})[name] = Column(kind, bool(is_required))
            return found

        if self._catalogue is None:
            self._catalogue = self._first_or_inside(read)
        return self._catalogue

    def migrate(self) -> None:
        """Migrates the schema to the version of this code. Several processes may call it; one of them does it."""
        files = sql.migrations()
        connection = self.session().connection
        if self._version(connection) == len(files):
            return
        with self.dialect.guard():
            with self.translated():
                self.dialect.prepare(connection)
            with self.transaction(), logged_when_slow():
                for number in range(self._version(connection), len(files)):
                    for statement in sql.statements(files[number], self.dialect.style):
                        self._execute(self.session(), statement)
                    self.do("record_version", version=number + 1, name=files[number].stem)

    def _version(self, connection: Any) -> int:
        """The number of the last migration that was applied; 0 for a new database."""
        known = sql.latest_version()
        with self.translated():
            ready = self.dialect.is_ready(connection)
        row = self.one("schema_version") if ready else None
        version = int(row["version"] or 0) if row else 0
        if version > known:
            raise StoreError(
                f"The database was written by a newer Clew (schema {version}; this one knows {known}).",
                kind="too_new",
                hint="Update Clew, or point CLEW_HOME at another folder.",
            )
        return version


@contextmanager
def logged_when_slow(after_s: float = LOG_AFTER_S) -> Iterator[None]:
    """Logs a warning when a migration takes long, as it does for a large store, and repeats it at intervals."""
    done = threading.Event()

    def log() -> None:
        import logging

        wait_s, waited_s = after_s, 0.0
        while not done.wait(wait_s):
            waited_s += wait_s
            wait_s = LOG_EVERY_S
            logging.getLogger("clew.store").warning(
                "the store is being migrated: this is done once, and has taken %.0f s so far", waited_s
            )

    logger = threading.Thread(target=log, name="clew-migration", daemon=True)
    logger.start()
    try:
        yield
    finally:
        done.set()
        logger.join()


def provisional_number() -> int:
    """A unique negative number for a row whose final number is assigned in the last step of its transaction."""
    return -int.from_bytes(os.urandom(7)) - 1


def _as_clew_error(error: BaseException) -> ClewError:
    if isinstance(error, ClewError):
        return error
    return StoreError(f"A step of the transaction failed ({error!r}).", kind="unreachable", hint="Try again.")


def packed(parameters: Mapping[str, Any]) -> Row:
    return {name: pack(value) if isinstance(value, str) else value for name, value in parameters.items()}


def _unpacked(names: Sequence[str], values: Sequence[Any]) -> Row:
    return {
        name: unpack(value) if type(value) is str and ESCAPE in value else value
        for name, value in zip(names, values, strict=True)
    }
