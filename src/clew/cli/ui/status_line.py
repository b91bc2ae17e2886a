"""The line on a terminal that says what the agent is doing, and for how long.

It is drawn below whatever has been printed, and is erased before anything else is printed. rich draws it; rich is
imported in another thread while the agent starts, so that nobody waits for the import.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.cli.ui.formatting import harmless

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PER_SECOND = 8
ECHO_CELLS = 3


class StatusLine:
    """`preload`: imports what else the command will draw with, in the thread that imports rich."""

    def __init__(self, preload: Callable[[], None] = lambda: None) -> None:
        self._preload = preload
        self._doing = "starting"
        self._began = time.monotonic()
        self._shown = True
        self._retired = False
        self._live: Live | None = None
        self._loading: asyncio.Task[None] | None = None

    def count_from(self, began: float) -> None:
        """The clock of the line counts from `began`, a time of `time.monotonic()`."""
        self._began = began

    def start(self) -> None:
        self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        self.hide()
        if self._loading is not None:
            await self._loading
        self.hide()

    def show(self, doing: str | None = None) -> None:
        self._doing = doing or self._doing
        if self._retired:
            return
        self._shown = True
        if self._live is not None and not self._live.is_started:
            self._live.start()

    def hide(self) -> bool:
        """Erases the line. True: it was drawn."""
        self._shown = False
        if self._live is None or not self._live.is_started:
            return False
        self._live.stop()
        return True

    def retire(self) -> None:
        """Hides the line for good: `show` no longer draws it."""
        self._retired = True
        self.hide()

    async def _load(self) -> None:
        live = await asyncio.to_thread(self._make)
        if live is not None:
            self._live = live
            if self._shown:
                live.start()

    def _make(self) -> Live | None:
        from rich.console import Console
        from rich.live import Live

        from clew.cli.ui.safe_stream import unguarded

        console = Console(file=unguarded(sys.stderr))
        if not console.is_terminal or console.is_dumb_terminal:
            return None
        self._preload()
        return Live(
            console=console,
            get_renderable=self._line,
            refresh_per_second=PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _line(self) -> Text:
        from rich.text import Text

        elapsed = time.monotonic() - self._began
        frame = FRAMES[int(elapsed * PER_SECOND) % len(FRAMES)]
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{frame} ", style="cyan")
        line.append(f"{clock(elapsed)} ", style="dim")
        line.append(harmless(self._doing))
        if self._live is not None:  # leave room for ^C, which the terminal echoes: a line that wraps is not erased
            line.truncate(max(1, self._live.console.width - ECHO_CELLS), overflow="ellipsis")
        return line


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}" if whole >= 60 else f"{whole}s"
