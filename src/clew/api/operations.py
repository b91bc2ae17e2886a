"""Long calls as operations: export, import, push, pull, replay, clean, sweep. Each has progress, a result and a cancel.

    operation = exports.export(client, "fix-login", ExportOptions())
    async for event in operation:
        print(event.message)
    exported = await operation

Rules
1. An operation runs in this process. Nothing of it is stored, so a daemon that restarts knows none of the operations
   before it. Whoever calls an operation can repeat it: what it had not finished was not begun, or is continued.
2. A cancel never leaves anything half done. It takes effect where the work can stop; work that cannot stop any more (a
   transaction, the last write of a push) is finished, and then the operation is `done`.
3. The events are kept with the operation, so that a client that reconnects gets those that it lacks, each once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

from clew.api.wire import operations as wire
from clew.api.wire.shape import Shape
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import Busy, Cancelled, ClewError, Conflict, NotFound, SecretFound
from clew.system.cancellation import finish

R = TypeVar("R")
T = TypeVar("T")
E = TypeVar("E", bound=ClewError)

log = logging.getLogger("clew.api")

MAX_RUNNING = 16
MAX_KEPT = 100  # operations that ended
MAX_KEPT_BYTES = 256 * 1024 * 1024  # of the files that ended operations hold
MAX_EVENTS = 10_000  # of one operation; then the oldest progress is dropped


class OperationStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class OperationEvent(Record):
    """A step of an operation. The last event of every operation is `ended`."""

    seq: int  # from 1
    at: float
    kind: str  # progress, warning or ended
    message: str
    done: int | None = None  # of `total`, in the units of the message
    total: int | None = None
    data: Mapping[str, Any] | None = None  # what the message is about: ids and names

    def to_shape(self) -> wire.OperationEvent:
        return wire.OperationEvent.of(self, data=None if self.data is None else dict(self.data))


class OperationFile(Record):
    """A file that an operation made, for the caller to download."""

    name: str
    media_type: str
    content: bytes

    def to_shape(self, address: str) -> wire.OperationFile:
        return wire.OperationFile.of(self, size_bytes=len(self.content), address=address)


class Report:
    """How an operation's work reports its progress."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    def progress(self, message: str, done: int | None = None, total: int | None = None, **data: Any) -> None:
        self._note("progress", message, done, total, data)

    def warning(self, message: str, **data: Any) -> None:
        self._note("warning", message, None, None, data)


NO_REPORT = Report(lambda *_: None)


class Operation(Generic[R]):
    """A long call: iterate over it for its events, await it for its result."""

    def __init__(self, id_: str, kind: str, subjects: tuple[str, ...], clock: Callable[[], float]) -> None:
        self.id = id_
        self.kind = kind  # export, import, push, pull, replay, …
        self.subjects = subjects  # names or ids of what it works on
        self.target: str | None = None  # the id of the thread that it writes to, where only one may
        self.status = OperationStatus.RUNNING
        self.error: ClewError | None = None  # why it failed
        self.result: R | None = None  # once it is done; or what was done before it failed (`keep`)
        self.shape: Shape | None = None  # the result as JSON
        self.file: OperationFile | None = None  # what it made, once it is done
        self.started_at = clock()
        self.ended_at: float | None = None
        self.events: list[OperationEvent] = []
        self._clock = clock
        self._seq = 0
        self._changed = asyncio.Event()
        self._cancel: Callable[[], None] | None = None
        self._begun = self._killed = False
        self._unexpected: Exception | None = None  # a fault of ours
        self._task: asyncio.Task[None]

    @property
    def is_running(self) -> bool:
        return self.status is OperationStatus.RUNNING

    def to_shape(self) -> wire.Operation:
        said = [event.message for event in self.events if event.kind == "progress"]
        return wire.Operation.of(
            self,
            last_seq=self._seq,
            message=said[-1] if said else "",
            error=None if self.error is None else _failure(self.error),
            result=None if self.shape is None else self.shape.to_json(),
            file=None if self.file is None else self.file.to_shape(f"/api/operations/{self.id}/file"),
        )

    def cancel(self) -> bool:
        """Asks it to stop; it has stopped when it has ended. False: it is over already."""
        if not self.is_running:
            return False
        if self._cancel is not None:
            self._cancel()
        else:
            self.kill()
        return True

    def kill(self) -> None:
        """Stops it at once, as a second Ctrl-C does."""
        self._killed = True
        if self._begun:  # a task that is cancelled before its first step would not run its last one either
            self._task.cancel()

    def stop_with(self, cancel: Callable[[], None]) -> None:
        """For the work: a cancel calls this function, instead of cancelling the task. For what stops gracefully."""
        self._cancel = cancel

    async def follow(self, after: int = 0) -> AsyncGenerator[OperationEvent, None]:
        """The events after that number, each as soon as it happens, up to the last one. For any number of listeners."""
        while True:
            changed = self._changed
            for event in [each for each in self.events if each.seq > after]:
                after = event.seq
                yield event
            if not self.is_running and changed is self._changed:
                return
            await changed.wait()

    def __aiter__(self) -> AsyncGenerator[OperationEvent, None]:
        return self.follow()

    def __await__(self) -> Generator[Any, None, R]:
        """The result. Raises the error of an operation that failed, and Cancelled."""
        return self._ended().__await__()

    async def _ended(self) -> R:
        await asyncio.shield(self._task)
        if self._unexpected is not None:
            raise self._unexpected
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # without an error it has its result, which may be None

    async def finish(self, last_step: Awaitable[T]) -> T:
        """For the work: carries out a step that must not stop halfway. After a cancel, the step is still finished."""
        return await finish(last_step)

    def keep(self, result: R, shape: Shape) -> None:
        """For the work: what is done so far. It stays the result if the operation then fails or is cancelled."""
        self.result, self.shape = result, shape

    def start(self, work: Callable[[], Awaitable[R]], shaped: Callable[[R], Shape]) -> None:
        self._task = asyncio.ensure_future(self._run(work, shaped))

    async def _run(self, work: Callable[[], Awaitable[R]], shaped: Callable[[R], Shape]) -> None:
        self._begun = True
        try:
            if self._killed:
                raise Cancelled("The operation was cancelled.")
            self.result = await work()
            self.shape = shaped(self.result)
            status = OperationStatus.DONE
        except asyncio.CancelledError:
            status, self.error = OperationStatus.CANCELLED, Cancelled("The operation was cancelled.")
        except Cancelled as error:
            status, self.error = OperationStatus.CANCELLED, without_frames(error)
        except ClewError as error:
            status, self.error = OperationStatus.FAILED, without_frames(error)
        except Exception as error:  # noqa: BLE001 - the operation ends, whatever failed; the caller gets the error
            log.error("the operation %s failed unexpectedly: %s", self.kind, _place(error))
            status, self._unexpected = OperationStatus.FAILED, error
            self.error = ClewError("The operation failed unexpectedly.", hint="The log has the details.")
        self.ended_at = self._clock()
        self.note("ended", "" if self.error is None else self.error.message, status=status)

    def note(
        self,
        kind: str,
        message: str,
        done: int | None = None,
        total: int | None = None,
        data: Mapping[str, Any] | None = None,
        *,
        status: OperationStatus | None = None,
    ) -> None:
        self._seq += 1
        if len(self.events) >= MAX_EVENTS:
            del self.events[0]
        self.events.append(OperationEvent(self._seq, self._clock(), kind, message, done, total, data or None))
        self.status = status or self.status
        self._changed.set()
        self._changed = asyncio.Event()


class Operations:
    """The operations of this process: those that run, and the newest that ended."""

    def __init__(self, engine: Engine) -> None:
        self._context = engine.context
        self._known: dict[str, Operation[Any]] = {}

    def start(
        self,
        kind: str,
        work: Callable[[Operation[R], Report], Awaitable[R]],
        shaped: Callable[[R], Shape],
        *,
        subjects: tuple[str, ...] = (),
        new_id: str | None = None,
    ) -> Operation[R]:
        """Starts the work in the background. `shaped` makes the JSON object of its result.

        `new_id` is the operation's id; None: a random one.

        Raises Busy when too many operations run, and Conflict when there is an operation with that id.
        """
        self._forget_old()
        self.check_capacity()
        made = new_id or self._context.new_id()
        if made in self._known:
            raise Conflict(f"There is an operation {made} already.")
        operation = Operation[R](made, kind, subjects, self._context.clock)
        self._known[made] = operation
        operation.start(partial(work, operation, Report(operation.note)), shaped)
        return operation

    def check_capacity(self) -> None:
        """For calls that store something before they start an operation. Raises Busy when too many operations run."""
        if sum(each.is_running for each in self._known.values()) >= MAX_RUNNING:
            raise Busy(f"{MAX_RUNNING} operations are running already.", hint="Wait for one of them, or cancel one.")

    def find(self, operation_id: str) -> Operation[Any]:
        """Raises NotFound."""
        try:
            return self._known[operation_id]
        except KeyError:
            raise NotFound(
                f"There is no operation {operation_id}.",
                hint="Operations end with the process that runs them, and only the newest are kept.",
            ) from None

    def list(self) -> list[Operation[Any]]:
        """The newest first."""
        return list(self._known.values())[::-1]

    async def close(self) -> None:
        """Cancels what runs, and waits for its end."""
        running = [each for each in self._known.values() if each.is_running]
        for each in running:
            each.cancel()
        await asyncio.gather(*(each._task for each in running), return_exceptions=True)

    def _forget_old(self) -> None:
        ended = [each for each in self._known.values() if not each.is_running]
        held_bytes = sum(len(each.file.content) for each in ended if each.file is not None)
        for position, each in enumerate(ended):
            if len(ended) - position <= MAX_KEPT and held_bytes <= MAX_KEPT_BYTES:
                return
            held_bytes -= len(each.file.content) if each.file is not None else 0
            del self._known[each.id]


def without_frames(error: E) -> E:
    """The error without what its traceback holds in memory: the frames have the whole content of a file, or a
    passphrase, and an operation that ended is kept for a while."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _place(error: Exception) -> str:
    """The kind of the error and where it was raised, without its text, which may quote what a user said."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        place, trace = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    return type(error).__name__ + place


def _failure(error: ClewError) -> wire.OperationFailure:
    secrets = [wire.FoundSecret.of(**each) for each in error.secrets] if isinstance(error, SecretFound) else []
    return wire.OperationFailure.of(error, secrets=secrets)
