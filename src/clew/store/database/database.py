"""Connections, transactions and migrations: what every operation of the store stands on.

Theory of operation
1. What an operation reads in a write transaction is still true when it writes. On SQLite such a transaction is alone
   (BEGIN IMMEDIATE), and no lock is ever upgraded: that is where "database is locked" would come from. On PostgreSQL
   each query locks what it is about before it runs, and the transaction keeps that to its end (`locks.py`).
   What concerns the whole store (the counter of versions, the numbers of jobs) is put off to the last step, which goes
   to the server in one message with the commit: whatever becomes of the client then, nobody waits for it.
2. Each OS thread has a connection of its own. Transactions nest: an inner one joins, and what it wrote is durable when
   the outermost one ends. Do not `await` inside a transaction: whatever else ran on that OS thread would join it.
3. When an operation fails after it has written, or a statement fails in the database, the whole transaction is lost:
   every further step in it raises the same error, so that a caller who caught the first one cannot commit half of its
   work. A caller that has something else to do when an operation fails puts it into a `savepoint`, which undoes the
   operation and no more. It costs two more statements, so nobody has one who does not ask for it.
4. No driver's exception leaves this module: the dialect translates.
5. Nothing here knows SQL of one database. That is in the dialect's own module.
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

LOCK_WAIT_S = 30.0  # that a transaction waits for another one
TELL_AFTER_S = 1.0  # of a migration
TELL_EVERY_S = 10.0


class Session:
    """One OS thread's connection, and how deep in transactions it is."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.thread = threading.current_thread()
        self.depth = 0
        self.savepoints = 0
        self.written = 0  # statements in this transaction that may have changed something
        # What was read under a lock, until the next of those: nobody else can have changed it.
        self.read: dict[tuple[str, tuple[tuple[str, Any], ...]], tuple[int, list[Row]]] = {}
        # What is locked: the names, and what was asked for. None: no locks are taken, since it only reads.
        self.locked: frozenset[str | tuple[str, Any] | None] | None = None
        self.time: float | None = None  # by the clock that all share, at the last lock of this transaction
        self.last_step: tuple[Statement, ...] = ()
        self.lost: ClewError | None = None  # the whole transaction is gone, for this reason


class Database:
    """Runs named queries. Every part of the store holds it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._sql = sql.queries(dialect.style)
        self._locks = dialect.locks()
        self.commits = 0  # by this process: whether something that failed has written before
        self._local = threading.local()
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False
        self._catalogue: dict[str, dict[str, Column]] | None = None

    def close(self) -> None:
        """Close every thread's connection. Safe to call twice."""
        with self._lock:
            self._closed = True
            sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside happens, or nothing does. Re-entrant: inner ones join."""
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
            self._still_inside(session)
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
        self._still_inside(session)
        written = session.written
        session.depth += 1
        try:
            yield
        except BaseException as error:
            if session.written != written:
                session.lost = session.lost or _lost_by(error)
            raise
        finally:
            session.depth -= 1

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A transaction. What fails in it is undone, and the one around it may continue without it."""
        session = self.session()
        if not session.depth:
            with self.transaction():
                yield
            return
        self._still_inside(session)
        session.savepoints += 1
        level = session.savepoints
        self._execute(session, f"SAVEPOINT level_{level}")
        before = session.locked, session.last_step
        session.depth += 1
        try:
            yield
            self._still_inside(session)
            self._execute(session, f"RELEASE SAVEPOINT level_{level}")
        except BaseException:
            self._undo(session, level)
            session.locked, session.last_step = before  # a lock taken inside went with the savepoint
            session.read = {}
            raise
        finally:
            session.depth -= 1
            session.savepoints -= 1

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One moment's view for all that is read inside, without keeping writers out. Joins a transaction."""
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

    def _begun(self, session: Session, begin: Callable[[Any], None]) -> Session:
        def begun(session: Session) -> Session:
            begin(session.connection)
            return session

        return self._first(session, begun)

    def _first(self, session: Session, work: Callable[[Session], T]) -> T:
        """Outside of a transaction. A connection that turns out to be gone is replaced: nothing has begun on it yet."""
        try:
            return work(session)
        except self.dialect.errors as error:
            if not self.dialect.is_broken(session.connection):
                raise self.dialect.translate(error) from error
        again = self.session()
        try:
            return work(again)
        except self.dialect.errors as error:
            raise self.dialect.translate(error) from error

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

    def _still_inside(self, session: Session) -> None:
        if session.lost is None and not self.dialect.in_transaction(session.connection):
            session.lost = StoreError("The database ended the transaction.", kind="unreachable", hint="Try again.")
        if session.lost is not None:
            raise session.lost

    def _undo(self, session: Session, level: int = 0) -> None:
        """Roll back to that savepoint, or all; the first error is the one that the caller gets to see."""
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
        """This OS thread's, when it has used the store."""
        return getattr(self._local, "session", None)

    def session(self) -> Session:
        session: Session | None = getattr(self._local, "session", None)
        if self._closed:
            raise StoreError("The store has been closed.", kind="unreachable")
        if session is not None and not session.depth and self.dialect.is_broken(session.connection):
            session = None
        if session is None:
            try:
                session = Session(self.dialect.connect())
            except self.dialect.errors as error:
                raise self.dialect.translate(error) from error
            self._local.session = session
            self._adopt(session)
        return session

    def _adopt(self, session: Session) -> None:
        """Remember it for `close`, and close those of threads that have ended."""
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

    def _failed(self, session: Session, error: Exception) -> ClewError:
        translated = self.dialect.translate(error)
        if session.depth:
            session.lost = session.lost or translated
        return translated

    def _hold(self, session: Session, kind: str, value: Any) -> None:
        """To the end of the transaction; outside of one, and of one that only reads, nothing is locked."""
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
        """Locks it to the end of the transaction."""
        self._hold(self.session(), kind, value)

    def time(self) -> float | None:
        """By the clock that all users of the store share; None: the database has none, since all are on one machine."""

        def read(session: Session) -> float | None:
            return self.dialect.time(session.connection) if session.time is None else session.time

        return self._first_or_inside(read)

    def belongs(self, kind: str, row_id: str, thread_id: str) -> None:
        """The row is the thread's, for good: its lock need not be looked up."""
        self.dialect.know_lock(kind, row_id, thread_id)

    def _hold_for(self, session: Session, query: str, parameters: Mapping[str, Any]) -> None:
        for kind, parameter in self._locks.get(query, ()):
            self._hold(session, kind, parameters[parameter])

    def at_commit(self, query: str, **parameters: Any) -> None:
        """In the last step of the transaction, after the counter of versions has moved."""
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
        """Something that is read, in a transaction or outside of one."""
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

    def do(self, query: str, **parameters: Any) -> int:
        """Run a named query that writes; says how many rows it changed."""
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
            session.written += 1
            try:
                session.connection.executemany(self._sql[query], [packed(row) for row in rows])
            except self.dialect.errors as error:
                raise self._failed(session, error) from error

    def insert(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        """Inside a transaction: rows of the same columns, into a table of the schema."""
        session = self.session()
        values = ", ".join(f":{name}" for name in names)
        statement = sql.spell(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})", self.dialect.style)
        session.written += 1
        try:
            session.connection.executemany(statement, [packed(row) for row in rows])
        except self.dialect.errors as error:
            raise self._failed(session, error) from error

    def catalogue(self) -> Catalogue:
        """The columns of every table, as the database itself has them. Read once: only `migrate` changes them."""

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
        """Bring the schema up to what this code knows. Any number of processes may try at once; one does it."""
        files = sql.migrations()
        connection = self.session().connection
        if self._version(connection) == len(files):
            return
        with self.dialect.guard():
            try:
                self.dialect.prepare(connection)
            except self.dialect.errors as error:
                raise self.dialect.translate(error) from error
            with self.transaction(), told_when_long():
                for number in range(self._version(connection), len(files)):
                    for statement in sql.statements(files[number], self.dialect.style):
                        self._execute(self.session(), statement)
                    self.do("record_version", version=number + 1, name=files[number].stem)

    def _version(self, connection: Any) -> int:
        """Which migration the database stands at: 0 for a new one."""
        known = sql.latest_version()
        try:
            ready = self.dialect.is_ready(connection)
        except self.dialect.errors as error:
            raise self.dialect.translate(error) from error
        row = self.one("schema_version") if ready else None
        version = int(row["version"] or 0) if row else 0
        if version > known:
            raise StoreError(
                f"The database is of a newer Clew (schema {version}; this one knows {known}).",
                kind="too_new",
                hint="Update Clew, or point CLEW_HOME at another folder.",
            )
        return version


@contextmanager
def told_when_long(after_s: float = TELL_AFTER_S) -> Iterator[None]:
    """A large store takes its time: whoever waits is told, once a second has passed and then now and then."""
    done = threading.Event()

    def tell() -> None:
        import logging

        wait_s, waited_s = after_s, 0.0
        while not done.wait(wait_s):
            waited_s += wait_s
            wait_s = TELL_EVERY_S
            logging.getLogger("clew.store").warning(
                "the store is being brought up to date: this is done once, and has taken %.0f s so far", waited_s
            )

    teller = threading.Thread(target=tell, name="clew-migration", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def provisional_number() -> int:
    """For a row whose number is chosen in the last step of its transaction: below zero, and nobody else's."""
    return -int.from_bytes(os.urandom(7)) - 1


def _lost_by(error: BaseException) -> ClewError:
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
