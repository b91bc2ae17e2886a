"""The subagents of a session: what they used and called.

The CLI keeps them in a folder beside the session's file, `SESSION/subagents`: each has a file `agent-ID.jsonl` of its
messages and a file `agent-ID.meta.json`, which names the call that started it. A subagent that was started by another
one is in the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from clew.agents.adapter import SubAgent
from clew.agents.claude.entries import SYNTHETIC, Entries
from clew.agents.claude.transcript import Row, decode_line
from clew.core.costs.usage import NO_USAGE


class _Meta(msgspec.Struct, rename="camel"):
    tool_use_id: Any = None
    agent_type: Any = None
    description: Any = None


def read_subagents(path: Path, call_ids: set[str]) -> tuple[SubAgent, ...]:
    """The subagents that these calls of the session started, and those that they started in turn. Reads the disk."""
    if not call_ids:
        return ()
    found = list(_subagents(path.with_suffix("") / "subagents"))
    wanted: list[SubAgent] = []
    known = set(call_ids)
    while more := [agent for agent in found if agent.tool_id in known and agent not in wanted]:
        wanted += more
        known |= {call.tool_id for agent in more for call in agent.calls}
    return tuple(wanted)


def _subagents(folder: Path) -> Iterator[SubAgent]:
    try:
        paths = sorted(folder.glob("agent-*.jsonl"))
    except OSError:
        return
    for path in paths:
        try:
            meta = msgspec.json.decode(path.with_suffix(".meta.json").read_bytes(), type=_Meta)
            if isinstance(meta.tool_use_id, str):
                yield _subagent(path, meta.tool_use_id, str(meta.description or meta.agent_type or ""))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue


def _subagent(path: Path, tool_id: str, name: str) -> SubAgent:
    entries = Entries()
    models: dict[str, None] = {}
    with path.open("rb") as file:
        for place, raw in enumerate(file):
            line = decode_line(raw)
            if line is None or line.uuid is None or line.message is None or line.type not in ("user", "assistant"):
                continue
            message_id = line.message.id if isinstance(line.message.id, str) else None
            entries.add(Row(line.uuid, None, line.type, message_id, False, place, 0, 0), line)
            if isinstance(line.message.model, str) and line.message.model != SYNTHETIC:
                models[line.message.model] = None
    made = entries.finished(0)
    calls = tuple(call for entry in made for call in entry.calls)
    return SubAgent(tool_id, name, sum((entry.usage for entry in made), NO_USAGE), tuple(models), calls)
