"""The prompt of a chat: one that is edited in several lines, with history and completion, on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from clew.cli.chat.completion import PromptCompleter
from clew.cli.chat.prompt_history import PromptHistory
from clew.cli.ui.formatting import harmless, joined, one_line
from clew.cli.ui.safe_stream import unguarded

if TYPE_CHECKING:
    from clew.api.client import Client

NAME_CHARS = 24  # of a thread's name in the prompt
MENU_LINES = 6
STYLE = Style.from_dict({"thread": "bold", "bottom-toolbar": "noreverse dim", "bottom-toolbar.text": "noreverse dim"})


class ChatPrompt:
    """`name` and `about` are shown as they are at the next `read`. What they contain cannot move the cursor."""

    def __init__(self, client: Client, work_dir: str) -> None:
        self.name = ""
        self.about = ""
        self.completer = PromptCompleter(client, work_dir)
        self._home = client.home
        self._reading = False
        self._session: PromptSession[str] = PromptSession(
            history=PromptHistory(client.home, work_dir),
            completer=self.completer,
            complete_while_typing=True,
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, number, is_soft_wrap: " " * width,
            bottom_toolbar=self._toolbar,
            reserve_space_for_menu=MENU_LINES,
            enable_suspend=True,
            search_ignore_case=True,
            style=STYLE,
            # On a dumb terminal prompt_toolkit draws nothing, which it does only with an output of its own choice.
            output=None if is_dumb_terminal() else create_output(unguarded(sys.stdout)),
        )

    def go_to(self, work_dir: str) -> None:
        """The next prompt is typed in that directory."""
        if work_dir != self.completer.work_dir:
            self.completer.work_dir = work_dir
            history = PromptHistory(self._home, work_dir)
            self._session.history = self._session.default_buffer.history = history

    async def read(self, offered: str = "") -> str:
        """What the user typed. `offered` is there already, to be changed or sent.

        Raises KeyboardInterrupt for Ctrl-C and EOFError for Ctrl-D.
        """
        message: StyleAndTextTuples = [("class:thread", one_line(self.name, NAME_CHARS)), ("", "> ")]
        if is_dumb_terminal() and offered:  # prompt_toolkit shows only what is typed there
            message.append(("", harmless(offered)))
        self._reading = True
        try:
            return await self._session.prompt_async(message, default=offered, handle_sigint=False)
        finally:
            self._reading = False

    def interrupt(self) -> None:
        """As Ctrl-C, for a signal that another process sent."""
        if self._reading and not self._session.app.is_done:
            self._session.app.exit(exception=KeyboardInterrupt)

    def _toolbar(self) -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns
        return [("", one_line(joined(self.name, self.about, "/help"), max(1, columns - 1)))]


def _keys() -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # and not in the search of earlier prompts

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the completion is in the prompt already
        elif buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @keys.add("c-@", filter=typing)  # Ctrl-Space, or a Ctrl-D from before this prompt
    def _(event: KeyPressEvent) -> None:
        """Does nothing. It would begin a selection, in which typing has no effect."""

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
