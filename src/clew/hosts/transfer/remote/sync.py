"""Push and pull: the same thread here and at a remote.

Rules
1. What was last the same on both sides is kept here, by remote and thread: the number there, and what our rows said. So
   each side is known to have changed since, or not.
2. Changed here alone: a push brings it there. Changed there alone: a pull brings it here, instead of what is here, and
   that is archived first. Changed on both sides: a conflict is said, and nothing is done.
3. A push leaves by the rules of an export, and a pull comes in by those of an import.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.errors import Conflict, NotFound
from clew.hosts.archives import Archives
from clew.hosts.outgoing import Secret, look_through, refuse, session_name
from clew.hosts.portable import Gathered, gather, gather_rows, retire_others, reviewed
from clew.hosts.portable_base import NOTHING, Base, base_of, keep, refuse_opened, save
from clew.hosts.portable_file import HISTORY, STATE, Unpacked, as_json
from clew.hosts.portable_import import Imported, import_thread
from clew.hosts.portable_pieces import ROWS, Manifest, damaged, from_lines, pack_manifest, sha256, to_lines
from clew.hosts.portable_remote import Listing, Progress, Remote, Sent
from clew.hosts.portable_rows import HISTORY as HISTORY_TABLES
from clew.hosts.portable_rows import STATE as STATE_TABLES
from clew.hosts.portable_rows import Tables, outward
from clew.hosts.signing import Signer, Signers
from clew.store.store import Store

THREADS_MOST = 1_000_000
NAME_CHARS = 50  # of a name that is offered with something behind it: a pair's has 60 at most
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
    secrets: tuple[Secret, ...] = ()  # that are in it; of sessions, in what is new
    signed: bool = False


class Pulled(Record):
    name: str
    side: Side
    turns: int
    number: int
    imported: Imported | None = None
    signer: str | None = None  # None: nobody was required


class _Ours(Record):
    """A thread as it is here, on its way out."""

    thread: Thread  # the oldest, which it is kept by
    name: str  # of a pair, the pair's own
    found: Gathered
    schema: int
    tables: Tables
    parts: Mapping[str, bytes]
    state: str


async def push(
    engine: Engine,
    remote: Remote,
    name: str,
    environ: Mapping[str, str],
    *,
    signer: Signer | None = None,
    with_secrets: bool = False,
    dry_run: bool = False,
    on_bytes: Progress | None = None,
) -> Pushed:
    """Raises NotFound, Busy while a run is going on, Conflict, and SecretFound."""
    await refuse_opened(engine, remote)
    ours = await _ours(engine, name)
    theirs = await remote.newest(ours.thread.id)
    base = await base_of(engine, remote, ours.thread.id, theirs)
    before = base or NOTHING
    pushed = Pushed(ours.name, Side.PUSHED, ours.found.turns, theirs.number if theirs else None)
    if theirs is not None:
        side = _compared(ours, theirs, base, remote.url)
        # The same, and nobody has signed it: what is there may be another's, so ours is pushed and signed.
        is_to_sign = side is Side.UNCHANGED and signer is not None and not await remote.is_signed(theirs)
        if side is not Side.AHEAD and not is_to_sign:
            if side is Side.UNCHANGED and not dry_run:
                await keep(engine, remote, ours.thread.id, before.then(theirs.number, theirs.digest, ours.state))
            return replace(pushed, side=side)
    sending = await remote.send(ours.thread.id, ours.parts, on_bytes)
    new_of = {session_name(part): raw for part, raw in sending.new_of.items() if part != ROWS}
    secrets = await asyncio.to_thread(look_through, ours.tables, new_of | reviewed(ours.found.dumps), environ)
    if not with_secrets:
        refuse(ours.name, secrets, SECRETS_HINT)
    pushed = replace(pushed, new_bytes=sending.new_bytes, secrets=secrets)
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
        name=ours.name,
        names=tuple(dict.fromkeys((ours.name, *(thread.name for thread in ours.found.threads)))),
        kind=ours.thread.kind,
        agent=ours.thread.agent,
        turns=ours.found.turns,
        pushed_at=engine.around.clock(),
        parts=tuple(sending.parts),
    )
    manifest = replace(manifest, digest=sha256(pack_manifest(manifest)))
    if signer is not None:
        sent = Sent(sent.objects + 1, sent.size_bytes + await remote.sign(manifest, signer))
    await keep(engine, remote, ours.thread.id, replace(before, trying=manifest.digest))
    size = await remote.commit(manifest)
    if size is None:
        raise _conflict(ours.name, remote.url)
    await keep(engine, remote, ours.thread.id, before.then(manifest.number, manifest.digest, ours.state))
    sent = Sent(sent.objects + 1, sent.size_bytes + size)
    return replace(pushed, number=manifest.number, sent=sent, signed=signer is not None)


async def pull(
    engine: Engine,
    remote: Remote,
    theirs: Manifest,
    archives: Archives,
    *,
    cwd: str,
    name: str | None = None,
    signers: Signers | None = None,
    permissions: Permissions = Permissions.ASK,
    trust: Trust = Trust.USER,
    dry_run: bool = False,
    on_bytes: Progress | None = None,
) -> Pulled:
    """With a `name`, beside what is here; with `signers`, only what one of them signed.

    Raises Busy, Conflict, and UsageError for what is damaged or not signed so.
    """
    await refuse_opened(engine, remote)
    signer = await remote.signed_by(theirs, signers) if signers is not None else None
    here = await engine.database.call(lambda store: store.thread_by_id(theirs.thread_id))
    pulled = Pulled(name or theirs.name, Side.NEW, theirs.turns, theirs.number, signer=signer)
    if name is not None or here is None or here.id != theirs.thread_id:
        file = _file(theirs, await remote.fetch(theirs, on_bytes=on_bytes))

        def linked(store: Store, made: Imported) -> None:
            if not made.renewed:
                save(store, remote, theirs.thread_id, _same(store, theirs, made, NOTHING))

        made = await import_thread(
            engine, file, cwd=cwd, name=name, permissions=permissions, trust=trust, dry_run=dry_run, then=linked
        )
        return replace(pulled, name=made.pair or made.threads[0].name, imported=made)
    ours = await _ours(engine, here.id)
    base = await base_of(engine, remote, here.id, theirs)
    before = base or NOTHING
    pulled = replace(pulled, name=ours.name)
    side = _compared(ours, theirs, base, remote.url)
    if side is not Side.BEHIND:
        if side is Side.UNCHANGED and not dry_run:
            await keep(engine, remote, here.id, before.then(theirs.number, theirs.digest, ours.state))
        return replace(pulled, side=side)
    if dry_run:
        return replace(pulled, side=Side.UPDATED)
    known = [thread.id for thread in ours.found.threads]
    file = _file(theirs, await remote.fetch(theirs, ours.parts.values(), on_bytes), known)

    archived = list[Path | None]()

    def instead(store: Store) -> Tables:
        """In a transaction, so that nothing can have begun between the last look and now."""
        now = gather_rows(store, engine, here.id)
        if to_lines(outward(now.dumps))[1] != ours.state:
            raise Conflict(f"{here.name} has changed in the meantime.", hint="Pull again.")
        archived.append(archives.put_away(store, store.require_thread_by_id(here.id)).path)
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
            then=lambda store, made: save(store, remote, here.id, _same(store, theirs, made, before)),
        )
    except BaseException:
        for path in archived:  # of what has not left after all
            if path is not None:
                path.unlink(missing_ok=True)
        raise
    return replace(pulled, side=Side.UPDATED, imported=replace(made, notes=()))


class Unit(Record):
    """What goes together: a thread, or the two of a pair."""

    key: str  # what it is found by
    name: str  # what it is called: of a pair, the pair's own


async def units(engine: Engine, names: tuple[str, ...]) -> list[Unit]:
    """Of all threads, or of these. A name that nobody has is one, too: it is told of when its turn comes."""

    def find(store: Store) -> list[Unit]:
        taken, found = set[str](), list[Unit]()
        for name in dict.fromkeys(names) or [thread.id for thread in store.threads(limit=THREADS_MOST)]:
            try:
                first, *others = store.together(name)
            except NotFound:
                found.append(Unit(name, name))
                continue
            if first.id not in taken:
                pair = store.pair_of_thread(first.id) if others else None
                found.append(Unit(first.id, first.name if pair is None else pair.name))
                taken |= {first.id, *(each.id for each in others)}
        return found

    return await engine.database.call(find)


async def wanted(engine: Engine, listing: Listing, name: str) -> Manifest:
    """Of what is at a remote, by its name here or there, or by id. Raises NotFound, and Conflict for several."""

    def here(store: Store) -> set[str]:
        with contextlib.suppress(NotFound):
            return {str(thread.id) for thread in store.together(name)}
        return set()

    listed, ids = listing.manifests, await engine.database.call(here)
    fit = [each for each in listed if each.thread_id in ids]
    fit = fit or [each for each in listed if name in (each.thread_id, *each.names)]
    if not fit and listing.problems:
        raise listing.problems[0]  # it may be this one
    if not fit:
        close = difflib.get_close_matches(name, [known for each in listed for known in each.names], n=3)
        hint = f"Did you mean {' or '.join(close)}?" if close else "Without names, pull lists them."
        raise NotFound(f"There is no thread named {name} at the remote.", hint=hint)
    if len(fit) > 1:
        several = " or ".join(each.thread_id for each in fit)
        raise Conflict(f"Several threads at the remote are named {name}.", hint=f"Name one by its id: {several}.")
    return fit[0]


async def _ours(engine: Engine, name: str) -> _Ours:
    def oldest(store: Store) -> str:
        return min(store.together(name), key=lambda each: (each.created_at, each.id)).id

    found = await gather(engine, await engine.database.call(oldest))
    tables = outward(found.dumps)
    retire_others(tables, found.files)
    rows, state = to_lines(tables)
    schema = int(found.dumps[0]["schema"])
    return _Ours(found.threads[0], found.name, found, schema, tables, {ROWS: rows, **found.files}, state)


def _compared(ours: _Ours, theirs: Manifest, base: Base | None, url: str) -> Side:
    """Raises Conflict."""
    if theirs.state == ours.state:
        return Side.UNCHANGED
    is_new_here = base is None or base.state != ours.state
    is_new_there = base is None or base.number != theirs.number
    if is_new_here and is_new_there:
        raise _conflict(ours.name, url)
    if is_new_here:
        return Side.AHEAD
    return Side.BEHIND if is_new_there else Side.UNCHANGED


def _conflict(name: str, url: str) -> Conflict:
    beside = f"clew threads pull {shlex.quote(url)} {name} --name {name[:NAME_CHARS]}-theirs"
    return Conflict(
        f"{name} has gone on here and at the remote: nothing was changed.",
        hint=f"{beside} brings theirs beside yours; clew threads diff and merge help.",
    )


def _same(store: Store, theirs: Manifest, made: Imported, before: Base) -> Base:
    """Our rows are not always theirs to the letter: an import narrows, and keeps what is this machine's."""
    dumps = [store.dump_thread(thread.id) for thread in made.threads]
    return before.then(theirs.number, theirs.digest, to_lines(outward(dumps))[1])


def _file(theirs: Manifest, parts: Mapping[str, bytes], known: Sequence[str] | None = None) -> Unpacked:
    """As an exported file would be. Raises UsageError for the rows of other threads than it is said to have.

    `known` are the ids of those that it takes the place of.
    """
    tables = from_lines(parts[ROWS])
    ids = [row.get("id") for row in tables["threads"]]
    is_other = known is not None and any(each not in known for each in ids)
    if theirs.thread_id not in ids or is_other or any(row.get("name") not in theirs.names for row in tables["threads"]):
        raise damaged("a thread")
    sessions = {name: content for name, content in parts.items() if name != ROWS}
    rows = {
        HISTORY: as_json({table: tables[table] for table in HISTORY_TABLES}),
        STATE: as_json({table: tables[table] for table in STATE_TABLES}),
    }
    return Unpacked({"schema": theirs.schema}, {**rows, **sessions})
