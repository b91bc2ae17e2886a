"""Threads put away into archive files and brought back; what is old goes by itself when the settings say so.

Rules
1. A thread leaves the store only in the transaction in which its archive has been written (law 7).
2. None is put away that somebody uses: a run, a queued prompt, a job under way, an open question.
3. What comes back is at rest. A pin comes back only while its session's file stands; else the next turn is fresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.core.history import Turn
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.leases import is_dead, thread_key
from clew.errors import Busy, ClewError, NotFound, StoreError, UsageError
from clew.hosts import archive_file, pair_folder
from clew.hosts.archive_file import ArchiveFile, Dump, Tables
from clew.hosts.checks import is_file, named_path
from clew.hosts.portable_rows import at_rest, narrowed, renewed
from clew.store import foreign
from clew.store.records import each, thread_from, turn_from
from clew.store.restoring import TABLES, Taken, pins_of, restore
from clew.store.store import Store

DAY_S = 86_400.0
PAIR_LEASES = "pair/"
TIDIED = "threads_tidied_at"  # the fact that keeps several daemons from doing it at once


class Archived(Record):
    """A thread that was put away, or would be."""

    name: str
    kind: str
    turns: int
    path: Path | None  # None: a dry run
    others: tuple[str, ...] = ()  # went with it: the other one of a pair
    pairs: tuple[tuple[str, str], ...] = ()  # that went: directory and id


class Restored(Record):
    """What came back."""

    threads: tuple[Thread, ...]
    turns: int  # that stand
    resumable: int  # sessions that still stand
    was: str  # the thread's name when it was put away
    is_copy: bool  # its ids were taken: it came under new ones
    is_narrowed: bool  # from a file of elsewhere: its permissions or its trust were wider


class Cleaned(Record):
    """What a clean-up did, or would do."""

    archived: tuple[Archived, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()  # old, but in use: name, why
    expired: tuple[Path, ...] = ()  # archives that were removed


# Hears of each that was put away, and of each archive that was removed, as it happens; in any thread.
Tell = Callable[[Archived | Path], None]


class Archives:
    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        keep_threads_s: float | None = None,
        keep_archives_s: float | None = None,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._keep_threads_s = keep_threads_s
        self._keep_archives_s = keep_archives_s

    async def archive(self, name: str, *, asked: bool = False) -> Archived:
        """Writes the thread to a file and takes it out of the store; of a pair, both. Raises NotFound and Busy.

        `asked`: also when a question of a run that is over is open; it could only be answered by another run.
        """
        done = await self._engine.database.atomically(
            lambda store: self.put_away(store, store.together(name)[0], asked=asked, and_files=False)
        )
        await self._engine.database.call(lambda store: _remove_files(store, done))
        return done

    async def files(self) -> list[ArchiveFile]:
        """The newest first."""
        return archive_file.all_in(self._folder)

    async def find(self, file_or_name: str) -> Path:
        """The archive that is meant. Raises NotFound."""
        return self._find(file_or_name)

    async def restore(self, file_or_name: str) -> Restored:
        """Of an archive's path, or the newest one of a thread's name."""
        path = self._find(file_or_name)
        ours = path.resolve().parent == self._folder.resolve()
        content = archive_file.read(path)
        try:
            return await self._engine.database.atomically(lambda store: self._restore(store, content, ours=ours))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path} is damaged: it does not hold a whole thread.") from error
        except (StoreError, UsageError) as error:
            if isinstance(error, StoreError) and error.kind != "corrupt":
                raise
            raise UsageError(f"{path} is damaged: {error.message}") from error

    async def clean(
        self, older_than_s: float, *, kind: str | None = None, dry_run: bool = False, tell: Tell | None = None
    ) -> Cleaned:
        """Puts away what was not used for so long, each in a transaction of its own; what is in use stays."""
        before = self._engine.around.clock() - older_than_s
        old = await self._engine.database.call(lambda store: store.unused_threads(before, kind))
        archived, kept, gone = [], [], set[str]()
        for thread in old:
            if thread.id in gone:
                continue  # with the other one of its pair
            try:
                unit, put_away = await self._clean_one(thread, before, dry_run=dry_run, tell=tell)
            except NotFound:
                continue  # somebody was faster
            except Busy as error:
                kept.append((thread.name, error.message))
                continue
            gone |= unit
            archived.append(put_away)
        return Cleaned(tuple(archived), tuple(kept))

    async def expire(self, older_than_s: float, *, dry_run: bool = False, tell: Tell | None = None) -> Cleaned:
        """Removes archives for good that are older."""
        before = self._engine.around.clock() - older_than_s
        old = [file.path for file in await self.files() if max(file.archived_at, file.changed_at) < before]
        for path in old:
            if not dry_run:
                path.unlink(missing_ok=True)
            if tell is not None:
                tell(path)
        return Cleaned(expired=tuple(old))

    async def tidy(self, *, dry_run: bool = False, tell: Tell | None = None) -> Cleaned:
        """What the settings retention.threads and retention.archives say."""
        done = Cleaned()
        if self._keep_archives_s is not None:
            done = await self.expire(self._keep_archives_s, dry_run=dry_run, tell=tell)
        if self._keep_threads_s is not None:
            cleaned = await self.clean(self._keep_threads_s, dry_run=dry_run, tell=tell)
            done = replace(cleaned, expired=done.expired)
        return done

    async def tidy_if_due(self) -> Cleaned | None:
        """Once a day, whichever daemon or worker of this store comes first. None: it is not time yet."""
        now = self._engine.around.clock()

        def is_due(store: Store) -> bool:
            last = store.fact(TIDIED)
            if last is not None and 0 <= now - float(last) < DAY_S:
                return False
            store.save_fact(TIDIED, repr(now))
            return True

        return await self.tidy() if await self._engine.database.atomically(is_due) else None

    def put_away(self, store: Store, thread: Thread, *, asked: bool = False, and_files: bool = True) -> Archived:
        """Within a transaction. Raises Busy. `and_files`: also what a pair keeps beside the work."""
        unit = [thread, *store.companions(thread.id)]
        for each_ in unit:
            self._check_idle(store, each_, asked=asked)
        content = [store.dump_thread(each_.id) for each_ in unit]
        path = archive_file.write(self._folder, thread, content, self._engine.around.clock())
        for each_ in unit:
            store.delete_thread(each_.id)
        others, pairs = (each_.name for each_ in unit[1:]), ((row["cwd"], row["id"]) for row in content[0]["pairs"])
        done = Archived(thread.name, thread.kind, _count(content), path, tuple(others), tuple(pairs))
        if and_files:
            _remove_files(store, done)
        return done

    async def _clean_one(
        self, thread: Thread, before: float, *, dry_run: bool, tell: Tell | None
    ) -> tuple[set[str], Archived]:
        def clean(store: Store) -> tuple[set[str], Archived]:
            found = store.require_thread_by_id(thread.id)
            unit = [found, *store.companions(found.id)]
            for each_ in unit:
                self._check_idle(store, each_)
            if any(each_.updated_at >= before for each_ in unit):
                raise Busy(f"{found.name} is in use: it, or the other one of its pair, has been used since.")
            ids = {str(each_.id) for each_ in unit}
            if not dry_run:
                return ids, self.put_away(store, found, and_files=False)
            turns = sum(len(store.all_turns(each_.id)) for each_ in unit)
            return ids, Archived(found.name, found.kind, turns, None, tuple(each_.name for each_ in unit[1:]))

        def clean_and_tell(store: Store) -> tuple[set[str], Archived]:
            with store.transaction():
                ids, done = clean(store)
            _remove_files(store, done)
            if tell is not None:
                tell(done)  # here, so that one that is stopped by now is told of, too
            return ids, done

        return await self._engine.database.call(clean_and_tell)

    def _check_idle(self, store: Store, thread: Thread, *, asked: bool = False) -> None:
        held = store.lease(thread_key(thread.id))
        use = store.use_of(thread.id, asked=asked)
        if held is not None and not is_dead(store, held, self._engine.around):
            use = use or "a run is going on"
        if thread.kind == "pair" and any(
            not is_dead(store, lease, self._engine.around) and _is_of(store, lease.key, thread)
            for lease in store.leases(PAIR_LEASES)
        ):
            use = use or "its pair is at work"
        if use is not None:
            raise Busy(
                f"{thread.name} is in use: {use}.",
                hint="Wait for its end, or stop it (clew runs, clew jobs).",
                run_id=held.run_id if held is not None else None,
            )

    def _find(self, file_or_name: str) -> Path:
        """A bare word is a thread's before it is a file that happens to lie here."""
        path = named_path(file_or_name)
        files = archive_file.all_in(self._folder) if path.name == file_or_name else []
        named = [file.path for file in files if file_or_name in (file.name, file.path.name)]
        named += [file.path for file in files if file_or_name in file.also]
        if named or is_file(path):
            return (named[0] if named else path).absolute()  # so that it stays a file, wherever it is named next
        raise NotFound(
            f"There is no archive of {file_or_name!r}, nor a file of that name.",
            hint="clew threads archives lists them.",
        )

    def _restore(self, store: Store, content: Sequence[Dump], *, ours: bool) -> Restored:
        came = archive_file.merged(content)
        foreign.check(came)
        tables = at_rest(came, self._engine.around.clock())
        if not ours:  # a file from elsewhere brings no rights along
            tables = narrowed(tables, Permissions.ASK, Trust.USER)
        name = str(tables["threads"][0]["name"])
        try:
            threads, pins = self._stored(store, tables)
            is_copy = False
        except Taken:
            turns: list[Turn] = each(turn_from, tables["turns"])
            threads, pins = self._stored(store, renewed(tables, turns, self._engine.around.new_id))
            is_copy = True
        turns_now = sum(len(store.history(thread.id)) for thread in threads)
        alive = sum(pin.state in (PinState.GOOD, PinState.PROVISIONAL) for pin in pins)
        return Restored(tuple(threads), turns_now, alive, name, is_copy, _rights(tables) != _rights(came))

    def _stored(self, store: Store, tables: Tables) -> tuple[Sequence[Thread], list[Pin]]:
        pins = [self._pin(pin) for pin in pins_of(tables)]
        content = {table: tables[table] for table in TABLES}
        threads = restore(store, each(thread_from, tables["threads"]), pins, content)
        return threads, [pin for thread in threads for pin in store.pins(thread.id)]

    def _pin(self, pin: Pin) -> Pin:
        """As it was, or given up: no file, no memory. That a session has one thread, the store sees to."""
        if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
            return pin
        try:
            adapter = self._engine.adapter(pin.agent)
            stands = adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id) is not None
        except (ClewError, OSError, ValueError):
            stands = False
        return pin if stands else replace(pin, state=PinState.RETIRED)


def _remove_files(store: Store, done: Archived) -> None:
    """What the pairs kept beside the work: it would look as if it were another store's. Theirs is gone by now."""
    for cwd, pair_id in done.pairs:
        pair_folder.remove(cwd, pair_id, [pair.id for pair in store.pairs(cwd=cwd)])


def _count(content: Sequence[Dump]) -> int:
    return sum(len(dump["turns"]) for dump in content)


def _rights(tables: Tables) -> list[tuple[Any, ...]]:
    threads = [(row.get("permissions"), row.get("trust")) for row in tables["threads"]]
    return [*threads, *((row.get("permissions"), row.get("allowed_tools")) for row in tables["jobs"])]


def _is_of(store: Store, key: str, thread: Thread) -> bool:
    pair = store.pair(key.removeprefix(PAIR_LEASES))
    return pair is not None and thread.id in (pair.instructor_thread_id, pair.worker_thread_id)
