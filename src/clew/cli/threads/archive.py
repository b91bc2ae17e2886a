"""`clew threads archive`, `restore`, `archives` and `clean`"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import AS_JSON
from clew.cli.output import ago, columns, harmless, note, plural, print_json, say, stamp
from clew.cli.session import complete_thread, with_client
from clew.cli.threads_list import age
from clew.core.thread import KINDS
from clew.errors import Cancelled, UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.archive_file import ArchiveFile
    from clew.hosts.archives import Archived, Cleaned, Restored

EVERY_S = 1.0


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
@AS_JSON
def archive(names: tuple[str, ...], as_json: bool) -> None:
    """Put threads away: each is written to an archive file and leaves the store. `threads restore` brings it back.

    The two threads of a pair go together, also by the pair's name. One that is in use stays: a run is going on in it, a
    prompt is queued, a job is under way or a question is open.
    """

    async def work(client: Client) -> None:
        done: list[Archived] = []
        for name in dict.fromkeys([(await client.together(name))[0].name for name in names]):
            if any(name in each.others for each in done):
                continue  # it went with the other one of its pair
            done.append(await client.archives.archive(name))
            note(f"archived {_names(done[-1])} ({plural(done[-1].turns, 'turn')}): {done[-1].path}")
        if as_json:
            print_json([_archived_object(each) for each in done])

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
        done = []
        for path in dict.fromkeys([await client.archives.find(each) for each in archives]):
            done.append(await client.archives.restore(str(path)))
            _tell(done[-1])  # at once: the next one may be damaged
        if as_json:
            print_json([_restored_object(each) for each in done])

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
            say(columns(headings, [_row(file) for file in found], spare=["BYTES", "KIND", "TURNS"]))
        else:
            note("No archives yet.")

    with_client(work, reads=True)


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
@click.option("--kind", type=click.Choice([*KINDS, "all"]), help="Only those of this kind.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@AS_JSON
def clean(older_than: float | None, kind: str | None, dry_run: bool, as_json: bool) -> None:
    """Archive threads that were not used for long. Those in use stay, whatever their age.

    Without --older-than it does what the settings say: threads older than `retention.threads` are archived (off unless
    you set it), archives older than `retention.archives` (30 days) are removed for good. `clew serve` and `clew work`
    do the same once a day.
    """
    kind = None if kind == "all" else kind
    if kind is not None and older_than is None:
        raise UsageError("--kind goes with --older-than.", hint="The settings hold for threads of every kind.")
    telling = _Telling(dry_run=dry_run, as_json=as_json)

    async def work(client: Client) -> None:
        if older_than is None:
            done = await client.archives.tidy(dry_run=dry_run, tell=telling)
        else:
            done = await client.archives.clean(older_than, kind=kind, dry_run=dry_run, tell=telling)
        if as_json:
            print_json(_cleaned_object(done, dry_run=dry_run))
        else:
            _tell_kept(done)

    try:
        with_client(work)
    except KeyboardInterrupt:
        if sys.stderr is not None and sys.stderr.isatty():
            note("")  # behind the ^C
        raise Cancelled(f"Stopped: {telling.sum}.", hint="The same command goes on with the rest.") from None


class _Telling:
    """Each one as it goes; where the whole is one JSON object, a sum every now and then."""

    def __init__(self, *, dry_run: bool, as_json: bool) -> None:
        self._dry_run = dry_run
        self._as_json = as_json
        self._archived = 0
        self._told_at = time.monotonic()

    def __call__(self, done: Archived | Path) -> None:
        self._archived += not isinstance(done, Path)
        if not self._as_json:
            note(self._words(done))
        elif time.monotonic() - self._told_at > EVERY_S:
            self._told_at = time.monotonic()
            note(f"{self.sum} so far")

    @property
    def sum(self) -> str:
        return f"{'would archive' if self._dry_run else 'archived'} {plural(self._archived, 'thread')}"

    def _words(self, done: Archived | Path) -> str:
        if isinstance(done, Path):
            return f"{'would remove' if self._dry_run else 'removed'} the archive {harmless(done.name)}"
        where = f": {done.path}" if done.path is not None else ""
        did = "would archive" if self._dry_run else "archived"
        return f"{did} {_names(done)} ({done.kind}, {plural(done.turns, 'turn')}){where}"


def _names(archived: Archived) -> str:
    return " and ".join([archived.name, *archived.others])


def _tell_kept(done: Cleaned) -> None:
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
        "others": list(each.others),
        "kind": each.kind,
        "turns": each.turns,
        "archive": None if each.path is None else str(each.path),
    }
