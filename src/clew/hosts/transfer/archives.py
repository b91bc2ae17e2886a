"""Archives threads into files, and restores them. Old threads are archived automatically if the settings say so.

Rules
1. A thread leaves the store only in the transaction in which its archive has been written (law 7).
2. A thread in use is not archived. It is in use if it has a run, a queued prompt, an active job or an open question.
3. Nothing runs in a restored thread. A pin whose session file is gone is retired: the next turn starts fresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.core.durations import DAY_S
from clew.core.images import digests
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.leases import is_holder_dead, live_lease, thread_key
from clew.errors import Busy, ClewError, NotFound, StoreError, UsageError
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.pairs.live import LEASE_PREFIX
from clew.hosts.transfer import archive_file
from clew.hosts.transfer.archive_file import ArchiveFile
from clew.hosts.transfer.arrival import narrowed, stopped, store_rows
from clew.hosts.transfer.images import from_archive, named_images
from clew.hosts.validation import is_file, named_path
from clew.store.records import thread_from
from clew.store.store import Store
from clew.store.transfer.codec import Dump, Tables, merged
from clew.store.transfer.import_checks import check
from clew.store.transfer.restoring import pins_of
from clew.system.cancellation import finish

TIDIED = "threads_tidied_at"  # when a daemon or worker last cleaned up, so that several do not do it on the same day


class ArchivedThread(Record):
    """A thread that was archived, or would be."""

    name: str
    kind: str
    turns: int
    path: Path | None  # None: a dry run
    others: tuple[str, ...] = ()  # archived with it: the other thread of a pair
    pairs: tuple[tuple[str, str], ...] = ()  # archived with it: the pair's directory and id
    images: tuple[str, ...] = ()  # archived with it: the digests of its prompts' images


class RestoredArchive(Record):
    """The threads of an archive, back in the store."""

    threads: tuple[Thread, ...]
    turns: int  # without archived ones
    resumable: int  # sessions that can still be resumed
    was: str  # the thread's name when it was archived
    is_copy: bool  # the ids in the file were taken, so the threads have new ids
    is_narrowed: bool  # its permissions or trust were reduced, because the file is from elsewhere


class CleanupResult(Record):
    """What a clean-up did, or would do."""

    archived: tuple[ArchivedThread, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()  # old threads that are in use: name and why
    expired: tuple[Path, ...] = ()  # archives that were removed


# Called with each thread that was archived and each archive that was removed, as it happens, in any OS thread.
Tell = Callable[[ArchivedThread | Path], None]
MayUse = Callable[[Thread], bool]


class _NotOurs(Exception):
    """A thread, or the other thread of its pair, may not be used."""


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

    async def archive(self, name: str, *, asked: bool = False) -> ArchivedThread:
        """Writes the thread, or both threads of a pair, to a file and deletes them from the store.

        `asked`: an open question does not prevent it. Raises NotFound and Busy.
        """

        def archive(store: Store) -> ArchivedThread:
            with store.transaction():
                done = self.archive_in(store, store.threads.together(name)[0], asked=asked, and_files=False)
            self._remove_files(store, done)
            return done

        return await self._engine.store.call(archive)

    async def files(self) -> list[ArchiveFile]:
        """The newest first."""
        return await asyncio.to_thread(archive_file.all_in, self._folder)

    async def find(self, file_or_name: str) -> Path:
        """The archive of a thread or pair of that name, or of that file name; else the file at that path.

        Raises NotFound.
        """
        path = named_path(file_or_name)
        named = await self.named(file_or_name) if path.name == file_or_name else None
        if named is not None or is_file(path):
            return (path if named is None else named.path).absolute()  # so that it is not taken for a thread's name
        raise NotFound(
            f"There is no archive of {file_or_name!r}, and no file of that name.",
            hint="clew threads archives lists them.",
        )

    async def named(self, name: str) -> ArchiveFile | None:
        """The newest archive of a thread or pair of that name, or the archive with that file name."""
        files = await self.files()
        fit = [file for file in files if name in (file.name, file.path.name)]
        return next(iter([*fit, *(file for file in files if name in file.also)]), None)

    async def restore(self, file_or_name: str) -> RestoredArchive:
        """Restores an archive by its path, or a thread's newest archive by its name."""
        path = await self.find(file_or_name)
        is_ours = path.resolve().parent == self._folder.resolve()
        content = await asyncio.to_thread(archive_file.read, path)
        new: list[str] = []
        try:
            work = self._engine.store.atomically(lambda store: self._restore(store, content, new, is_ours=is_ours))
            return await finish(work)  # once it has begun, it is too late for a cancel
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path} is damaged: it does not hold a whole thread.") from error
        except (StoreError, UsageError) as error:
            if isinstance(error, StoreError) and error.kind != "corrupt":
                raise
            raise UsageError(f"{path} is damaged: {error.message}") from error
        finally:
            if new:  # they stay, unless nothing was restored
                await self._engine.store.call(lambda store: self._engine.images.release(store, new))

    async def clean(
        self,
        older_than_s: float,
        *,
        kind: str | None = None,
        dry_run: bool = False,
        tell: Tell | None = None,
        may_use: MayUse | None = None,
    ) -> CleanupResult:
        """Archives threads that were not used for this long, each in its own transaction. Threads in use stay.

        `may_use`: a thread for which it is False stays, too, and so does the other thread of its pair.
        """
        before = self._engine.context.clock() - older_than_s
        old = await self._engine.store.call(lambda store: store.threads.unused(before, kind))
        archived, kept, gone = [], [], set[str]()
        for thread in old:
            if thread.id in gone:
                continue  # archived with the other thread of its pair
            try:
                group, done = await self._clean_one(thread, before, dry_run=dry_run, tell=tell, may_use=may_use)
            except (NotFound, _NotOurs):
                continue  # somebody else has archived it; or it is not ours to archive
            except Busy as error:
                kept.append((thread.name, error.message))
                continue
            gone |= group
            archived.append(done)
        return CleanupResult(tuple(archived), tuple(kept))

    async def threads_in(self, path: Path) -> list[Thread]:
        """The threads of an archive as they were. Raises NotFound, and UsageError for a damaged file."""
        content = await asyncio.to_thread(archive_file.read, path)
        try:
            threads = [thread_from(dump["thread"]) for dump in content]
            if not all(isinstance(thread.cwd, str) for thread in threads):
                raise TypeError("a directory is not text")
            return threads
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, StoreError) as error:
            raise UsageError(f"{path} is damaged: it does not hold a whole thread.") from error

    async def expire(
        self,
        older_than_s: float,
        *,
        dry_run: bool = False,
        tell: Tell | None = None,
        may_use: MayUse | None = None,
    ) -> CleanupResult:
        """Deletes archives that are older than this.

        `may_use`: an archive with a thread for which it is False stays, and so does one that cannot be read.
        """
        before = self._engine.context.clock() - older_than_s
        old = [file.path for file in await self.files() if max(file.archived_at, file.changed_at) < before]
        if may_use is not None:
            old = [path for path in old if await self._may_remove(path, may_use)]
        for path in old:
            if not dry_run:
                path.unlink(missing_ok=True)
            if tell is not None:
                tell(path)
        return CleanupResult(expired=tuple(old))

    async def tidy(
        self, *, dry_run: bool = False, tell: Tell | None = None, may_use: MayUse | None = None
    ) -> CleanupResult:
        """Cleans up as the settings retention.threads and retention.archives say."""
        done = CleanupResult()
        if self._keep_archives_s is not None:
            done = await self.expire(self._keep_archives_s, dry_run=dry_run, tell=tell, may_use=may_use)
        if self._keep_threads_s is not None:
            cleaned = await self.clean(self._keep_threads_s, dry_run=dry_run, tell=tell, may_use=may_use)
            done = replace(cleaned, expired=done.expired)
        return done

    async def tidy_if_due(self) -> CleanupResult | None:
        """Cleans up at most once a day, however many daemons and workers ask. None: it was done less than a day ago."""
        now = self._engine.context.clock()

        def is_due(store: Store) -> bool:
            last = store.key_values.get(TIDIED)
            if last is not None and 0 <= now - float(last) < DAY_S:
                return False
            store.key_values.set(TIDIED, repr(now))
            return True

        return await self.tidy() if await self._engine.store.atomically(is_due) else None

    def archive_in(
        self, store: Store, thread: Thread, *, asked: bool = False, and_files: bool = True
    ) -> ArchivedThread:
        """Archives the thread within a transaction. `and_files`: also removes a pair's state file. Raises Busy."""
        group = [thread, *store.threads.companions(thread.id)]
        for member in group:
            self._check_idle(store, member, asked=asked)
        content = [store.threads.dump(member.id) for member in group]
        images = named_images(merged(content))
        files = self._engine.images.read_all(images)
        path = archive_file.write(self._folder, thread, content, self._engine.context.clock(), files)
        for member in group:
            store.threads.delete(member.id)
        others, pairs = (member.name for member in group[1:]), ((row["cwd"], row["id"]) for row in content[0]["pairs"])
        turns = sum(len(dump["turns"]) for dump in content)
        done = ArchivedThread(
            thread.name, thread.kind, turns, path, tuple(others), tuple(pairs), tuple(sorted(digests(images)))
        )
        if and_files:
            _remove_state_files(store, done)
        return done

    def _remove_files(self, store: Store, done: ArchivedThread) -> None:
        """Called when the thread has left the store."""
        _remove_state_files(store, done)
        self._engine.images.release(store, done.images)

    async def _may_remove(self, path: Path, may_use: MayUse) -> bool:
        try:
            return all(may_use(thread) for thread in await self.threads_in(path))
        except (NotFound, UsageError, StoreError):
            return False  # nobody knows whose it is

    async def _clean_one(
        self, thread: Thread, before: float, *, dry_run: bool, tell: Tell | None, may_use: MayUse | None
    ) -> tuple[set[str], ArchivedThread]:
        def clean(store: Store) -> tuple[set[str], ArchivedThread]:
            found = store.threads.require_by_id(thread.id)
            group = [found, *store.threads.companions(found.id)]
            if may_use is not None and not all(may_use(member) for member in group):
                raise _NotOurs
            for member in group:
                self._check_idle(store, member)
            if any(member.updated_at >= before for member in group):
                raise Busy(f"{found.name} is in use: it, or the other thread of its pair, has been used since.")
            ids = {str(member.id) for member in group}
            if not dry_run:
                return ids, self.archive_in(store, found, and_files=False)
            turns = sum(len(store.turns.all(member.id)) for member in group)
            return ids, ArchivedThread(found.name, found.kind, turns, None, tuple(member.name for member in group[1:]))

        def clean_and_tell(store: Store) -> tuple[set[str], ArchivedThread]:
            with store.transaction():
                ids, done = clean(store)
            self._remove_files(store, done)
            if tell is not None:
                tell(done)  # in this OS thread, so that it is reported even if the caller was cancelled in the meantime
            return ids, done

        return await self._engine.store.call(clean_and_tell)

    def _check_idle(self, store: Store, thread: Thread, *, asked: bool = False) -> None:
        held = store.leases.find(thread_key(thread.id))
        use = store.threads.use_of(thread.id, asked=asked)
        if live_lease(store, thread_key(thread.id), self._engine.context) is not None:
            use = use or ("a run is active" if held is not None and held.run_id else "it is open in a terminal")
        if thread.kind == "pair" and any(
            not is_holder_dead(store, lease, self._engine.context) and _is_of(store, lease.key, thread)
            for lease in store.leases.under(LEASE_PREFIX)
        ):
            use = use or "its pair is at work"
        if use is not None:
            raise Busy(
                f"{thread.name} is in use: {use}.",
                hint="Wait for its end, or stop it (clew runs, clew jobs).",
                run_id=held.run_id if held is not None else None,
            )

    def _restore(self, store: Store, content: Sequence[Dump], new: list[str], *, is_ours: bool) -> RestoredArchive:
        """`new` gets the digests of images whose files are written."""
        came = _without_half_pairs(merged(content))
        check(came, store.database.catalogue())
        new += self._engine.images.restore(named_images(came), from_archive(content[0]))
        tables = stopped(came, self._engine.context.clock())
        if not is_ours:  # the permissions in a file from elsewhere are not trusted
            tables = narrowed(tables, Permissions.ASK, Trust.USER)
        name = str(tables["threads"][0]["name"])
        pins = [self._pin(pin) for pin in pins_of(tables)]
        threads, is_copy = store_rows(store, tables, pins, self._engine.context.new_id)
        turns = sum(len(store.turns.history(thread.id)) for thread in threads)
        stored = [pin for thread in threads for pin in store.pins.of_thread(thread.id)]
        resumable = sum(pin.state in (PinState.GOOD, PinState.PROVISIONAL) for pin in stored)
        return RestoredArchive(tuple(threads), turns, resumable, name, is_copy, _rights(tables) != _rights(came))

    def _pin(self, pin: Pin) -> Pin:
        """The pin, retired if its session's file is gone. The store ensures that a session belongs to one thread."""
        if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
            return pin
        try:
            adapter = self._engine.adapter(pin.agent)
            has_file = adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id) is not None
        except (ClewError, OSError, ValueError):
            has_file = False
        return pin if has_file else replace(pin, state=PinState.RETIRED)


def _remove_state_files(store: Store, done: ArchivedThread) -> None:
    """Removes the state files of archived pairs: they would look as if they came from another store."""
    for cwd, pair_id in done.pairs:
        pair_folder.remove(cwd, pair_id, [pair.id for pair in store.pairs.recent(cwd=cwd)])


def _without_half_pairs(tables: Tables) -> Tables:
    """Leaves out pairs if only one of their threads is in the file."""
    threads = {row.get("id") for row in tables["threads"]}
    pairs = [
        row for row in tables["pairs"] if {row.get("instructor_thread_id"), row.get("worker_thread_id")} <= threads
    ]
    whole = {row.get("id") for row in pairs}
    rounds = [row for row in tables["pair_rounds"] if row.get("pair_id") in whole]
    return tables | {"pairs": pairs, "pair_rounds": rounds}


def _rights(tables: Tables) -> list[tuple[Any, ...]]:
    threads = [(row.get("permissions"), row.get("trust"), row.get("tool_rules") or "[]") for row in tables["threads"]]
    return [*threads, *((row.get("permissions"), row.get("allowed_tools")) for row in tables["jobs"])]


def _is_of(store: Store, key: str, thread: Thread) -> bool:
    pair = store.pairs.find(key.removeprefix(LEASE_PREFIX))
    return pair is not None and thread.id in (pair.instructor_thread_id, pair.worker_thread_id)
