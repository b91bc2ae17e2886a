"""Threads put away into archive files and brought back; what is old goes by itself when the settings say so.

Rules
1. A thread leaves the store only in the transaction in which its archive has been written (law 7).
2. None is put away that somebody uses: a run, a queued prompt, a job under way, an open question.
3. What comes back is at rest. A pin comes back only while its session's file stands; else the next turn is fresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.core.history import Turn
from clew.core.job import UNDER_WAY
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.run import LIVE
from clew.core.thread import NAME, Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.leases import is_dead, thread_key
from clew.errors import Busy, ClewError, NotFound, StoreError, UsageError
from clew.hosts import archive_file
from clew.hosts.archive_file import ArchiveFile, Dump
from clew.hosts.portable_rows import renewed
from clew.store.records import absorbed_from, dumps, each, pin_from, thread_from, turn_from
from clew.store.restoring import TABLES, Taken, restore
from clew.store.store import Store

DAY_S = 86_400.0
PAIR_LEASES = "pair/"
TIDIED = "threads_tidied_at"  # the fact that keeps several daemons from doing it at once
OWNED = ("turns", "runs", "questions", "pins", "jobs", "reviews", "hook_keys")  # rows that name their thread

Tables = dict[str, list[dict[str, Any]]]

# By table: while this column holds one of these, the row takes those values instead.
AT_REST: dict[str, tuple[str, frozenset[str], dict[str, Any]]] = {
    "runs": ("status", frozenset(LIVE), {"status": "interrupted", "outcome": "killed"}),
    "questions": ("state", frozenset({"open"}), {"state": "withdrawn", "reply": None}),
    "jobs": ("status", frozenset(UNDER_WAY), {"status": "cancelled", "worker": None}),
    "review_rounds": ("status", frozenset({"running"}), {"status": "failed", "error": "It was put away as it ran."}),
    "hook_jobs": ("reply", frozenset({"waiting", "posting"}), {"reply": "none"}),
}


class Archived(Record):
    """A thread that was put away, or would be."""

    name: str
    kind: str
    turns: int
    path: Path | None  # None: a dry run


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


class Archives:
    def __init__(
        self, engine: Engine, folder: Path, *, keep_threads_s: float | None, keep_archives_s: float | None
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._keep_threads_s = keep_threads_s
        self._keep_archives_s = keep_archives_s

    async def archive(self, name: str) -> Archived:
        """Writes the thread to a file and takes it out of the store; with the other one of a pair. Raises Busy."""
        return await self._engine.database.atomically(lambda store: self._archive(store, store.require_thread(name)))

    async def files(self) -> list[ArchiveFile]:
        """The newest first."""
        return archive_file.all_in(self._folder)

    async def restore(self, file_or_name: str) -> Restored:
        """Of an archive's path, or the newest one of a thread's name."""
        path = self._find(file_or_name)
        ours = path.resolve().parent == self._folder.resolve()
        content = archive_file.read(path)
        try:
            return await self._engine.database.atomically(lambda store: self._restore(store, content, ours=ours))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{path} is damaged: it does not hold a whole thread.") from error
        except (StoreError, UsageError) as error:
            if isinstance(error, StoreError) and error.kind != "corrupt":
                raise
            raise UsageError(f"{path} is damaged: {error.message}") from error

    async def clean(self, older_than_s: float, *, kind: str | None = None, dry_run: bool = False) -> Cleaned:
        """Puts away what was not used for so long, each in a transaction of its own; what is in use stays."""
        before = self._engine.around.clock() - older_than_s
        old = await self._engine.database.call(lambda store: store.unused_threads(before, kind))
        archived, kept, gone = [], [], set[str]()
        for thread in old:
            if thread.id in gone:
                continue  # with the other one of its pair
            try:
                unit, put_away = await self._clean_one(thread, before, dry_run=dry_run)
            except NotFound:
                continue  # somebody was faster
            except Busy as error:
                kept.append((thread.name, error.message))
                continue
            gone |= unit
            archived.append(put_away)
        return Cleaned(tuple(archived), tuple(kept))

    async def expire(self, older_than_s: float, *, dry_run: bool = False) -> Cleaned:
        """Removes archives for good that are older."""
        before = self._engine.around.clock() - older_than_s
        old = [file.path for file in await self.files() if file.archived_at < before]
        if not dry_run:
            for path in old:
                path.unlink(missing_ok=True)
        return Cleaned(expired=tuple(old))

    async def tidy(self, *, dry_run: bool = False) -> Cleaned:
        """What the settings retention.threads and retention.archives say."""
        done = Cleaned()
        if self._keep_archives_s is not None:
            done = await self.expire(self._keep_archives_s, dry_run=dry_run)
        if self._keep_threads_s is not None:
            cleaned = await self.clean(self._keep_threads_s, dry_run=dry_run)
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

    def _archive(self, store: Store, thread: Thread) -> Archived:
        unit = [thread, *store.companions(thread.id)]
        for each_ in unit:
            self._check_idle(store, each_)
        content = [store.dump_thread(each_.id) for each_ in unit]
        path = archive_file.write(self._folder, thread, content, self._engine.around.clock())
        for each_ in unit:
            store.delete_thread(each_.id)
        return Archived(thread.name, thread.kind, _count(content), path)

    async def _clean_one(self, thread: Thread, before: float, *, dry_run: bool) -> tuple[set[str], Archived]:
        def clean(store: Store) -> tuple[set[str], Archived]:
            found = store.require_thread(thread.id)
            unit = [found, *store.companions(found.id)]
            for each_ in unit:
                self._check_idle(store, each_)
            if any(each_.updated_at >= before for each_ in unit):
                raise Busy(f"{found.name} is in use: it, or the other one of its pair, has been used since.")
            ids = {str(each_.id) for each_ in unit}
            if not dry_run:
                return ids, self._archive(store, found)
            turns = sum(len(store.all_turns(each_.id)) for each_ in unit)
            return ids, Archived(found.name, found.kind, turns, None)

        return await self._engine.database.atomically(clean)

    def _check_idle(self, store: Store, thread: Thread) -> None:
        held = store.lease(thread_key(thread.id))
        use = store.use_of(thread.id)
        if held is not None and not is_dead(held, self._engine.around):
            use = use or "a run is going on"
        if thread.kind == "pair" and any(
            not is_dead(lease, self._engine.around) and _is_of(store, lease.key, thread)
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
        path = Path(file_or_name).expanduser()
        if path.is_file():
            return path
        named = [file for file in archive_file.all_in(self._folder) if file_or_name in (file.name, file.path.name)]
        if not named:
            raise NotFound(
                f"There is no archive of {file_or_name!r}, nor a file of that name.",
                hint="clew threads archives lists them.",
            )
        return named[0].path

    def _restore(self, store: Store, content: Sequence[Dump], *, ours: bool) -> Restored:
        tables = _at_rest(_merged(content), self._engine.around.clock())
        narrowed = not ours and _narrow(tables)
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
        return Restored(tuple(threads), turns_now, alive, name, is_copy, narrowed)

    def _stored(self, store: Store, tables: Tables) -> tuple[Sequence[Thread], list[Pin]]:
        pins = [self._pin(store, pin) for pin in _pins(tables)]
        content = {table: tables[table] for table in TABLES}
        return restore(store, each(thread_from, tables["threads"]), pins, content), pins

    def _pin(self, store: Store, pin: Pin) -> Pin:
        """As it was, or given up: no file, no memory; and a session has one thread."""
        if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
            return pin
        known = store.pin_by_session(pin.session_id)
        stands = known is None or known.state is PinState.RETIRED
        if stands:
            try:
                adapter = self._engine.adapter(pin.agent)
                stands = adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id) is not None
            except (ClewError, OSError):
                stands = False
        return pin if stands else replace(pin, state=PinState.RETIRED)


def _count(content: Sequence[Dump]) -> int:
    return sum(len(dump["turns"]) for dump in content)


def _merged(content: Sequence[Dump]) -> Tables:
    """Rows by table. Raises UsageError when they belong to other threads than those of the file."""
    tables: Tables = {"threads": [dict(dump["thread"]) for dump in content]}
    for table in (*TABLES, "pins", "pin_absorbed"):
        rows = [dict(row) for dump in content for row in dump.get(table, ())]
        tables[table] = [row for place, row in enumerate(rows) if row not in rows[:place]] if "pair" in table else rows
    ids = {row.get("id") for row in tables["threads"]}
    if any(row.get("thread_id") not in ids for table in OWNED for row in tables[table]):
        raise UsageError("its rows belong to several threads.")
    if not all(NAME.match(str(row.get("name"))) for row in tables["threads"]):
        raise UsageError("a thread cannot have its name.")
    whole = {
        row["id"] for row in tables["pairs"] if {row.get("instructor_thread_id"), row.get("worker_thread_id")} <= ids
    }
    tables["pairs"] = [row for row in tables["pairs"] if row["id"] in whole]
    for table in ("pair_rounds", "pair_files"):
        tables[table] = [row for row in tables[table] if row.get("pair_id") in whole]
    return tables


def _at_rest(tables: Tables, now: float) -> Tables:
    for table, (column, awake, rest) in AT_REST.items():
        for row in tables[table]:
            if row.get(column) in awake:
                row.update(rest | ({"ended_at": now} if "ended_at" in row else {}))
    return tables


def _narrow(tables: Tables) -> bool:
    """A file from elsewhere brings no rights along."""
    rights = {"permissions": Permissions.ASK.value, "trust": Trust.USER.value}
    kept = {Permissions.ASK.value, Permissions.READ_ONLY.value}
    wider = [row for row in tables["threads"] if row["trust"] != Trust.USER.value or row["permissions"] not in kept]
    for row in wider:
        row.update(rights | ({"permissions": row["permissions"]} if row["permissions"] in kept else {}))
    return bool(wider)


def _pins(tables: Tables) -> list[Pin]:
    absorbed: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(tables["pin_absorbed"], key=lambda row: int(row["n"])):
        absorbed.setdefault(row["pin_id"], []).append(row)

    def pin(row: dict[str, Any]) -> Pin:
        flat = row | {
            "runtime": dumps(row["runtime"]),
            "pending": None if row["pending"] is None else dumps(row["pending"]),
        }
        return pin_from(flat, tuple(absorbed_from(known) for known in absorbed.get(row["id"], ())))

    return each(pin, tables["pins"])


def _is_of(store: Store, key: str, thread: Thread) -> bool:
    pair = store.pair(key.removeprefix(PAIR_LEASES))
    return pair is not None and thread.id in (pair.instructor_thread_id, pair.worker_thread_id)
