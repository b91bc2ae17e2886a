"""The commands `clew threads archive`, `restore`, `archives` and `clean`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.options import AS_JSON, age, complete_thread
from clew.cli.ui.formatting import ago, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.core.thread import KINDS
from clew.errors import Cancelled, UsageError
from clew.system.timestamps import stamp

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.hosts.chat.chat import Deleted
    from clew.hosts.transfer.archive_file import ArchiveFile
    from clew.hosts.transfer.archives import ArchivedThread, CleanupResult, RestoredArchive

EVERY_S = 1.0  # how often progress is shown


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
@AS_JSON
@client_command()
async def archive(client: Client, names: tuple[str, ...], as_json: bool) -> None:
    """Archive threads: each is written to a file and deleted from the store. `threads restore` restores it.

    The two threads of a pair are archived together; the pair's name works, too. A thread in use is not archived: one
    with a run, a queued prompt, a running job or an open question.
    """
    done: list[ArchivedThread] = []
    for name in dict.fromkeys([(await client.together(name))[0].name for name in names]):
        if any(name in each.others for each in done):
            continue  # it was archived with the other thread of its pair
        done.append(await client.archives.archive(name))
        note(f"archived {all_names(done[-1])} ({plural(done[-1].turns, 'turn')}): {done[-1].path}")
    if as_json:
        print_json([_archived_object(each) for each in done])


@click.command()
@click.argument("archives", metavar="FILE|NAME...", nargs=-1, required=True)
@AS_JSON
@client_command()
async def restore(client: Client, archives: tuple[str, ...], as_json: bool) -> None:
    """Restore archived and deleted threads, by the archive's file or by the thread's name (its newest archive).

    Everything is restored as it was, with the same name and ids unless they are taken. Nothing continues by itself: a
    run or a job that had not finished has ended. The next turn resumes the session if its file still exists, and starts
    fresh otherwise. The archive is kept.
    """
    done = []
    for path in dict.fromkeys([await client.archives.find(each) for each in archives]):
        done.append(await client.archives.restore(str(path)))
        _note_restored(done[-1])  # at once: the next archive may be damaged
    if as_json:
        print_json([_restored_object(each) for each in done])


def _note_restored(restored: RestoredArchive) -> None:
    names = " and ".join(thread.name for thread in restored.threads)
    session = "the next turn resumes" if restored.resumable else "the next turn starts fresh"
    note(f"restored {names} ({plural(restored.turns, 'turn')}); {session}")
    if restored.is_copy:
        note(f"{restored.was} is in the store already: this is a copy of it")
    if restored.is_narrowed:
        note("the file is not from your archives: its permissions were narrowed to ask; clew threads set widens them")


def _restored_object(restored: RestoredArchive) -> dict[str, Any]:
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
@client_command(reads=True)
async def archives(client: Client, as_json: bool) -> None:
    """List the archives of deleted and archived threads, the newest first."""
    found = await client.archives.files()
    if as_json:
        print_json([_file_object(file) for file in found])
    elif found:
        headings = ["NAME", "KIND", "ARCHIVED", "TURNS", "BYTES", "FILE"]
        say(columns(headings, [_row(file) for file in found], optional=["BYTES", "KIND", "TURNS"]))
    else:
        note("No archives yet.")


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
@click.option(
    "--older-than", metavar="AGE", callback=age, help="Archive threads that were not used for this long: 7d, 12h."
)
@click.option("--kind", type=click.Choice([*KINDS, "all"]), help="Only threads of this kind.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only show what would be archived or removed.")
@AS_JSON
def clean(older_than: float | None, kind: str | None, dry_run: bool, as_json: bool) -> None:
    """Archive threads that were not used for a long time. Threads in use stay, whatever their age.

    Without --older-than, it does what the settings say: threads older than `retention.threads` are archived (off unless
    you set it), archives older than `retention.archives` (30 days) are deleted. `clew serve` and `clew work` do the
    same once a day.
    """
    kind = None if kind == "all" else kind
    if kind is not None and older_than is None:
        raise UsageError("--kind needs --older-than.", hint="The settings apply to threads of every kind.")
    report = _CleanReport(dry_run=dry_run, as_json=as_json)

    async def work(client: Client) -> None:
        if older_than is None:
            done = await client.archives.tidy(dry_run=dry_run, tell=report)
        else:
            done = await client.archives.clean(older_than, kind=kind, dry_run=dry_run, tell=report)
        if as_json:
            print_json(_cleaned_object(done, dry_run=dry_run))
        else:
            _note_kept(done)

    try:
        with_client(work)
    except KeyboardInterrupt:
        if sys.stderr is not None and sys.stderr.isatty():
            note("")  # ends the line of the ^C
        raise Cancelled(f"Stopped: {report.sum}.", hint="The same command does the rest.") from None


class _CleanReport:
    """Reports each archived thread and each removed archive; with --json, the number of threads every second."""

    def __init__(self, *, dry_run: bool, as_json: bool) -> None:
        self._dry_run = dry_run
        self._as_json = as_json
        self._archived = 0
        self._reported_at = time.monotonic()

    def __call__(self, done: ArchivedThread | Path) -> None:
        self._archived += not isinstance(done, Path)
        if not self._as_json:
            note(self._words(done))
        elif time.monotonic() - self._reported_at > EVERY_S:
            self._reported_at = time.monotonic()
            note(f"{self.sum} so far")

    @property
    def sum(self) -> str:
        return f"{'would archive' if self._dry_run else 'archived'} {plural(self._archived, 'thread')}"

    def _words(self, done: ArchivedThread | Path) -> str:
        if isinstance(done, Path):
            return f"{'would remove' if self._dry_run else 'removed'} the archive {harmless(done.name)}"
        where = f": {done.path}" if done.path is not None else ""
        did = "would archive" if self._dry_run else "archived"
        return f"{did} {all_names(done)} ({done.kind}, {plural(done.turns, 'turn')}){where}"


def all_names(done: ArchivedThread | Deleted) -> str:
    """The name of the thread; for a pair, the names of both threads."""
    return " and ".join([done.name, *done.others])


def _note_kept(done: CleanupResult) -> None:
    for _, why in done.kept:
        note(f"kept: {why}")
    if not (done.archived or done.expired or done.kept):
        note("Nothing to clean.")


def _cleaned_object(done: CleanupResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "archived": [_archived_object(each) for each in done.archived],
        "removed": [str(path) for path in done.expired],
        "kept": [{"thread": name, "why": why} for name, why in done.kept],
    }


def _archived_object(each: ArchivedThread) -> dict[str, Any]:
    return {
        "thread": each.name,
        "others": list(each.others),
        "kind": each.kind,
        "turns": each.turns,
        "archive": None if each.path is None else str(each.path),
    }
