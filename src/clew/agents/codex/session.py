"""Reading Codex's own session files ("rollouts").

A file is JSON lines that are only ever appended to. `response_item` lines are what the model is shown, in order; the
rest is bookkeeping. `content_item_kinds` tells the prompts of a person or a host from Codex's own notes. Invalid lines
are skipped, as the CLI does. A copy (`exec fork`) names the session and the line that it continues from, and holds only
what came after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.agents.adapter import SessionEntry, SessionView
from clew.agents.codex.command import prompt_id
from clew.agents.codex.location import session_file
from clew.agents.codex.tokens import usage_from
from clew.agents.json_lines import decode
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.record import replace

TAIL_BYTES = 128 * 1024
MAX_FORKS = 100  # how many levels of copies of copies are followed

_USED = frozenset({"response_item", "event_msg", "turn_context", "compacted"})
# How Codex's own notes in the role of the user begin, for versions that do not mark them.
CODEX_NOTE_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<skill>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<user_shell_command>",
    "<subagent_notification>",
)


class _Head(msgspec.Struct):
    type: str = ""


_HEAD = msgspec.json.Decoder(_Head)


class _Session:
    """The part of a session that was read so far."""

    def __init__(self) -> None:
        self.entries: list[SessionEntry] = []
        self.last: str | None = None
        self.model = ""
        self.tool_called = False

    def copy(self, raw: bytes, until: int | None) -> None:
        """Reads the session that this one is a copy of, up to line `until`. Offset -1: the entry is not in our file."""
        for _, value in _lines(raw, 0):
            if not _is_before(value, until):
                break
            self._take(value, -1)
        self.tool_called = False  # only calls after the fork count

    def read(self, raw: bytes, start: int) -> None:
        for offset, value in _lines(raw, start):
            self._take(value, offset)

    def _take(self, value: Mapping[str, Any], offset: int) -> None:
        payload, stamp = value.get("payload"), str(value.get("timestamp"))
        if not isinstance(payload, Mapping):
            return
        match value.get("type"):
            case "turn_context":
                self.model = str(payload.get("model") or self.model)
            case "event_msg":
                self._event(payload, stamp)
            case "compacted":
                self._compacted(str(payload.get("message") or ""))
            case "response_item":
                self._item(payload, offset, str(payload.get("id") or stamp))

    def _event(self, payload: Mapping[str, Any], stamp: str) -> None:
        match payload.get("type"):
            case "task_complete" if not payload.get("error"):
                if self.entries and self.entries[-1].role is Role.ASSISTANT:
                    self.entries[-1] = replace(self.entries[-1], complete=True)
            case "thread_rolled_back":  # somebody removed the last turns
                for _ in range(int(payload.get("num_turns") or 0)):
                    prompts = [n for n, entry in enumerate(self.entries) if entry.is_prompt]
                    del self.entries[prompts[-1] if prompts else 0 :]
                self.last = stamp

    def _compacted(self, summary: str) -> None:
        """Removes the summary that Codex asked the model for: in the file it looks like an answer."""
        if self.entries and self.entries[-1].role is Role.ASSISTANT and summary.endswith(self.entries[-1].text):
            del self.entries[-1]

    def _item(self, payload: Mapping[str, Any], offset: int, own_id: str) -> None:
        role, text = payload.get("role"), text_of(payload)
        if payload.get("type") != "message":
            self.tool_called = self.tool_called or str(payload.get("type")).endswith("_call")
        elif role == "assistant":
            self.entries.append(
                SessionEntry(own_id, Role.ASSISTANT, text, is_prompt=False, complete=False, offset=offset)
            )
        elif role == "user":
            asks = is_prompt(payload, text)
            entry_id = prompt_id(text) if asks else own_id
            self.entries.append(SessionEntry(entry_id, Role.USER, text, is_prompt=asks, offset=offset))
        self.last = own_id


def read_session(path: Path, since: int = 0) -> SessionView:
    """The file is only appended to, so the lines after byte `since` show what a turn added.

    A copy that is read from its start begins with the entries of its origin. If the origin is gone, the copy counts as
    empty, because the CLI cannot continue it either.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = file.seek(since if since <= size else 0)
        raw = file.read()
    session = _Session()
    is_copy = start == 0 and _forked_from(raw.partition(b"\n")[0]) is not None
    if is_copy:
        earlier = _origins(path)
        if earlier is None:
            return SessionView((), None, size, is_whole=False)
        for origin, until in earlier:
            session.copy(origin.read_bytes(), until)
    session.read(raw, start)
    return SessionView(tuple(session.entries), session.last, size, session.model, session.tool_called, not is_copy)


def is_bookkeeping(line: Mapping[str, Any]) -> bool:
    """Whether the line is a count of tokens. Any other belongs to a turn, or may change what the model is shown."""
    payload = line.get("payload")
    if line.get("type") != "event_msg":
        return line.get("type") == "token_usage_record"
    return isinstance(payload, Mapping) and payload.get("type") == "token_count"


def _origins(path: Path) -> list[tuple[Path, int | None]] | None:
    """The files that a copy continues from, the oldest first, each with the line where it ends. None: one is gone."""
    found: list[tuple[Path, int | None]] = []
    for _ in range(MAX_FORKS):
        with path.open("rb") as file:
            if _forked_from(file.readline()) is None:
                return found[::-1]
        origin = _origin(path)
        if origin is None:
            return None
        found.append(origin)
        path = origin[0]
    return None


def origin_files(path: Path) -> tuple[tuple[Path, int], ...]:
    """The files that hold the beginning of a copy, each with the byte where it ends."""
    return tuple((origin, _end_of(origin, until)) for origin, until in _origins(path) or ())


def _end_of(path: Path, until: int | None) -> int:
    """The byte where the line with that ordinal begins, or where the file ends."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            if until is not None and not _is_before(decode(line) or {}, until):
                break
            end += len(line)
    return end


def prompt_text(line: Mapping[str, Any]) -> str | None:
    """The text of a line that is a prompt; None for any other line."""
    payload = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(payload, Mapping) or payload.get("role") != "user":
        return None
    text = text_of(payload)
    return text if is_prompt(payload, text) else None


def session_usage(path: Path) -> Usage:
    """The running total from which the CLI will continue: the last count in the file, or in its origin's file."""
    until: int | None = None
    for _ in range(MAX_FORKS):
        found = _last_total(path, until)
        origin = _origin(path) if found is None else None
        if origin is None:
            return found or NO_USAGE
        path, until = origin
    return NO_USAGE


def _last_total(path: Path, until: int | None) -> Usage | None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        for start in (max(0, size - TAIL_BYTES), 0):
            file.seek(start)
            for line in reversed(file.read().split(b"\n")):
                found = _total(line, until) if b'"token_count"' in line else None
                if found is not None:
                    return found
            if start == 0:
                break
    return None


def _origin(path: Path) -> tuple[Path, int | None] | None:
    """The file that a copy continues from, and the line where it ends: its own file has only what came after."""
    with path.open("rb") as file:
        forked = _forked_from(file.readline())
    home = next((folder.parent for folder in path.parents if folder.name == "sessions"), None)
    if forked is None or home is None:
        return None
    found = session_file(str(home), forked[0])
    return (found, forked[1]) if found is not None and found != path else None


def _forked_from(line: bytes) -> tuple[str, int | None] | None:
    """The session that a copy's first line names, and the line up to which it was copied."""
    payload = (decode(line) or {}).get("payload")
    origin = payload.get("forked_from_id") if isinstance(payload, Mapping) else None
    if not isinstance(payload, Mapping) or not origin:
        return None
    until = payload.get("forked_from_ordinal_exclusive")
    return str(origin), until if isinstance(until, int) else None


def _total(line: bytes, until: int | None) -> Usage | None:
    value = decode(line) or {}
    payload = value.get("payload")
    if not isinstance(payload, Mapping) or payload.get("type") != "token_count" or not _is_before(value, until):
        return None
    info = payload.get("info")
    total = info.get("total_token_usage") if isinstance(info, Mapping) else None
    return usage_from(total) if isinstance(total, Mapping) else None


def _lines(raw: bytes, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line of a used type, with its offset in the file."""
    offset = start
    for line in raw.split(b"\n"):
        if line and _kind(line) in _USED:
            value = decode(line)
            if value is not None:
                yield offset, value
        offset += len(line) + 1


def _kind(line: bytes) -> str:
    """The line's type, without decoding the rest: half of a file may be instructions and environment snapshots."""
    try:
        return _HEAD.decode(line).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return str((decode(line) or {}).get("type"))  # lone surrogates and the like


def is_prompt(payload: Mapping[str, Any], text: str) -> bool:
    note = payload.get("internal_chat_message_metadata_passthrough")
    kinds = note.get("content_item_kinds") if isinstance(note, Mapping) else None
    if isinstance(kinds, list) and kinds:
        return any(str(kind).startswith("user.") for kind in kinds)
    return not text.lstrip().startswith(CODEX_NOTE_PREFIXES)


def text_of(payload: Mapping[str, Any]) -> str:
    content = payload.get("content")
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))


def _is_before(line: Mapping[str, Any], until: int | None) -> bool:
    """A copy continues from the lines of its origin before the ordinal `until`; None: from all of them."""
    ordinal = line.get("ordinal")
    return until is None or not isinstance(ordinal, int) or ordinal < until
