"""`clew threads archive`, `restore`, `archives` and `clean`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import AS_JSON
from clew.cli.output import ago, columns, harmless, note, plural, print_json, say, stamp
from clew.cli.session import complete_thread, with_client
from clew.cli.threads_list import KINDS, age
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.archive_file import ArchiveFile
    from clew.hosts.archives import Archived, Cleaned, Restored


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
def archive(names: tuple[str, ...]) -> None:
    """Put threads away: each is written to an archive file and leaves the store. `threads restore` brings it back.

    The two threads of a pair go together. One that is in use stays: a run is going on in it, a prompt is queued, a job
    is under way or a question is open.
    """

    async def work(client: Client) -> None:
        for name in [(await client.find(name)).name for name in dict.fromkeys(names)]:
            done = await client.archives.archive(name)
            note(f"archived {done.name} ({plural(done.turns, 'turn')}): {done.path}")

    with_client(work)


@click.command()
@click.argument("archives", metavar="FILE|NAME...", nargs=-1, required=True)
@AS_JSON
def restore(archives: tuple[str, ...], as_json: bool) -> None:
    """Bring archived and deleted threads back, by the archive's file or by the thread's name (its newest archive).

    All comes back as it was, under the same name and ids unless they are taken. Nothing goes on by itself: a run or a
    job that was under way is over. The next turn resumes the session if its file still stands, and starts fresh
    otherwise. The archive stays where it is.
    """

    async def work(client: Client) -> None:
        done = [await client.archives.restore(each) for each in archives]
        if as_json:
            print_json([_restored_object(each) for each in done])
            return
        for restored in done:
            _tell(restored)

    with_client(work)


def _tell(restored: Restored) -> None:
    names = " and ".join(thread.name for thread in restored.threads)
    session = "its session still stands" if restored.resumable else "the next turn starts fresh"
    note(f"restored {names} ({plural(restored.turns, 'turn')}); {session}")
    if restored.is_copy:
        note(f"{restored.was} is in the store already: this is a copy of it")
    if restored.is_narrowed:
        note("the file is not from this archive: what it may do was narrowed to ask; clew threads set widens it")


def _restored_object(restored: Restored) -> dict[str, Any]:
    return {
        "threads": [{"name": thread.name, "id": thread.id, "kind": thread.kind} for thread in restored.threads],
        "was": restored.was,
        "turns": restored.turns,
        "resumable": restored.resumable,
        "copy": restored.is_copy,
        "narrowed": restored.is_narrowed,
    }


@click.command()
@AS_JSON
def archives(as_json: bool) -> None:
    """List the archives of deleted and archived threads, the newest first."""

    async def work(client: Client) -> None:
        found = await client.archives.files()
        if as_json:
            print_json([_file_object(file) for file in found])
        elif found:
            headings = ["NAME", "KIND", "ARCHIVED", "TURNS", "BYTES", "FILE"]
            say(columns(headings, [_row(file) for file in found]))
        else:
            note("No archives yet.")

    with_client(work)


def _row(file: ArchiveFile) -> list[str]:
    kind = harmless(file.kind) if file.kind is not None else (file.problem or "?")
    turns = "?" if file.turns is None else f"{file.turns:,}"
    return [harmless(file.name), kind, ago(file.archived_at), turns, f"{file.size_bytes:,}", harmless(file.path.name)]


def _file_object(file: ArchiveFile) -> dict[str, Any]:
    return {
        "name": file.name,
        "kind": file.kind,
        "thread_id": file.thread_id,
        "archived_at": stamp(file.archived_at),
        "turns": file.turns,
        "size_bytes": file.size_bytes,
        "file": str(file.path),
        "problem": file.problem,
    }


@click.command()
@click.option("--older-than", metavar="AGE", callback=age, help="Archive threads not used for so long: 7d, 12h.")
@click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@AS_JSON
def clean(older_than: float | None, kind: str | None, dry_run: bool, as_json: bool) -> None:
    """Archive threads that were not used for long. Those in use stay, whatever their age.

    Without --older-than it does what the settings say: threads older than `retention.threads` are archived (off unless
    you set it), archives older than `retention.archives` (30 days) are removed for good. `clew serve` and `clew work`
    do the same once a day.
    """
    if kind is not None and older_than is None:
        raise UsageError("--kind goes with --older-than.", hint="The settings hold for threads of every kind.")

    async def work(client: Client) -> None:
        if older_than is None:
            done = await client.archives.tidy(dry_run=dry_run)
        else:
            done = await client.archives.clean(older_than, kind=kind, dry_run=dry_run)
        if as_json:
            print_json(_cleaned_object(done, dry_run=dry_run))
        else:
            _tell_cleaned(done, dry_run=dry_run)

    with_client(work)


def _tell_cleaned(done: Cleaned, *, dry_run: bool) -> None:
    for each in done.archived:
        where = f": {each.path}" if each.path is not None else ""
        did = "would archive" if dry_run else "archived"
        note(f"{did} {each.name} ({each.kind}, {plural(each.turns, 'turn')}){where}")
    for path in done.expired:
        note(f"{'would remove' if dry_run else 'removed'} the archive {harmless(path.name)}")
    for _, why in done.kept:
        note(f"kept: {why}")
    if not (done.archived or done.expired or done.kept):
        note("Nothing to clean.")


def _cleaned_object(done: Cleaned, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "archived": [_archived_object(each) for each in done.archived],
        "removed": [str(path) for path in done.expired],
        "kept": [{"thread": name, "why": why} for name, why in done.kept],
    }


def _archived_object(each: Archived) -> dict[str, Any]:
    return {
        "thread": each.name,
        "kind": each.kind,
        "turns": each.turns,
        "archive": None if each.path is None else str(each.path),
    }
