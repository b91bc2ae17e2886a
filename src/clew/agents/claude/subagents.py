"""The subagents of a session: what they used and called.

The CLI keeps them in a folder beside the session's file, `SESSION/subagents`: each has a file `agent-ID.jsonl` of its
messages and a file `agent-ID.meta.json`, which names the call that started it. A subagent that was started by another
one is in the same folder, too.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from clew.agents.adapter import SubAgent
from clew.agents.claude.entries import SYNTHETIC, Entries
from clew.agents.claude.transcript import Row, decode_line
from clew.core.costs.usage import NO_USAGE

MAX_BYTES = 200_000_000
MAX_META_BYTES = 1_000_000


class _Meta(msgspec.Struct, rename="camel"):
    tool_use_id: Any = None
    agent_type: Any = None
    description: Any = None


def read_subagents(path: Path, call_ids: set[str]) -> tuple[SubAgent, ...]:
    """The subagents that these calls of the session started, and those that they started in turn, which count as
    started by the same call. Reads the disk."""
    if not call_ids:
        return ()
    waiting = dict(_metas(path.with_suffix("") / "subagents"))
    found: list[SubAgent] = []
    own_call = {call_id: call_id for call_id in call_ids}  # by any call: the session's own call that led to it
    while wanted := [file for file, meta in waiting.items() if meta.tool_use_id in own_call]:
        for file in wanted:
            meta = waiting.pop(file)
            agent = _subagent(file, meta, own_call[str(meta.tool_use_id)])
            if agent is not None:
                found.append(agent)
                own_call |= {call.tool_id: agent.tool_id for call in agent.calls}
    return tuple(found)


def _metas(folder: Path) -> Iterator[tuple[Path, _Meta]]:
    """The files of the subagents with what is known about each. They are many, and may be large: only those that are
    wanted are read."""
    try:
        paths = sorted(folder.glob("agent-*.jsonl"))
    except OSError:
        return
    for path in paths:
        about = path.with_suffix(".meta.json")
        try:
            if _is_plain(path, MAX_BYTES) and _is_plain(about, MAX_META_BYTES):
                yield path, msgspec.json.decode(about.read_bytes(), type=_Meta)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue


def _is_plain(path: Path, max_bytes: int) -> bool:
    """Whether it is a file, not a link or a pipe, and not too large."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size <= max_bytes


def _subagent(path: Path, meta: _Meta, tool_id: str) -> SubAgent | None:
    entries = Entries()
    models: dict[str, None] = {}
    try:
        file = path.open("rb")
    except OSError:
        return None
    with file:
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
    name = str(meta.description or meta.agent_type or "")
    return SubAgent(tool_id, name, sum((entry.usage for entry in made), NO_USAGE), tuple(models), calls)
