"""The beginning of a Codex session's file, for a list of sessions: its first line and its first prompt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clew.agents.adapter import SessionHead
from clew.agents.codex.location import earlier_files, session_of
from clew.agents.codex.session import prompt_text
from clew.agents.json_lines import decode

HEAD_BYTES = 256 * 1024  # how much is read of a file; half of it may be instructions


def session_head(path: Path) -> SessionHead | None:
    session_id = session_of(path) or path.stem[-36:]
    with (earlier_files(path) or [path])[0].open("rb") as file:
        lines = file.read(HEAD_BYTES).split(b"\n")
    meta = (decode(lines[0]) or {}).get("payload")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("id"), str):
        return None  # Codex does not accept it as a session either
    source = meta.get("source")
    if isinstance(source, Mapping) and "subagent" in source:
        return None
    work_dir = str(meta.get("cwd") or "")
    for line in lines[1:]:
        text = prompt_text(decode(line) or {}) if b'"user"' in line else None
        if text:
            return SessionHead(session_id, work_dir, text)
    return SessionHead(session_id, work_dir, "")
