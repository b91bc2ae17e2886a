"""Reading Claude's own session files. `transcript` finds the active chain, `entries` says what its lines mean."""

from __future__ import annotations

from pathlib import Path

from clew.agents.adapter import SessionHead, SessionView
from clew.agents.claude.entries import Entries, first_prompt
from clew.agents.claude.numbers import number
from clew.agents.claude.subagents import read_subagents
from clew.agents.claude.transcript import ROW_TYPES, Transcript, decode_line
from clew.agents.json_lines import complete_size
from clew.core.session import BEFORE_FIRST

HEAD_BYTES = 256 * 1024  # how much is read of a session that is only listed


def read_session(path: Path, since: int = 0) -> SessionView:
    """The file is only appended to, so the lines after byte `since` show what a turn added.

    They usually also show that the chain continues where it ended; if not, all lines are scanned.
    """
    with path.open("rb") as file:
        size = complete_size(file)
        start = since if since <= size else 0
        added = Transcript(file, start, size)
        transcript = Transcript(file, 0, size) if added.needs_whole_file() else added
        leaf = transcript.leaf()
        whole_chain = transcript.chain(leaf)
        chain = [row for row in whole_chain if row.offset >= start]
        entries = Entries()
        compacted_at, compacted_after, is_sound = None, 0, transcript.is_sound
        for row in chain:
            if row.is_boundary:
                compacted_at, compacted_after = row.uuid, len(entries)
            line = transcript.line(row) if row.is_message else None
            if line is not None:
                entries.add(row, line)
            elif row.is_message:
                is_sound = False
        beside = Entries()
        for row in transcript.beside(whole_chain, start):
            line = transcript.line(row) if row.is_message else None
            if line is not None:
                beside.add(row, line)
    parent = None
    if chain and start > 0:
        parent = whole_chain[-len(chain) - 1].uuid if len(whole_chain) > len(chain) else chain[0].parent
    return SessionView(
        entries.finished(compacted_after, transcript.preserved),
        leaf.uuid if leaf is not None else BEFORE_FIRST if transcript.is_cleared else None,
        size,
        entries.model,
        tool_called=added.tool_called,
        chain=tuple(row.uuid for row in chain),
        parent=parent,
        compacted_at=compacted_at,
        compacted_after=compacted_after,
        cost_total_usd=number(added.cost_usd),
        cost_offset=added.cost_offset,
        subagents=read_subagents(path, entries.call_ids | beside.call_ids),
        beside=beside.finished(0),
        is_sound=is_sound,
    )


def session_head(path: Path) -> SessionHead | None:
    with path.open("rb") as file:
        raw = file.read(HEAD_BYTES)
    work_dir = ""
    for line in map(decode_line, raw.splitlines()):
        if line is None or line.uuid is None or line.type not in ROW_TYPES:
            continue
        if line.is_sidechain:
            return None  # it is the file of a subagent
        work_dir = work_dir or (line.cwd if isinstance(line.cwd, str) else "")
        text = first_prompt(line) if line.type == "user" else ""
        if text:
            return SessionHead(path.stem, work_dir, text)
    return SessionHead(path.stem, work_dir, "") if work_dir else None
