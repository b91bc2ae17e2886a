"""Push and pull: the same thread here and at a remote.

Rules
1. What was last the same on both sides is kept here, by remote and thread: the number there, and what our rows said. So
   each side is known to have changed since, or not.
2. Changed here alone: a push brings it there. Changed there alone: a pull brings it here, instead of what is here, and
   that is archived first. Changed on both sides: a conflict is said, and nothing is done.
3. A push leaves by the rules of an export, and a pull comes in by those of an import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from clew.core.record import Record, replace
from clew.core.redaction import secret_values
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.errors import Conflict, NotFound
from clew.hosts.archives import Archives
from clew.hosts.portable import Gathered, gather, gather_rows, refuse_secrets, retire_others, reviewed
from clew.hosts.portable_base import Base, base_of, keep, save
from clew.hosts.portable_file import HISTORY, STATE, Unpacked, as_json
from clew.hosts.portable_import import Imported, import_thread
from clew.hosts.portable_pieces import ROWS, Manifest, from_lines, pack_manifest, sha256, to_lines
from clew.hosts.portable_remote import Listing, Progress, Remote, Sent
from clew.hosts.portable_rows import HISTORY as HISTORY_TABLES
from clew.hosts.portable_rows import STATE as STATE_TABLES
from clew.hosts.portable_rows import Tables, outward
from clew.store.store import Store

THREADS_MOST = 1_000_000
SECRETS_HINT = "--with-secrets pushes it as it is; clew threads export --redact makes a file with secrets blanked."


class Side(StrEnum):
    """What came of one thread."""

    PUSHED = "pushed"
    NEW = "new"  # it came here
    UPDATED = "updated"  # what is here was brought up to date
    UNCHANGED = "unchanged"  # the same on both sides
    BEHIND = "behind"  # the remote has something new, and we have not
    AHEAD = "ahead"  # the other way round


class Pushed(Record):
    name: str
    side: Side
    turns: int
    number: int | None  # None: nothing of it is there
    sent: Sent = Sent()
    new_bytes: int = 0  # that are to be sent, before they are compressed


class Pulled(Record):
    name: str
    side: Side
    turns: int
    number: int
    imported: Imported | None = None


class _Ours(Record):
    """A thread as it is here, on its way out."""

    thread: Thread
    found: Gathered
    schema: int
    parts: Mapping[str, bytes]
    state: str


async def push(
    engine: Engine,
    remote: Remote,
    name: str,
    environ: Mapping[str, str],
    *,
    with_secrets: bool = False,
    dry_run: bool = False,
    on_bytes: Progress | None = None,
) -> Pushed:
    """Raises NotFound, Busy while a run is going on, Conflict, and UsageError for a secret of the environment."""
    ours = await _ours(engine, name)
    if not with_secrets:
        secrets = secret_values(environ.items(), os.path.lexists)
        refuse_secrets({**ours.parts, **reviewed(ours.found.dumps)}, secrets, SECRETS_HINT)
    theirs = await remote.newest(ours.thread.id)
    base = await base_of(engine, remote, ours.thread.id, theirs)
    pushed = Pushed(ours.thread.name, Side.PUSHED, ours.found.turns, theirs.number if theirs else None)
    if theirs is not None:
        side = _compared(ours, theirs, base)
        if side is not Side.AHEAD:
            if side is Side.UNCHANGED and not dry_run:
                await keep(engine, remote, ours.thread.id, Base(theirs.number, theirs.digest, ours.state))
            return replace(pushed, side=side)
    sending = await remote.send(ours.thread.id, ours.parts, on_bytes)
    pushed = replace(pushed, new_bytes=sending.new_bytes)
    if dry_run:
        return pushed
    await remote.settle()
    sent = await sending.pieces_sent()
    manifest = Manifest(
        thread_id=ours.thread.id,
        number=theirs.number + 1 if theirs is not None else 1,
        parent=theirs.digest if theirs is not None else None,
        state=ours.state,
        schema=ours.schema,
        name=ours.thread.name,
        names=tuple(thread.name for thread in ours.found.threads),
        kind=ours.thread.kind,
        agent=ours.thread.agent,
        turns=ours.found.turns,
        pushed_at=engine.around.clock(),
        parts=tuple(sending.parts),
    )
    raw = pack_manifest(manifest)
    before = base or Base(0, "", "")
    await keep(engine, remote, ours.thread.id, replace(before, trying=sha256(raw)))
    size = await remote.commit(manifest)
    if size is None:
        raise _conflict(ours.thread.name)
    await keep(engine, remote, ours.thread.id, Base(manifest.number, sha256(raw), ours.state))
    sent = Sent(sent.objects + 1, sent.size_bytes + size)
    return replace(pushed, number=manifest.number, sent=sent)


async def pull(
    engine: Engine,
    remote: Remote,
    theirs: Manifest,
    archives: Archives,
    *,
    cwd: str,
    name: str | None = None,
    permissions: Permissions = Permissions.ASK,
    trust: Trust = Trust.USER,
    dry_run: bool = False,
    on_bytes: Progress | None = None,
) -> Pulled:
    """With a `name`, beside what is here. Raises Busy, Conflict, and UsageError for what is damaged."""
    here = await engine.database.call(lambda store: store.thread(theirs.thread_id))
    pulled = Pulled(name or theirs.name, Side.NEW, theirs.turns, theirs.number)
    if name is not None or here is None or here.id != theirs.thread_id:
        file = _file(theirs, await remote.fetch(theirs, on_bytes=on_bytes))

        def linked(store: Store, made: Imported) -> None:
            if not made.renewed:
                save(store, remote, theirs.thread_id, _same(store, theirs, made))

        made = await import_thread(
            engine, file, cwd=cwd, name=name, permissions=permissions, trust=trust, dry_run=dry_run, then=linked
        )
        return replace(pulled, name=made.threads[0].name, imported=made)
    ours = await _ours(engine, here.id)
    base = await base_of(engine, remote, here.id, theirs)
    pulled = replace(pulled, name=ours.thread.name)
    side = _compared(ours, theirs, base)
    if side is not Side.BEHIND:
        if side is Side.UNCHANGED and not dry_run:
            await keep(engine, remote, here.id, Base(theirs.number, theirs.digest, ours.state))
        return replace(pulled, side=side)
    if dry_run:
        return replace(pulled, side=Side.UPDATED)
    file = _file(theirs, await remote.fetch(theirs, ours.parts.values(), on_bytes))

    archived = list[Path | None]()

    def instead(store: Store) -> Tables:
        """In a transaction, so that nothing can have begun between the last look and now."""
        now = gather_rows(store, engine, here.id)
        if to_lines(outward(now.dumps))[1] != ours.state:
            raise Conflict(f"{here.name} has changed in the meantime.", hint="Pull again.")
        archived.append(archives.put_away(store, store.require_thread(here.id)).path)
        tables = {"threads": [dict(dump["thread"]) for dump in now.dumps]}
        return tables | {
            table: [dict(row) for dump in now.dumps for row in dump.get(table, ())]
            for table in (*HISTORY_TABLES[1:], *STATE_TABLES)
        }

    try:
        made = await import_thread(
            engine,
            file,
            cwd=ours.thread.cwd,
            permissions=ours.thread.permissions,
            trust=ours.thread.trust,
            instead=instead,
            then=lambda store, made: save(store, remote, here.id, _same(store, theirs, made)),
        )
    except BaseException:
        for path in archived:  # of what has not left after all
            if path is not None:
                path.unlink(missing_ok=True)
        raise
    return replace(pulled, side=Side.UPDATED, imported=replace(made, notes=()))


async def units(engine: Engine, names: tuple[str, ...]) -> list[str]:
    """Of all threads, or of these, one name for what goes together: the two of a pair. Raises NotFound."""

    def find(store: Store) -> list[str]:
        threads = [store.require_thread(name) for name in names] or store.threads(limit=THREADS_MOST)
        taken, found = set[str](), list[str]()
        for thread in threads:
            if thread.id not in taken:
                found.append(thread.name)
                taken |= {thread.id, *(each.id for each in store.companions(thread.id))}
        return found

    return await engine.database.call(find)


async def wanted(engine: Engine, listing: Listing, names: tuple[str, ...]) -> list[Manifest]:
    """Of what is at a remote, by its name here or there, or by id. Raises NotFound, and Conflict for several."""
    found: list[Manifest] = []
    here = await engine.database.call(lambda store: {name: store.thread(name) for name in names})
    listed = listing.manifests
    for name, ours in here.items():
        fit = [each for each in listed if ours is not None and ours.id == each.thread_id]
        fit = fit or [each for each in listed if name in (each.thread_id, *each.names)]
        if not fit and listing.problems:
            raise listing.problems[0]  # it may be this one
        if not fit:
            raise NotFound(f"There is no thread named {name} at the remote.", hint="Without names, pull lists them.")
        if len(fit) > 1:
            ids = " or ".join(each.thread_id for each in fit)
            raise Conflict(f"Several threads at the remote are named {name}.", hint=f"Name one by its id: {ids}.")
        found += [each for each in fit if each not in found]
    return found


async def _ours(engine: Engine, name: str) -> _Ours:
    def oldest(store: Store) -> str:
        thread = store.require_thread(name)
        unit = [thread, *store.companions(thread.id)]
        return min(unit, key=lambda each: (each.created_at, each.id)).id

    found = await gather(engine, await engine.database.call(oldest))
    tables = outward(found.dumps)
    retire_others(tables, found.files)
    rows, state = to_lines(tables)
    return _Ours(found.threads[0], found, int(found.dumps[0]["schema"]), {ROWS: rows, **found.files}, state)


def _compared(ours: _Ours, theirs: Manifest, base: Base | None) -> Side:
    """Raises Conflict."""
    if theirs.state == ours.state:
        return Side.UNCHANGED
    is_new_here = base is None or base.state != ours.state
    is_new_there = base is None or base.number != theirs.number
    if is_new_here and is_new_there:
        raise _conflict(ours.thread.name)
    if is_new_here:
        return Side.AHEAD
    return Side.BEHIND if is_new_there else Side.UNCHANGED


def _conflict(name: str) -> Conflict:
    return Conflict(
        f"{name} has gone on here and at the remote: nothing was changed.",
        hint=f"clew threads pull URL {name} --name OTHER brings theirs beside yours; clew threads diff and merge help.",
    )


def _same(store: Store, theirs: Manifest, made: Imported) -> Base:
    """Our rows are not always theirs to the letter: an import narrows, and keeps what is this machine's."""
    dumps = [store.dump_thread(thread.id) for thread in made.threads]
    return Base(theirs.number, theirs.digest, to_lines(outward(dumps))[1])


def _file(theirs: Manifest, parts: Mapping[str, bytes]) -> Unpacked:
    """As an exported file would be."""
    tables = from_lines(parts[ROWS])
    sessions = {name: content for name, content in parts.items() if name != ROWS}
    rows = {
        HISTORY: as_json({table: tables[table] for table in HISTORY_TABLES}),
        STATE: as_json({table: tables[table] for table in STATE_TABLES}),
    }
    return Unpacked({"schema": theirs.schema}, {**rows, **sessions})
