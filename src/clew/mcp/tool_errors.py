"""How a tool fails: one line that tells the model what is wrong and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.mcpserver.exceptions import ToolError

from clew.errors import ClewError


@asynccontextmanager
async def as_tool_errors() -> AsyncIterator[None]:
    """Raises our errors as tool errors."""
    try:
        yield
    except ClewError as error:
        raise ToolError(" ".join(part for part in (error.message, error.hint) if part)) from error
