"""Archives: threads that were written to files and deleted from the store. `client.archives` archives and lists them.

    archived = await client.archives.archive("fix-login")
    restored = await archives.restore(client, "fix-login")

`restore` and `clean` are operations. A cancelled restore has restored nothing; a cancelled clean-up has archived some
threads, each as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from clew.api.client import Client
from clew.api.operations import Operation, Report
from clew.api.wire import transfer as wire
from clew.core.record import Record
from clew.core.thread import Thread
from clew.errors import UsageError
from clew.hosts.chat.chat import Deleted as Deleted
from clew.hosts.transfer.archive_file import ArchiveFile as ArchiveFile
from clew.hosts.transfer.archives import ArchivedThread as ArchivedThread
from clew.hosts.transfer.archives import CleanupResult as CleanupResult
from clew.hosts.transfer.archives import RestoredArchive as RestoredArchive


class CleanOptions(Record):
    """What a clean-up archives and removes."""

    older_than_s: float | None = None  # threads that were not used for this long; None: as the settings say
    kind: str | None = None  # only threads of this kind
    dry_run: bool = False
    may_use: Callable[[Thread], bool] | None = None  # False: it stays, with its pair and its archives


def restore(client: Client, file_or_name: str, *, new_id: str | None = None) -> Operation[RestoredArchive]:
    """Restores an archive by its path, or a thread's newest archive by its name.

    The operation raises NotFound, and UsageError for a damaged file.
    """

    async def work(operation: Operation[RestoredArchive], report: Report) -> RestoredArchive:
        report.progress(f"restoring {file_or_name}", 1, 1)
        return await client.archives.restore(file_or_name)

    return client.operations.start("restore", work, restored_shape, subjects=(file_or_name,), new_id=new_id)


def clean(client: Client, options: CleanOptions, *, new_id: str | None = None) -> Operation[CleanupResult]:
    """Archives threads that were not used for a long time, each in its own transaction, and removes old archives.

    The data of an event is the archived thread as JSON, or `{"removed": FILE}`. Raises UsageError.
    """
    if options.kind is not None and options.older_than_s is None:
        raise UsageError("A kind needs an age.", hint="The settings apply to threads of every kind.")

    async def work(operation: Operation[CleanupResult], report: Report) -> CleanupResult:
        loop, did = asyncio.get_running_loop(), "would archive" if options.dry_run else "archived"

        def note(done: ArchivedThread | Path) -> None:
            if isinstance(done, Path):
                report.progress(f"{'would remove' if options.dry_run else 'removed'} {done.name}", removed=str(done))
            else:
                report.progress(f"{did} {done.name}", **archived_shape(done).to_json())

        def tell(done: ArchivedThread | Path) -> None:
            loop.call_soon_threadsafe(note, done)  # this is called in the store's thread

        archives = client.archives
        if options.older_than_s is None:
            done = await archives.tidy(dry_run=options.dry_run, tell=tell, may_use=options.may_use)
        else:
            done = await archives.clean(
                options.older_than_s, kind=options.kind, dry_run=options.dry_run, tell=tell, may_use=options.may_use
            )
        await asyncio.sleep(0)  # the last report arrives before the end
        return done

    return client.operations.start(
        "clean", work, lambda done: cleaned_shape(done, dry_run=options.dry_run), new_id=new_id
    )


def archived_shape(done: ArchivedThread) -> wire.ArchivedThread:
    return wire.ArchivedThread.of(done, thread=done.name, archive=_name(done.path))


def deleted_shape(done: Deleted) -> wire.DeletedArchive:
    return wire.DeletedArchive.of(done, thread=done.name, archive=_name(done.archive))


def file_shape(file: ArchiveFile) -> wire.ArchiveFile:
    return wire.ArchiveFile.of(file, file=str(file.path))


def restored_shape(restored: RestoredArchive) -> wire.RestoredArchive:
    return wire.RestoredArchive.of(
        restored,
        threads=[wire.RestoredThread.of(thread) for thread in restored.threads],
        copy=restored.is_copy,
        narrowed=restored.is_narrowed,
    )


def cleaned_shape(done: CleanupResult, *, dry_run: bool) -> wire.Cleanup:
    return wire.Cleanup.of(
        dry_run=dry_run,
        archived=[archived_shape(each) for each in done.archived],
        removed=[str(path) for path in done.expired],
        kept=[wire.KeptThread(thread=name, why=why) for name, why in done.kept],
    )


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)
