"""The tools with which an agent reads threads: search, read, fork, compare.

A thread that the bounds do not allow is answered like one that does not exist.
"""

from __future__ import annotations

from typing import Annotated

from mcp.types import ToolAnnotations
from pydantic import Field, RootModel

from clew.api import excerpts
from clew.api.client import Client
from clew.api.wire import excerpts as wire
from clew.errors import NotFound
from clew.mcp.bounds import Bounds
from clew.mcp.tool_errors import as_tool_errors

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)

MAX_OFFSET = 900  # within the hits that a search looks at
ThreadName = Annotated[str, Field(min_length=1, max_length=200, description="the name of a thread")]


class ThreadTools:
    def __init__(self, client: Client, bounds: Bounds) -> None:
        self._client = client
        self._bounds = bounds

    async def search_threads(
        self,
        query: Annotated[str, Field(min_length=1, max_length=1_000, description="words that a turn must contain")],
        limit: Annotated[int, Field(ge=1, le=50, description="how many, the newest first")] = 20,
        offset: Annotated[int, Field(ge=0, le=MAX_OFFSET, description="skip this many first")] = 0,
    ) -> RootModel[wire.FoundTurns]:
        """Search what was said in earlier conversations with agents here. read_thread shows what is around a hit."""
        async with as_tool_errors():
            bounds = self._bounds
            found = await excerpts.search(
                self._client, query, roots=bounds.roots, allowed=bounds.allows, limit=limit, offset=offset
            )
            return RootModel[wire.FoundTurns](found)

    async def read_thread(
        self,
        thread: ThreadName,
        turn: Annotated[str | None, Field(max_length=200, description="read up to this turn, as of a hit")] = None,
        before: Annotated[int | None, Field(ge=0, le=2**53, description="read turns before this position")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="how many turns at most")] = 20,
    ) -> RootModel[wire.ReadThread]:
        """Read the last turns of a conversation, or those before a position. Long texts are cut in the middle."""
        async with as_tool_errors():
            [found, *_] = await self._allowed(thread)
            return RootModel[wire.ReadThread](
                await excerpts.read(self._client, found, up_to_turn=turn or None, before=before, limit=limit)
            )

    async def fork_thread(
        self,
        thread: ThreadName,
        at_round: Annotated[
            int | None, Field(ge=1, le=1_000_000, description="copy up to this prompt and its answer; default: all")
        ] = None,
    ) -> RootModel[wire.NewFork]:
        """Make a new thread with the history of another one, to continue it in another way. ask continues the fork."""
        async with as_tool_errors():
            [found, *_] = await self._allowed(thread)
            return RootModel[wire.NewFork](await excerpts.fork(self._client, found, at_round=at_round))

    async def compare_threads(self, a: ThreadName, b: ThreadName) -> RootModel[wire.ComparisonExcerpt]:
        """Compare two conversations turn by turn, and the files that their agents wrote to. For forks and replays."""
        async with as_tool_errors():
            for name in (a, b):
                await self._allowed(name)
            return RootModel[wire.ComparisonExcerpt](await excerpts.compared(self._client, a, b))

    async def _allowed(self, name: str) -> list[str]:
        """The ids of the thread, or of both threads of a pair, and of the threads that are forked with it.

        Raises the same NotFound if there is no such thread and if one of them is outside the bounds."""
        try:
            found = [each.record for each in await self._client.together(name)]
        except NotFound:
            found = []
        if not found or not all(map(self._bounds.allows, found)):
            raise NotFound(f"There is no thread {name!r:.200} here.", hint="list_threads and search_threads show them.")
        return [each.id for each in found]
