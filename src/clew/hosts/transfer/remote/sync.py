"""Push and pull: keeps a thread the same here and at a remote.

Rules
1. What was last the same on both sides is kept here, by remote and thread: the manifest's number and a digest of our
   rows (base.py). So it is known which side has changed since then.
2. Changed here only: a push brings it there. Changed there only: a pull replaces what is here, which is archived first.
   Changed on both sides: that is a conflict, and nothing is done.
3. A push follows the rules of an export, and a pull those of an import.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from clew.core.lookup import ALL_ROWS
from clew.core.pairs.pair import PAIR_NAME_CHARS
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.errors import Conflict, NotFound
from clew.hosts.transfer.archives import Archives
from clew.hosts.transfer.export import ThreadGroup, gather, gather_rows, retire_pins_without_file, reviewed_texts
from clew.hosts.transfer.export_file import is_session_part
from clew.hosts.transfer.images import from_parts, to_parts
from clew.hosts.transfer.imports import ImportResult, import_thread
from clew.hosts.transfer.remote.base import NO_BASE, SyncBase, load_base, refuse_unencrypted, save_base, write_base
from clew.hosts.transfer.remote.chunks import ROWS, Manifest, damaged, from_lines, pack_manifest, sha256, to_lines
from clew.hosts.transfer.remote.remote import Progress, Remote, RemoteListing, Sent
from clew.hosts.transfer.secret_scan import LocatedSecret, refuse_secrets, scan, session_name
from clew.hosts.transfer.signatures import Signer, Signers
from clew.store.store import Store
from clew.store.transfer.codec import PortableThread, Tables, merged, portable
from clew.system.cancellation import finish

THEIRS = "-theirs"  # suggested suffix of the name for a thread that is pulled beside ours
SECRETS_HINT = "--with-secrets pushes it as it is; clew threads export --redact makes a file with secrets blanked."


class SyncState(StrEnum):
    """What a push or a pull did with one thread."""

    PUSHED = "pushed"
    NEW = "new"  # it was not here before
    UPDATED = "updated"  # what is here was replaced by what is there
    UNCHANGED = "unchanged"  # it is the same on both sides
    BEHIND = "behind"  # only the remote has changed
    AHEAD = "ahead"  # only the thread here has changed


class PushResult(Record):
    name: str
    state: SyncState
    turns: int
    number: int | None  # of the manifest; None: the remote has none of this thread
    sent: Sent = Sent()
    new_bytes: int = 0  # to be sent, before they are compressed
    secrets: tuple[LocatedSecret, ...] = ()  # in the rows, and in the new parts of sessions
    signed: bool = False


class PullResult(Record):
    name: str
    state: SyncState
    turns: int
    number: int
    imported: ImportResult | None = None
    signer: str | None = None  # None: no signature was required


class _LocalThread(Record):
    """A thread as it is here, ready to be pushed."""

    thread: Thread  # the older one of a pair: the remote has both under its id
    name: str  # the thread's, or the pair's
    group: ThreadGroup
    schema: int
    tables: Tables
    parts: Mapping[str, bytes]
    state: str  # one digest of all rows except pins


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
) -> PushResult:
    """Pushes a thread, or both threads of a pair. Raises NotFound, Busy during a run, Conflict, and SecretFound."""
    await refuse_unencrypted(engine, remote)
    ours = await _local(engine, name)
    thread_id = ours.thread.id
    theirs = await remote.newest(thread_id)
    base = await load_base(engine, remote, thread_id, theirs)
    before = base or NO_BASE
    pushed = PushResult(ours.name, SyncState.PUSHED, ours.group.turns, theirs.number if theirs else None)
    if theirs is not None:
        state = _compared(ours, theirs, base, remote.url)
        # The remote has the same, but not signed. Somebody else may have written it, so ours is pushed and signed.
        is_to_sign = state is SyncState.UNCHANGED and signer is not None and not await remote.is_signed(theirs)
        if state is not SyncState.AHEAD and not is_to_sign:
            if state is SyncState.UNCHANGED and not dry_run:
                same = before.followed_by(theirs.number, theirs.digest, ours.state)
                await save_base(engine, remote, thread_id, same)
            return replace(pushed, state=state)
    upload = await remote.prepare_upload(thread_id, ours.parts, on_bytes)
    new_in = {session_name(part): raw for part, raw in upload.new_in.items() if is_session_part(part)}
    secrets = await asyncio.to_thread(scan, ours.tables, new_in | reviewed_texts(ours.group.dumps), environ)
    if not with_secrets:
        refuse_secrets(ours.name, secrets, SECRETS_HINT)
    pushed = replace(pushed, new_bytes=upload.new_bytes, secrets=secrets)
    if dry_run:
        return pushed
    await remote.write_header()
    sent = await upload.send()
    manifest = Manifest(
        thread_id=thread_id,
        number=theirs.number + 1 if theirs is not None else 1,
        parent=theirs.digest if theirs is not None else None,
        state=ours.state,
        schema=ours.schema,
        name=ours.name,
        names=tuple(dict.fromkeys((ours.name, *(thread.name for thread in ours.group.threads)))),
        kind=ours.thread.kind,
        agent=ours.thread.agent,
        turns=ours.group.turns,
        pushed_at=engine.context.clock(),
        parts=tuple(upload.parts),
    )
    manifest = msgspec.structs.replace(manifest, digest=sha256(pack_manifest(manifest)))
    if signer is not None:
        sent = Sent(sent.objects + 1, sent.size_bytes + await remote.sign(manifest, signer))

    async def commit() -> int:
        await save_base(engine, remote, thread_id, replace(before, trying=manifest.digest))
        size_bytes = await remote.commit(manifest)
        if size_bytes is None:
            raise _conflict(ours.name, remote.url)
        await save_base(engine, remote, thread_id, before.followed_by(manifest.number, manifest.digest, ours.state))
        return size_bytes

    sent = Sent(sent.objects + 1, sent.size_bytes + await finish(commit()))  # too late for a cancel
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
) -> PullResult:
    """Pulls a thread. With `name`, as a new thread beside the one here; with `signers`, only if one of them signed it.

    Raises Busy, Conflict, and UsageError for what is damaged or lacks a required signature.
    """
    await refuse_unencrypted(engine, remote)
    signer = await remote.signed_by(theirs, signers) if signers is not None else None
    here = await engine.store.call(lambda store: store.threads.by_id(theirs.thread_id))
    pulled = PullResult(name or theirs.name, SyncState.NEW, theirs.turns, theirs.number, signer=signer)
    if name is not None or here is None:
        thread = await asyncio.to_thread(_read, theirs, await remote.fetch(theirs, on_bytes=on_bytes))

        def link(store: Store, made: ImportResult) -> None:
            if not made.renewed:
                write_base(store, remote, theirs.thread_id, _base_after(store, theirs, made, NO_BASE))

        made = await import_thread(
            engine, thread, cwd=cwd, name=name, permissions=permissions, trust=trust, dry_run=dry_run, then=link
        )
        return replace(pulled, name=made.pair or made.threads[0].name, imported=made)
    ours = await _local(engine, here.id)
    base = await load_base(engine, remote, here.id, theirs)
    before = base or NO_BASE
    pulled = replace(pulled, name=ours.name)
    state = _compared(ours, theirs, base, remote.url)
    if state is not SyncState.BEHIND:
        if state is SyncState.UNCHANGED and not dry_run:
            await save_base(engine, remote, here.id, before.followed_by(theirs.number, theirs.digest, ours.state))
        return replace(pulled, state=state)
    if dry_run:
        return replace(pulled, state=SyncState.UPDATED)
    known = [thread.id for thread in ours.group.threads]
    fetched = await remote.fetch(theirs, ours.parts.values(), on_bytes)
    thread = await asyncio.to_thread(_read, theirs, fetched, known)

    archived = list[Path | None]()

    def replace_ours(store: Store) -> Tables:
        """Archives our thread, in the import's transaction, so that nothing can start between check and import."""
        now = gather_rows(store, engine, here.id)
        if to_lines(portable(now.dumps))[1] != ours.state:
            raise Conflict(f"{here.name} has changed in the meantime.", hint="Pull again.")
        archived.append(archives.archive_in(store, store.threads.require_by_id(here.id)).path)
        return merged(now.dumps)

    try:
        made = await import_thread(
            engine,
            thread,
            cwd=ours.thread.cwd,
            permissions=ours.thread.permissions,
            trust=ours.thread.trust,
            replacing=replace_ours,
            then=lambda store, made: write_base(store, remote, here.id, _base_after(store, theirs, made, before)),
        )
    except BaseException:
        for path in archived:  # the transaction was undone, so the thread is still in the store
            if path is not None:
                path.unlink(missing_ok=True)
        raise
    return replace(pulled, state=SyncState.UPDATED, imported=replace(made, notes=()))


class GroupName(Record):
    """Names a thread, or the two of a pair, which are pushed together."""

    key: str  # the id of its first thread, or the unknown name
    name: str  # the thread's, or the pair's


async def groups(engine: Engine, names: tuple[str, ...]) -> list[GroupName]:
    """The groups of these names; without names, all. An unknown name is returned, too: its push reports the error."""

    def find(store: Store) -> list[GroupName]:
        taken, found = set[str](), list[GroupName]()
        for name in dict.fromkeys(names) or [thread.id for thread in store.threads.recent(limit=ALL_ROWS)]:
            try:
                first, *others = store.threads.together(name)
            except NotFound:
                found.append(GroupName(name, name))
                continue
            if first.id not in taken:
                pair = store.pairs.of_thread(first.id) if others else None
                found.append(GroupName(first.id, first.name if pair is None else pair.name))
                taken |= {first.id, *(each.id for each in others)}
        return found

    return await engine.store.call(find)


async def find_manifest(engine: Engine, listing: RemoteListing, name: str) -> Manifest:
    """Finds a manifest by the thread's name here or there, or by its id. Raises NotFound, and Conflict for several."""

    def here(store: Store) -> set[str]:
        with contextlib.suppress(NotFound):
            return {str(thread.id) for thread in store.threads.together(name)}
        return set()

    listed, ids = listing.manifests, await engine.store.call(here)
    fit = [each for each in listed if each.thread_id in ids]
    fit = fit or [each for each in listed if name in (each.thread_id, *each.names)]
    if not fit and listing.problems:
        raise listing.problems[0]  # it may be about this thread
    if not fit:
        close = difflib.get_close_matches(name, [known for each in listed for known in each.names], n=3)
        hint = f"Did you mean {' or '.join(close)}?" if close else "Without names, pull lists them."
        raise NotFound(f"There is no thread named {name} at the remote.", hint=hint)
    if len(fit) > 1:
        several = " or ".join(each.thread_id for each in fit)
        raise Conflict(f"Several threads at the remote are named {name}.", hint=f"Name one by its id: {several}.")
    return fit[0]


async def _local(engine: Engine, name: str) -> _LocalThread:
    def oldest(store: Store) -> str:
        return min(store.threads.together(name), key=lambda each: (each.created_at, each.id)).id

    group = await gather(engine, await engine.store.call(oldest))
    return await asyncio.to_thread(_prepared, group)


def _prepared(group: ThreadGroup) -> _LocalThread:
    tables = portable(group.dumps)
    retire_pins_without_file(tables, group.files)
    rows, state = to_lines(tables)
    schema = int(group.dumps[0]["schema"])
    parts = {ROWS: rows, **group.files, **to_parts(group.images)}
    return _LocalThread(group.threads[0], group.name, group, schema, tables, parts, state)


def _compared(ours: _LocalThread, theirs: Manifest, base: SyncBase | None, url: str) -> SyncState:
    """Which side has changed since the base. Raises Conflict when both have."""
    if theirs.state == ours.state:
        return SyncState.UNCHANGED
    is_new_here = base is None or base.state != ours.state
    is_new_there = base is None or base.number != theirs.number
    if is_new_here and is_new_there:
        raise _conflict(ours.name, url)
    if is_new_here:
        return SyncState.AHEAD
    return SyncState.BEHIND if is_new_there else SyncState.UNCHANGED


def _conflict(name: str, url: str) -> Conflict:
    beside = f"clew threads pull {shlex.quote(url)} {name} --name {name[: PAIR_NAME_CHARS - len(THEIRS)]}{THEIRS}"
    return Conflict(
        f"{name} has changed here and at the remote: nothing was done.",
        hint=f"{beside} brings theirs beside yours; clew threads diff and merge help.",
    )


def _base_after(store: Store, theirs: Manifest, made: ImportResult, before: SyncBase) -> SyncBase:
    """The base after an import. Our rows may differ from theirs: permissions are narrowed, local values are kept."""
    dumps = [store.threads.dump(thread.id) for thread in made.threads]
    return before.followed_by(theirs.number, theirs.digest, to_lines(portable(dumps))[1])


def _read(theirs: Manifest, parts: Mapping[str, bytes], known: Sequence[str] | None = None) -> PortableThread:
    """Raises UsageError when the rows are of other threads than the manifest says.

    `known` are the ids of the threads that the pull replaces.
    """
    tables = from_lines(parts[ROWS])
    ids = [row.get("id") for row in tables["threads"]]
    is_other = known is not None and any(each not in known for each in ids)
    if theirs.thread_id not in ids or is_other or any(row.get("name") not in theirs.names for row in tables["threads"]):
        raise damaged("a thread")
    sessions = {name: content for name, content in parts.items() if is_session_part(name)}
    return PortableThread(theirs.schema, tables, sessions, from_parts(parts))
