"""Exports, imports, remotes and archives."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.operations import Failure, Operation, OperationFailure
from clew.api.wire.operations import FoundSecret as FoundSecret
from clew.api.wire.shape import Doc, Shape, Time

Turns = Annotated[int, Doc("The number of turns, without archived ones")]
Others = Annotated[list[str], Doc("Names of threads that were archived with it: the other thread of a pair")]


class ExportedSession(Shape):
    agent: str
    model: str | None
    included: bool
    why: Annotated[str | None, Doc("Why it is not included")]


class ExportedFile(Shape):
    """The file of an exported thread."""

    file: Annotated[str, Doc("The file's name", example="fix-login.clew")]
    size_bytes: int
    threads: Annotated[list[str], Doc("The names of the threads in it: two for a pair")]
    turns: Turns
    encrypted: bool
    redacted: Annotated[int | None, Doc("How many secrets were blanked; null: it is not redacted")]
    secrets: Annotated[list[FoundSecret], Doc("Those that were blanked, or that the file contains")]
    sessions: list[ExportedSession]


class ImportedThread(Shape):
    name: str
    id: str
    cwd: str


class ArrivedSession(Shape):
    """A session of an imported or pulled thread."""

    part: Annotated[Literal["instructor", "worker"] | None, Doc("Of a pair: whose session it is")]
    agent: str
    model: str | None
    resumable: Annotated[bool, Doc("Whether the next turn resumes it; else that turn starts fresh")]
    why: Annotated[str | None, Doc("Why it cannot be resumed")]


class ImportedSession(ArrivedSession):
    file: Annotated[str | None, Doc("Where the agent looks for it")]


class Import(Shape):
    """What an import did, or would do."""

    dry_run: bool
    threads: list[ImportedThread]
    turns: Turns
    new_ids: Annotated[bool, Doc("It is a copy with new ids, because its own exist here already")]
    sessions: list[ImportedSession]
    notes: Annotated[list[str], Doc("What is different here, such as narrower permissions")]


class FailedThread(Shape):
    """A thread that was not pushed or pulled. The other threads were."""

    name: str
    state: Literal["conflict", "failed"]
    error: OperationFailure | Failure


class PushedThread(Shape):
    name: str
    state: Literal["pushed", "unchanged", "behind"]
    number: Annotated[int | None, Doc("Of its newest push at the remote")]
    turns: Turns
    sent_bytes: int
    sent_objects: int
    new_bytes: Annotated[int, Doc("What is new, before it is compressed")]
    secrets: list[FoundSecret]
    signed: bool
    error: None


class Push(Shape):
    url: str
    encrypted: bool
    dry_run: bool
    threads: list[PushedThread | FailedThread]


class PulledThread(Shape):
    name: str
    state: Literal["new", "updated", "unchanged", "ahead"]
    number: Annotated[int, Doc("Of its newest push at the remote")]
    turns: Turns
    new_ids: bool
    signer: Annotated[str | None, Doc("Who signed it; null: no signature was required")]
    sessions: list[ArrivedSession]
    notes: list[str]
    error: None


class Pull(Shape):
    url: str
    encrypted: bool
    dry_run: bool
    threads: list[PulledThread | FailedThread]


class RemoteThread(Shape):
    name: str
    id: str
    kind: str
    agent: str
    turns: Turns
    number: Annotated[int, Doc("Of its newest push")]
    size_bytes: int
    pushed_at: Time


class RemoteThreads(Shape):
    """The threads at a remote."""

    url: str
    encrypted: bool
    dry_run: bool
    threads: list[RemoteThread]
    problems: Annotated[list[str], Doc("About threads that cannot be read")]


class ArchivedThread(Shape):
    thread: str
    others: Others
    kind: str
    turns: int
    archive: Annotated[str | None, Doc("The archive's file; null: a dry run")]


class DeletedArchive(Shape):
    """A thread that was deleted, after it was archived."""

    thread: str
    others: Others
    turns: int
    archive: Annotated[str | None, Doc("The archive's file; null: a dry run")]


class RestoredThread(Shape):
    name: str
    id: str
    kind: str


class RestoredArchive(Shape):
    threads: list[RestoredThread]
    was: Annotated[str, Doc("The thread's name when it was archived")]
    turns: Turns
    resumable: Annotated[int, Doc("How many sessions can still be resumed")]
    copy: Annotated[bool, Doc("The ids in the archive were taken, so the threads have new ones")]
    narrowed: Annotated[bool, Doc("Its permissions were narrowed, because the file is from elsewhere")]


class ArchiveFile(Shape):
    name: Annotated[str, Doc("The thread's name")]
    kind: str | None
    thread_id: str | None
    archived_at: Time
    turns: int | None
    size_bytes: int
    file: str
    problem: Annotated[str | None, Doc("Why it cannot be restored")]


class ArchiveList(Shape):
    items: list[ArchiveFile]


class KeptThread(Shape):
    thread: str
    why: str


class Cleanup(Shape):
    """What a clean-up did, or would do."""

    dry_run: bool
    archived: list[ArchivedThread]
    removed: Annotated[list[str], Doc("Archives that were too old")]
    kept: list[KeptThread]


# Operations, with what the result of each is. A type checker cannot know that a shape stands for its JSON object.


class ExportOperation(Operation):
    result: ExportedFile | None  # type: ignore[assignment]


class ImportOperation(Operation):
    result: Import | None  # type: ignore[assignment]


class PushOperation(Operation):
    result: Push | None  # type: ignore[assignment]


class PullOperation(Operation):
    result: Pull | None  # type: ignore[assignment]


class RestoreOperation(Operation):
    result: RestoredArchive | None  # type: ignore[assignment]


class CleanOperation(Operation):
    result: Cleanup | None  # type: ignore[assignment]
