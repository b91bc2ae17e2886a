"""A thread in its agent's own terminal interface, as the surface that starts the agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clew.core.runs.options import TurnOptions
from clew.core.thread import Thread
from clew.engine.opening import HeldThread, Opening
from clew.engine.request import TurnRequest
from clew.errors import Conflict

if TYPE_CHECKING:
    from clew.hosts.chat.chat import Chat, Synced


class OpenTerminal:
    """A thread that is held for a terminal. The caller starts `opening.command`, and says when it began and ended."""

    def __init__(self, chat: Chat, thread: Thread, held: HeldThread) -> None:
        self.opening: Opening = held.opening
        self.environ: Mapping[str, str] = held.environ  # the user's own, in which the agent runs
        self._chat = chat
        self._thread = thread
        self._held = held

    async def began(self, pid: int) -> None:
        """The agent's process: other processes see that the thread is in use as long as it lives."""
        await self._held.began(pid)

    async def ended(self) -> Synced | None:
        """Brings in what was said, when the process has ended. None: another process has done it, or does it now.

        Raises UsageError if `follow_moves` is false: then nothing comes in.
        """
        await self._held.ended()
        try:
            return await self._chat.sync(self._thread, held=self._held)
        except Conflict:
            return None


def open_request(thread: Thread, agent: str | None, model: str | None) -> TurnRequest:
    """The turn whose decision names the session."""
    return TurnRequest(thread, "?", TurnOptions(agent=agent, model=model), standing=thread.standing)
