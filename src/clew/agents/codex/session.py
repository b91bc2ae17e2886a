"""Reading Codex's own session files ("rollouts").

A file is JSON lines that are only ever appended to. `response_item` lines are what the model is shown, in order: they
are the session's chain, together with the `compacted` lines that replace what is above them. The rest is bookkeeping.
`content_item_kinds` tells the prompts of a person or a host from Codex's own notes. A turn is what stands between
`task_started` and `task_complete` or `turn_aborted`; its id is what `thread/fork` accepts as the end of a copy.
`thread_rolled_back` removes the last turns from the chain. Invalid lines are skipped, as the CLI does.

A model's response is one or more `response_item` lines. Its calls belong to its last message; if it has no message,
they are an entry without text. `token_usage_record` counts the tokens of one response; `token_count` repeats the last
count from time to time, and is used only for files that have no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from clew.agents.adapter import UUID, SessionEntry, SessionView
from clew.agents.codex import calls
from clew.agents.codex.command import prompt_id
from clew.agents.codex.origins import is_before, is_copy, origins
from clew.agents.codex.subagents import Started, read_subagents
from clew.agents.codex.tokens import TAIL_BYTES, usage_from
from clew.agents.json_lines import complete_size, decode
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.record import replace

_ON_CHAIN = frozenset({"response_item", "compacted"})
_USED = _ON_CHAIN | {"event_msg", "turn_context", "token_usage_record", "session_meta"}
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
_IMAGE = "input_image"
_BEFORE_IMAGE, _AFTER_IMAGE = "<image name=", "</image>"


class _Head(msgspec.Struct):
    type: str = ""


_HEAD = msgspec.json.Decoder(_Head)


class _Draft:
    """An entry, while the file is read: what follows it may complete it."""

    def __init__(self, entry_id: str, role: Role, text: str, offset: int, at: float | None, place: int) -> None:
        self.id = entry_id
        self.role = role
        self.text = text
        self.offset = offset
        self.at = at
        self.place = place  # of its line on the chain
        self.is_prompt = False
        self.complete = role is Role.USER
        self.model = ""
        self.usage: Usage = NO_USAGE
        self.calls: list[calls.ToolCall] = []
        self.interrupted = False
        self.end_id: str | None = None
        self.images = 0

    def finished(self) -> SessionEntry:
        return SessionEntry(
            id=self.id,
            role=self.role,
            text=self.text,
            is_prompt=self.is_prompt,
            complete=self.complete,
            offset=self.offset,
            place=self.place,
            at=self.at,
            model=self.model,
            usage=self.usage,
            calls=tuple(call.finished() for call in self.calls),
            interrupted=self.interrupted,
            end_id=self.end_id,
            images=self.images,
        )


class _Session:
    """The part of a session that was read so far."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.chain: list[str] = []
        self.compactions: list[tuple[int, int]] = []  # each: its place on the chain, the number of entries before it
        self.model = ""
        self.tool_called = False
        self.removed_earlier = False  # turns were removed that began before the part that was read
        self.is_sound = True  # False: a line repeats the id of another, or the file's first line: Codex writes neither
        self._ids: set[str] = set()
        self._work_dir = ""
        self._turn_from = 0  # how many entries were there when the current turn began
        self._turn_is_open = False
        self._response: _Draft | None = None  # the first entry of a response whose tokens were not counted yet
        self._last_of_response: _Draft | None = None  # a call that follows belongs to it
        self._uncounted: Usage = NO_USAGE  # of a summary, which is not an entry: part of the turn's next response
        self._calls: dict[str, calls.ToolCall] = {}

    def copy(self, raw: bytes, until: int | None) -> None:
        """Reads the session that this one is a copy of, up to line `until`. Offset -1: the entry is not in our file."""
        for _, value in _lines(raw, 0):
            if not is_before(value, until):
                break
            self._take(value, -1)
        self.tool_called = False  # only calls after the fork count

    def read(self, raw: bytes, start: int) -> None:
        for offset, value in _lines(raw, start):
            self._take(value, offset)

    @property
    def started(self) -> Started:
        return {call.tool_id: call.agent_id for draft in self.drafts for call in draft.calls if call.agent_id}

    def view(self, size: int, *, is_whole: bool, parent: str | None) -> SessionView:
        place, before = self.compactions[-1] if self.compactions else (None, 0)
        return SessionView(
            entries=tuple(draft.finished() for draft in self.drafts),
            last_entry=self.chain[-1] if self.chain else parent,
            size_bytes=size,
            model=self.model,
            tool_called=self.tool_called,
            is_whole=is_whole,
            chain=tuple(self.chain),
            parent=parent,
            compacted_at=self.chain[place] if place is not None else None,
            compacted_after=before,
            is_sound=self.is_sound,
        )

    def _take(self, value: Mapping[str, Any], offset: int) -> None:
        payload = value.get("payload")
        if not isinstance(payload, Mapping):
            return
        match value.get("type"):
            case "session_meta":  # it is a file's first line; the CLI would take a second one for a new beginning
                self.is_sound = self.is_sound and offset <= 0
            case "turn_context":
                self.model = str(payload.get("model") or self.model)
                self._work_dir = str(payload.get("cwd") or self._work_dir)
            case "token_usage_record":
                self._count(payload.get("usage"))
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._compacted(payload, line_id(value, payload))
            case "response_item":
                self._item(payload, offset, line_id(value, payload), _epoch_s(value.get("timestamp")))

    # What happened in a turn

    def _event(self, payload: Mapping[str, Any]) -> None:
        match payload.get("type"):
            case "task_started":
                if self._turn_is_open:  # the process was ended in the middle of it
                    self._interrupt()
                self._turn_from, self._turn_is_open = len(self.drafts), True
                self._uncounted = NO_USAGE
                self._end_response()
            case "task_complete":
                self._turn_is_open = False
                if not payload.get("error"):
                    self._complete(str(payload.get("turn_id")))
            case "turn_aborted":
                self._turn_is_open = False
                self._interrupt()
            case "thread_rolled_back":
                self._roll_back(payload.get("num_turns"))
            case "token_count":
                info = payload.get("info")
                self._count(info.get("last_token_usage") if isinstance(info, Mapping) else None)
            case "item_completed":
                item = payload.get("item")
                call = self._calls.get(str(item.get("id"))) if isinstance(item, Mapping) else None
                if call is not None and isinstance(item, Mapping):
                    call.noted(item)

    def _answer(self) -> _Draft | None:
        """The current turn's last entry, if that is an answer."""
        last = self.drafts[-1] if len(self.drafts) > self._turn_from else None
        return last if last is not None and last.role is Role.ASSISTANT else None

    def _complete(self, turn_id: str) -> None:
        answer = self._answer()
        if answer is not None:
            answer.complete = True
            answer.end_id = turn_id if UUID.match(turn_id) else None

    def _interrupt(self) -> None:
        """Codex's own note about an interrupted turn comes before the event that says so."""
        answers = [draft for draft in self.drafts[self._turn_from :] if draft.role is Role.ASSISTANT]
        if answers and not answers[-1].complete:
            answers[-1].interrupted = True

    def _count(self, tokens: Any) -> None:
        """The tokens of the response that has just been read. Any other count is a repetition."""
        if self._response is not None and isinstance(tokens, Mapping):
            self._response.usage = usage_from(tokens) + self._uncounted
            self._uncounted = NO_USAGE
            self._end_response()

    def _end_response(self) -> None:
        self._response = self._last_of_response = None

    def _roll_back(self, turns: Any) -> None:
        """Removes the last turns. If more are removed than were read, the rest was before what was read."""
        prompts = [n for n, draft in enumerate(self.drafts) if draft.is_prompt]
        count = turns if isinstance(turns, int) else 0
        if count <= 0:
            return
        self.removed_earlier = self.removed_earlier or count > len(prompts)
        first = prompts[-count] if count <= len(prompts) else 0
        place = self.drafts[first].place if count <= len(prompts) else 0
        del self.drafts[first:], self.chain[place:]
        self.compactions = [each for each in self.compactions if each[0] < place]
        self._turn_from = len(self.drafts)
        self._end_response()

    def _compacted(self, payload: Mapping[str, Any], own_id: str) -> None:
        """Removes the summary that Codex asked the model for: in the file it looks like an answer."""
        summary, last = str(payload.get("message") or ""), self.drafts[-1] if self.drafts else None
        if last is not None and last.role is Role.ASSISTANT and last.text and summary.endswith(last.text):
            self._uncounted += last.usage
            del self.drafts[-1]
        self._end_response()
        self.compactions.append((len(self.chain), len(self.drafts)))
        self.chain.append(own_id)

    # What the model is shown

    def _item(self, payload: Mapping[str, Any], offset: int, own_id: str, at: float | None) -> None:
        def draft(role: Role, text: str, entry_id: str = own_id) -> _Draft:
            return _Draft(entry_id, role, text, offset, at, len(self.chain) - 1)

        self.chain.append(own_id)
        self._check_id(payload.get("id"))
        if calls.is_output(payload):
            self._tool_ended(payload)
        elif calls.is_call(payload):
            self.tool_called = True
            self._called(calls.ToolCall(payload, own_id, self._work_dir), draft(Role.ASSISTANT, ""))
        elif payload.get("type") == "message":
            text = text_of(payload)
            if payload.get("role") == "assistant":
                self._said(draft(Role.ASSISTANT, text))
            elif payload.get("role") == "user":
                asks = is_prompt(payload, text)
                note = draft(Role.USER, text, prompt_id(text) if asks else own_id)
                note.is_prompt = asks
                note.images = image_count(payload) if asks else 0
                self.drafts.append(note)
                self._end_response()

    def _check_id(self, own_id: Any) -> None:
        if isinstance(own_id, str) and own_id:
            self.is_sound = self.is_sound and own_id not in self._ids
            self._ids.add(own_id)

    def _said(self, answer: _Draft) -> None:
        answer.model = self.model
        self.drafts.append(answer)
        if self._last_of_response is None:
            self._response = answer
        self._last_of_response = answer

    def _called(self, call: calls.ToolCall, without_text: _Draft) -> None:
        if self._last_of_response is None:
            self._said(without_text)
        assert self._last_of_response is not None
        self._last_of_response.calls.append(call)
        self._calls[call.tool_id] = call

    def _tool_ended(self, payload: Mapping[str, Any]) -> None:
        call = self._calls.get(str(payload.get("call_id")))
        if call is not None:
            call.ended(payload.get("output"))
        self._last_of_response = None  # what follows is another response


def read_session(path: Path, since: int = 0) -> SessionView:
    """The file is only appended to, so the lines after byte `since` show what a turn added.

    A copy that is read from its start begins with the entries of its origin. If the origin is gone, the copy counts as
    empty, because the CLI cannot continue it either. If the lines after `since` remove earlier turns, the whole file is
    read, so that the chain shows what is left of it.
    """
    view, started = _read(path, since)
    return replace(view, subagents=read_subagents(path, started, _read)) if started else view


def _read(path: Path, since: int) -> tuple[SessionView, Started]:
    """The session without its subagents, and which of its calls started one."""
    with path.open("rb") as file:
        size = complete_size(file)
        start = file.seek(since if since <= size else 0)
        raw = file.read(size - start)
    if start == 0:
        session, copied = _beginning(path, raw)
        if session is None:
            return SessionView((), None, size, is_whole=False), {}
        session.read(raw, 0)
        return session.view(size, is_whole=not copied, parent=None), session.started
    session = _Session()
    session.read(raw, start)
    if session.removed_earlier:
        return _read(path, 0)
    return session.view(size, is_whole=True, parent=_last_before(path, start)), session.started


def _beginning(path: Path, raw: bytes) -> tuple[_Session | None, bool]:
    """What a copy begins with, and whether it is a copy. None: the session that it was made from is gone."""
    session = _Session()
    if not is_copy(raw.partition(b"\n")[0]):
        return session, False
    found = origins(path)
    if found is None:
        return None, True
    for origin in found:
        session.copy(origin.path.read_bytes(), origin.until)
    return session, True


def _last_before(path: Path, end: int) -> str | None:
    """The last line on the chain before byte `end`. It is near, unless turns were removed there or a copy begins."""
    size = TAIL_BYTES
    with path.open("rb") as file:
        while True:
            start = file.seek(max(0, end - size))
            raw = file.read(end - start)
            for line in reversed(raw.split(b"\n")[1 if start else 0 :]):
                kind = _kind(line) if line else ""
                if kind == "event_msg" and b'"thread_rolled_back"' in line:
                    start = 0
                    break
                value = decode(line) if kind in _ON_CHAIN else None
                payload = value.get("payload") if value is not None else None
                if value is not None and isinstance(payload, Mapping):
                    return line_id(value, payload)
            if start == 0:
                break
            size *= 8
        file.seek(0)
        raw = file.read(end)
    session, _ = _beginning(path, raw)
    if session is None:
        return None
    session.read(raw, 0)
    return session.chain[-1] if session.chain else None


def line_id(line: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """The id of a line on the chain. Older versions write none; then the line's time takes its place."""
    return str(payload.get("id") or payload.get("window_id") or line.get("timestamp"))


def prompt_text(line: Mapping[str, Any]) -> str | None:
    """The text of a line that is a prompt; None for any other line."""
    payload = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(payload, Mapping) or payload.get("role") != "user":
        return None
    text = text_of(payload)
    return text if is_prompt(payload, text) else None


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


def _epoch_s(timestamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError):
        return None


def is_prompt(payload: Mapping[str, Any], text: str) -> bool:
    note = payload.get("internal_chat_message_metadata_passthrough")
    kinds = note.get("content_item_kinds") if isinstance(note, Mapping) else None
    if isinstance(kinds, list) and kinds:
        return any(str(kind).startswith("user.") for kind in kinds)
    return not text.lstrip().startswith(CODEX_NOTE_PREFIXES)


def text_of(payload: Mapping[str, Any]) -> str:
    """The text, without the two parts with which Codex encloses each image."""
    parts = _parts(payload)
    texts = [str(part.get("text") or "") for part in parts]
    for place, part in enumerate(parts):
        is_enclosed = part.get("type") == _IMAGE and 0 < place < len(parts) - 1
        if is_enclosed and texts[place - 1].startswith(_BEFORE_IMAGE) and texts[place + 1] == _AFTER_IMAGE:
            texts[place - 1] = texts[place + 1] = ""
    return "".join(texts)


def image_count(payload: Mapping[str, Any]) -> int:
    return sum(part.get("type") == _IMAGE for part in _parts(payload))


def _parts(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = payload.get("content")
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
