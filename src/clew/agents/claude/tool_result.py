"""What a tool's result says: its output, and whether the tool ran. The stream and the session's file agree on this.

A result comes with a note about permissions, in the stream as `tool_result_meta`, in the file as fields of the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clew.agents.adapter import OUTPUT_CHARS
from clew.core.record import Record

# The CLI puts this in place of a tool's output. It counts only in a result without a note: a tool may print it too.
NOT_CALLED = "<tool_use_error>"
MCP_TOOL = "mcp__"  # the prefix of MCP tools: an MCP server may use NOT_CALLED for its own errors
# The tool exists, but the thread's permissions or a rule of the user disabled it.
DISABLED = re.compile(r"<tool_use_error>Error: No such tool available: (\S+)\. \1 is disabled\b")


class ToolResult(Record):
    """A `tool_result` block, judged."""

    tool_id: str
    output: str  # only its beginning
    is_error: bool
    ran: bool  # False: it was declined or does not exist, so nothing happened
    declined: bool


def read_tool_result(block: Mapping[str, Any], note: Mapping[str, Any], tool: str) -> ToolResult:
    """`note` has the stream's names; it is empty if the result has none. Raises KeyError if the block names no call."""
    output = _output(block.get("content"))
    is_error = bool(block.get("is_error"))
    refused = _is_refused(note)
    unknown = is_error and not note and output.startswith(NOT_CALLED) and not tool.startswith(MCP_TOOL)
    declined = refused or (unknown and DISABLED.match(output) is not None)
    ran = not (refused or unknown)
    return ToolResult(str(block["tool_use_id"]), output[:OUTPUT_CHARS], is_error, ran, declined)


def _is_refused(note: Mapping[str, Any]) -> bool:
    """Whether a person or a rule refused the tool before it ran. A tool that is stopped while it runs is marked
    `user-rejected` too, but without a decision: it may have run in part or in full.
    """
    decision = note.get("permission_decision")
    if isinstance(decision, Mapping):
        return decision.get("decision") == "reject"
    return note.get("non_execution_kind") == "permission-rule"


def _output(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        str(block.get("text", "")) if block.get("type") == "text" else f"[{block.get('type')}]"
        for block in content
        if isinstance(block, dict)
    )
