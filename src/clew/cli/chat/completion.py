"""What the prompt completes: `@` to a path in the work directory, `/` at the beginning to a command or a skill."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from clew.cli.chat.commands import OWN
from clew.cli.ui.formatting import harmless, joined, one_line
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.api.client import Client

SHOWN = 40  # paths at once; who wants another types one letter more
ABOUT_CHARS = 60
MENTION = re.compile(r'(?<!\S)@("?)([^\s"@][^\s"]*|)$')
COMMAND = re.compile(r"/([\w.:-]*)")


class PromptCompleter(Completer):
    def __init__(self, client: Client, work_dir: str) -> None:
        self._client = client
        self.work_dir = work_dir
        self.agent: str | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """None without the loop: prompt_toolkit calls the asynchronous method where there is one."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        typed = document.text_before_cursor
        try:
            if (command := COMMAND.fullmatch(typed)) is not None:
                found = await self._commands(command[1])
            elif (mention := MENTION.search(typed)) is not None:
                found = await self._paths(mention[1], mention[2])
            else:
                return
        except ClewError:  # a prompt is typed without completion, too
            return
        for completion in found:
            yield completion

    async def _commands(self, typed: str) -> list[Completion]:
        """The chat's own come first; then those that reach the agent."""
        own = {each.name for each in OWN}
        others = await self._client.commands(self.work_dir, agent=self.agent)
        listed = [(each.name, each.about) for each in OWN]
        listed += [(each.name, joined(each.argument_hint, each.description)) for each in others if each.name not in own]
        return [
            Completion(name, start_position=-len(typed), display=f"/{name}", display_meta=one_line(about, ABOUT_CHARS))
            for name, about in listed
            if name.startswith(typed) and harmless(name) == name
        ]

    async def _paths(self, quote: str, typed: str) -> list[Completion]:
        """A path with a blank is put between quotes, as a mention needs it."""
        paths = await self._client.files(self.work_dir, typed, limit=SHOWN)
        return [
            Completion(f'"{path}"' if quote or " " in path else path, start_position=-len(quote + typed), display=path)
            for path in paths
            if harmless(path) == path and '"' not in path and not re.search(r"[^\S ]", path)
        ]
