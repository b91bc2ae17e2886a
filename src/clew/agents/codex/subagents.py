"""The subagents of a session: what they used and called.

Codex keeps each in a session file of its own. Its first line names the session that started it (`parent_thread_id`),
and the call that started it is noted with its id (`calls`). The parent's token counts do not include it. A subagent
that was given the conversation (`forked_from_id`) has a copy of the messages in its file; its own part begins with the
first line that names its own id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clew.agents.adapter import SessionView, SubAgent
from clew.agents.codex.location import file_named, home_of, session_of
from clew.agents.codex.origins import is_copy, origins
from clew.agents.json_lines import decode
from clew.core.costs.usage import NO_USAGE
from clew.core.record import Record

MAX_BYTES = 200_000_000  # of a file that is read

Started = Mapping[str, str]  # the id of a subagent for each call that started one
Read = Callable[[Path, int], tuple[SessionView, Started]]  # reads a file from that byte on


class _Found(Record):
    """The file of a subagent."""

    path: Path
    name: str
    begin: int  # the byte where its own part begins


def read_subagents(path: Path, started: Started, read: Read) -> tuple[SubAgent, ...]:
    """The subagents that these calls of the session started, and those that they started in turn. Reads the disk.

    The latter belong to the session's own call, too: no other call is part of the session.
    """
    home = home_of(path)
    if not started or home is None:
        return ()
    parents = {session_of(each) for each in (path, *(origin.path for origin in origins(path) or ()))}
    wanted = [(tool_id, agent_id, parents) for tool_id, agent_id in started.items()]
    seen = {*parents}
    made: list[SubAgent] = []
    for tool_id, agent_id, its_parents in wanted:
        if agent_id in seen:
            continue
        seen.add(agent_id)
        try:
            found = _find(home, agent_id, its_parents)
            if found is None:
                continue
            view, more = read(found.path, found.begin)
        except OSError:
            continue
        made.append(_subagent(tool_id, found.name, view))
        wanted += [(tool_id, each, {agent_id}) for each in more.values()]
    return tuple(made)


def _find(home: Path, agent_id: str, parents: set[str | None]) -> _Found | None:
    """The subagent's file. None: there is none, or it is not the file of a subagent that one of these started."""
    path = file_named(str(home), agent_id)
    if path is None or not path.resolve().is_relative_to((home / "sessions").resolve()):
        return None
    if path.stat().st_size > MAX_BYTES:
        return None
    with path.open("rb") as file:
        first = file.readline()
        meta = (decode(first) or {}).get("payload")
        if not isinstance(meta, Mapping) or meta.get("id") != agent_id or meta.get("parent_thread_id") not in parents:
            return None
        if not is_copy(first):
            return _Found(path, _name(meta), 0)
        begin, own_id = len(first), agent_id.encode()
        for line in file:
            if own_id in line and _thread_of(line) == agent_id:
                return _Found(path, _name(meta), begin)
            begin += len(line)
    return None  # it has not begun


def _thread_of(line: bytes) -> Any:
    payload = (decode(line) or {}).get("payload")
    return payload.get("thread_id") if isinstance(payload, Mapping) else None


def _name(meta: Mapping[str, Any]) -> str:
    return str(meta.get("agent_path") or meta.get("agent_role") or meta.get("agent_nickname") or "")


def _subagent(tool_id: str, name: str, view: SessionView) -> SubAgent:
    models = dict.fromkeys(entry.model for entry in view.entries if entry.model)
    calls = tuple(call for entry in view.entries for call in entry.calls)
    return SubAgent(tool_id, name, sum((entry.usage for entry in view.entries), NO_USAGE), tuple(models), calls)
