"""The commands `clew threads archive`, `restore`, `archives` and `clean`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.options import AS_JSON, age, complete_thread
from clew.cli.ui.formatting import ago, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.progress import followed, is_interrupted, with_progress
from clew.cli.ui.tables import columns
from clew.core.thread import KINDS
from clew.errors import Cancelled, UsageError

if TYPE_CHECKING:
    from clew.api.archives import ArchivedThread, ArchiveFile, CleanupResult, Deleted, RestoredArchive
    from clew.api.client import Client
    from clew.api.operations import OperationEvent

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
        from clew.api.archives import archived_shape

        print_json([archived_shape(each).to_json() for each in done])


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
    from clew.api.archives import restore as restore_archive
    from clew.api.archives import restored_shape

    done: list[RestoredArchive] = []
    for path in dict.fromkeys([await client.archives.find(each) for each in archives]):
        done.append(await with_progress(restore_archive(client, str(path))))
        _note_restored(done[-1])  # at once: the next archive may be damaged
        if is_interrupted():
            raise KeyboardInterrupt
    if as_json:
        print_json([restored_shape(each).to_json() for each in done])


def _note_restored(restored: RestoredArchive) -> None:
    names = " and ".join(thread.name for thread in restored.threads)
    session = "the next turn resumes" if restored.resumable else "the next turn starts fresh"
    note(f"restored {names} ({plural(restored.turns, 'turn')}); {session}")
    if restored.is_copy:
        note(f"{restored.was} is in the store already: this is a copy of it")
    if restored.is_narrowed:
        note("the file is not from your archives: its permissions were narrowed to ask; clew threads set widens them")


@click.command()
@AS_JSON
@client_command(reads=True)
async def archives(client: Client, as_json: bool) -> None:
    """List the archives of deleted and archived threads, the newest first."""
    found = await client.archives.files()
    if as_json:
        from clew.api.archives import file_shape

        print_json([file_shape(file).to_json() for file in found])
    elif found:
        headings = ["NAME", "KIND", "ARCHIVED", "TURNS", "BYTES", "FILE"]
        say(columns(headings, [_row(file) for file in found], optional=["BYTES", "KIND", "TURNS"]))
    else:
        note("No archives yet.")


def _row(file: ArchiveFile) -> list[str]:
    kind = harmless(file.kind) if file.kind is not None else (file.problem or "?")
    turns = "?" if file.turns is None else f"{file.turns:,}"
    return [harmless(file.name), kind, ago(file.archived_at), turns, f"{file.size_bytes:,}", harmless(file.path.name)]


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

    from clew.api import archives as api

    async def work(client: Client) -> None:
        options = api.CleanOptions(older_than_s=older_than, kind=kind, dry_run=dry_run)
        done = await followed(api.clean(client, options), report)
        if as_json:
            print_json(api.cleaned_shape(done, dry_run=dry_run).to_json())
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

    def __call__(self, event: OperationEvent) -> None:
        if event.data is None:
            return
        self._archived += "thread" in event.data
        if not self._as_json:
            note(self._words(event.data))
        elif time.monotonic() - self._reported_at > EVERY_S:
            self._reported_at = time.monotonic()
            note(f"{self.sum} so far")

    @property
    def sum(self) -> str:
        return f"{'would archive' if self._dry_run else 'archived'} {plural(self._archived, 'thread')}"

    def _words(self, done: Mapping[str, Any]) -> str:
        if "removed" in done:
            name = harmless(Path(done["removed"]).name)
            return f"{'would remove' if self._dry_run else 'removed'} the archive {name}"
        where = f": {done['archive']}" if done["archive"] is not None else ""
        did = "would archive" if self._dry_run else "archived"
        names = " and ".join([done["thread"], *done["others"]])
        return f"{did} {names} ({done['kind']}, {plural(done['turns'], 'turn')}){where}"


def all_names(done: ArchivedThread | Deleted) -> str:
    """The name of the thread; for a pair, the names of both threads."""
    return " and ".join([done.name, *done.others])


def _note_kept(done: CleanupResult) -> None:
    for _, why in done.kept:
        note(f"kept: {why}")
    if not (done.archived or done.expired or done.kept):
        note("Nothing to clean.")
