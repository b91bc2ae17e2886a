"""The progress of a long call: shown if it takes more than a second, and Ctrl-C cancels the call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from clew.cli.ui.formatting import harmless
from clew.cli.ui.printing import note

if TYPE_CHECKING:
    import asyncio

    from clew.api.operations import Operation, OperationEvent

T = TypeVar("T")
R = TypeVar("R")

QUIET_S = 1.0  # work that takes no longer is not shown
EVERY_S = 5.0  # how often a line is printed if stderr is not a terminal


class Progress:
    """Shows what is being done, if it takes more than a second: a line that is redrawn, or one every few seconds."""

    def __init__(self) -> None:
        self._began_at = self._noted_at = time.monotonic()
        self._words = ""
        self._watch: asyncio.Task[None] | None = None
        self._status: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from clew.cli.ui.status_line import StatusLine

            self._status = StatusLine()
            self._status.hide()

    async def __aenter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
            self._status.hide()
        import asyncio

        self._watch = asyncio.create_task(self._watched())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._status is not None:
            await self._status.close()

    def say(self, words: str) -> None:
        self._words = harmless(words)
        self._show()

    def show(self, event: OperationEvent) -> None:
        """For `followed`."""
        if event.kind == "progress":
            self.say(event.message)

    def asking(self, ask: Callable[[], T]) -> T:
        """Hides the line while the user types a passphrase. A note replaces the line while the passphrase is tried."""
        if self._status is not None:
            self._status.hide()
        given = ask()
        if self._status is not None:
            note("trying the passphrase")
        self._began_at = self._noted_at = time.monotonic()
        return given

    async def _watched(self) -> None:
        """Redraws the line even if nothing has changed, so that the user sees that something is being done."""
        import asyncio

        while True:
            await asyncio.sleep(QUIET_S)
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if not self._words or now - self._began_at < QUIET_S:
            return
        if self._status is not None:
            self._status.show(self._words)
        elif now - self._noted_at > EVERY_S:
            self._noted_at = now
            note(self._words)


async def followed(operation: Operation[R], show: Callable[[OperationEvent], None]) -> R:
    """Shows every event of the operation, and returns its result.

    Ctrl-C cancels the operation, and waits until it has stopped. If it was too late for that, the result is returned,
    and `is_interrupted` says that nothing else should be begun.
    """
    import asyncio

    async def show_all() -> None:
        async for event in operation:
            show(event)

    showing = asyncio.ensure_future(show_all())
    try:
        await asyncio.shield(showing)
    except asyncio.CancelledError:
        operation.cancel()
        await showing
        if operation.status == "cancelled":
            raise
    return await operation


def is_interrupted() -> bool:
    """Whether Ctrl-C was pressed during an operation that could not stop any more."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def with_progress(operation: Operation[R]) -> R:
    """The result of the operation. What it does is shown if it takes more than a second."""
    async with Progress() as progress:
        return await followed(operation, progress.show)
