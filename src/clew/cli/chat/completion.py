"""What the prompt completes: `@` to a file below the work directory, `/` at the beginning to a command."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from clew.api.work_files import files_below
from clew.cli.ui.formatting import harmless, one_line

if TYPE_CHECKING:
    from clew.cli.chat.commands import Offered

SHOWN = 40  # completions at once; who wants another types one letter more
ABOUT_CHARS = 60
FRESH_S = 5.0  # how long a list of files is used before it is read again
MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
COMMAND = re.compile(r"/(\S*)$")


class PromptCompleter(Completer):
    def __init__(self) -> None:
        self.work_dir = os.getcwd()  # noqa: PTH109 - the loop sets the thread's directory
        self.commands: Sequence[Offered] = ()
        self._listed: tuple[str, float, list[str]] | None = None  # the directory, when, its files
        self._one_listing = asyncio.Lock()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Those that need no list of files. prompt_toolkit calls the asynchronous method where there is a loop."""
        typed = COMMAND.fullmatch(document.text_before_cursor)
        return self._matching_commands(typed[1]) if typed is not None else ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for completion in self.get_completions(document, complete_event):
            yield completion
        mention = MENTION.search(document.text_before_cursor)
        if mention is not None:
            for path in best_matches(mention[1], await self._files()):
                yield Completion(path, start_position=-len(mention[1]))

    def _matching_commands(self, typed: str) -> Iterator[Completion]:
        for each in self.commands:
            if each.name.startswith(typed) and harmless(each.name) == each.name:
                about = one_line(each.about, ABOUT_CHARS)
                yield Completion(each.name, start_position=-len(typed), display=f"/{each.name}", display_meta=about)

    async def _files(self) -> list[str]:
        async with self._one_listing:
            now = time.monotonic()
            if self._listed is None or self._listed[0] != self.work_dir or now - self._listed[1] > FRESH_S:
                found = await files_below(self.work_dir, os.environ)
                self._listed = self.work_dir, now, [path for path in found if _can_be_typed(path)]
            return self._listed[2]


def best_matches(typed: str, paths: Iterable[str]) -> list[str]:
    """The paths that begin with what was typed, then those whose file name does, then those that contain it."""
    wanted = typed.lower()
    ranked: tuple[list[str], list[str], list[str]] = ([], [], [])
    for path in paths:
        lower = path.lower()
        if wanted in lower:
            name = lower.rpartition("/")[2]
            ranked[0 if lower.startswith(wanted) else 1 if name.startswith(wanted) else 2].append(path)
    return [path for rank in ranked for path in sorted(rank, key=lambda path: (path.count("/"), path))][:SHOWN]


def _can_be_typed(path: str) -> bool:
    """Not a name with spaces, which would end the mention, nor one with characters that a terminal obeys."""
    return harmless(path) == path and not re.search(r"\s", path)
