"""The lines of Claude's session files, and which of them are the active chain.

Rules
1. A file is JSON lines. Lines with a `uuid` (rows) form a tree through `parentUuid`; across a compaction through
   `logicalParentUuid`. Lines without a `uuid` are bookkeeping. Invalid lines are skipped, as the CLI does; a row whose
   parent is lost follows the row above it. Different rows with the same `uuid` make the chain uncertain.
2. The chain ends at the newest row, unless the last `last-prompt` line names a row (the checkpoint) from which the
   newest one does not descend: then it ends there. An `explicit` checkpoint counts exactly as long as no row follows
   it. A compaction, an unknown id or an explicit null removes the checkpoint. The CLI continues at the same row.
3. An API message with several tool calls is several rows, and the results hang on different ones of them, so that a
   walk by parents misses some. All rows of a message on the chain belong to it, and so do all results of its calls.
4. A compaction keeps the last answer: the model is shown it after the summary. In the file it stays where it was, and
   what follows it hangs on the summary, or on that answer if the CLI wrote it just before the compaction. Both are read
   as hanging on the summary.

Reading takes two passes. The first decodes only the heads of all lines and keeps where they are in the file; the second
reads the contents of the rows that are needed. So a file of any size takes little memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TypeVar

import msgspec

CHECKPOINT_BYTES = 64 * 1024  # how far back a checkpoint is looked for before the whole file is scanned

ROW_TYPES = frozenset({"user", "assistant", "attachment", "system"})
_MESSAGES = frozenset({"user", "assistant"})


class _MessageHead(msgspec.Struct, gc=False):
    id: Any = None


class _Head(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    subtype: Any = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool | None = False
    leaf_uuid: Any = None  # of a `last-prompt` line: the checkpoint
    explicit: Any = None
    total_cost_usd: Any = msgspec.field(default=None, name="totalCostUSD")  # of a `cost-state` line
    message: _MessageHead | None = None
    compact_metadata: Any = None  # of a compaction


class Message(msgspec.Struct):
    id: Any = None
    content: Any = None
    model: Any = None
    stop_reason: Any = None
    usage: Any = None


class Line(msgspec.Struct, rename="camel"):
    """A line with its content. Only the fields that are read."""

    type: str = ""
    uuid: str | None = None
    is_sidechain: bool | None = False
    is_meta: bool | None = False
    is_compact_summary: bool | None = False
    is_api_error_message: bool | None = False
    is_aborted_mid_stream: Any = None
    cwd: Any = None
    timestamp: Any = None
    prompt_id: Any = None  # a prompt and what the CLI adds to it have the same
    permission_decision: Any = None  # of a tool's result, as is the next
    tool_denial_kind: Any = None
    message: Message | None = None

    @property
    def blocks(self) -> list[dict[str, Any]]:
        content = self.message.content if self.message is not None else None
        return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


class Row(msgspec.Struct, gc=False):
    """A line of the tree: where it is, and what it follows."""

    uuid: str
    parent: str | None
    type: str
    message_id: str | None  # of an answer: the same on all rows of one API message
    is_boundary: bool  # a compaction: what is before is not shown to the model any more
    place: int  # its number among the rows
    offset: int
    length: int
    total_usd: Any = None  # the session's running total before this line

    @property
    def is_message(self) -> bool:
        return self.type in _MESSAGES


S = TypeVar("S", bound=msgspec.Struct)
_HEAD = msgspec.json.Decoder(_Head)
_LINE = msgspec.json.Decoder(Line)


def decode_line(line: bytes) -> Line | None:
    return _decode(line, _LINE, Line)


def _decode(line: bytes, decoder: msgspec.json.Decoder[S], kind: type[S]) -> S | None:
    """msgspec is fast, but refuses lone surrogates (a tool's output, cut inside an emoji) and the like, which the CLI
    accepts. Those lines are decoded by the standard library."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(line.decode("utf-8", "replace")), kind)
    except (ValueError, RecursionError):  # msgspec.ValidationError is a ValueError
        return None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode("utf-8", "replace")), dict)
    except RecursionError:  # too deeply nested for us, but perhaps not for the CLI
        return True
    except ValueError:
        return False


class Transcript:
    """The heads of a file's lines from byte `start` to byte `end`."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self.start = start
        self.rows: dict[str, Row] = {}
        self.newest: Row | None = None
        self.cost_usd: Any = None  # the running total that was written last
        self.cost_offset: int | None = None
        self.tool_called = False  # on the chain or not
        self.is_cleared = False  # somebody went back to before the first row, and no row follows
        self.is_sound = True  # False: the CLI and we may take different lines for the chain
        self.preserved: frozenset[str] = frozenset()  # the rows that the last compaction has kept
        self._summary_after: dict[str, str] = {}  # the last of them, and the summary on which its children hang
        self._file = file
        self._checkpoint: str | None = None
        self._is_explicit = False  # no row follows the checkpoint that somebody chose
        self._is_settled = start == 0  # an earlier checkpoint does not matter
        self._order: list[Row] = []
        self._messages: dict[str, list[Row]] = {}
        self._repeated: list[tuple[Row, Row]] = []  # rows with the same uuid
        for offset, raw in _raw_lines(file, start, end):
            head = _decode(raw, _HEAD, _Head)
            if head is not None:
                self._add(head, offset, raw)
            elif _is_object(raw):  # the CLI never writes such a line, but may read it
                self.is_sound = False
        self.is_sound = self.is_sound and all(self._raw(one) == self._raw(other) for one, other in self._repeated)

    def _add(self, head: _Head, offset: int, raw: bytes) -> None:
        match head.type:
            case "last-prompt":
                self._set_checkpoint(head)
            case "cost-state":
                self.cost_usd, self.cost_offset = head.total_cost_usd, offset
            case kind if kind in ROW_TYPES and head.uuid is not None and not head.is_sidechain:
                self._add_row(head, head.uuid, offset, len(raw))
                # A text that contains these words has backslashes before the quotation marks.
                self.tool_called = self.tool_called or (kind == "assistant" and b'"tool_use"' in raw)

    def _add_row(self, head: _Head, uuid: str, offset: int, length: int) -> None:
        is_boundary = head.type == "system" and head.subtype == "compact_boundary"
        message_id = head.message.id if head.type == "assistant" and head.message is not None else None
        parent = head.parent_uuid or _preserved_tail(head.compact_metadata) or head.logical_parent_uuid
        row = Row(
            uuid,
            self._summary_after.get(parent or "", parent),
            head.type,
            message_id if isinstance(message_id, str) and message_id else None,
            is_boundary,
            len(self._order),
            offset,
            length,
            self.cost_usd,
        )
        if uuid in self.rows:
            self._repeated.append((self.rows[uuid], row))
        self.rows[uuid] = self.newest = row
        self._order.append(row)
        if row.message_id is not None:
            self._messages.setdefault(row.message_id, []).append(row)
        self._is_explicit = self.is_cleared = False
        self._summary_after.pop(uuid, None)  # in a copy, the kept rows are where the model is shown them
        if is_boundary:
            self._checkpoint, self._is_settled = None, True
            self._keep(head.compact_metadata)

    def _keep(self, metadata: Any) -> None:
        kept = metadata.get("preservedMessages") if isinstance(metadata, dict) else None
        uuids = kept.get("uuids") if isinstance(kept, dict) else None
        anchor = kept.get("anchorUuid") if isinstance(kept, dict) else None
        self.preserved, self._summary_after = frozenset(), {}
        if isinstance(uuids, list) and uuids and all(isinstance(each, str) for each in (*uuids, anchor)):
            self.preserved, self._summary_after = frozenset(uuids), {uuids[-1]: str(anchor)}

    def _set_checkpoint(self, head: _Head) -> None:
        if isinstance(head.leaf_uuid, str) and head.leaf_uuid:
            is_same = self._is_explicit and head.leaf_uuid == self._checkpoint
            self._checkpoint, self._is_settled = head.leaf_uuid, True
            self._is_explicit = head.explicit is True or is_same
            self.is_cleared = False
        elif head.leaf_uuid is None and head.explicit is True:
            self._checkpoint, self._is_settled = None, True
            self._is_explicit, self.is_cleared = False, True

    # --- the chain

    def needs_whole_file(self) -> bool:
        """Whether the lines before `start` decide what is on the chain.

        They do not if only one row follows an earlier one, and that is both the last row and the checkpoint. Without
        a row, they do if a checkpoint was set elsewhere than at the last row.
        """
        if self.start == 0:
            return False
        if self.newest is None:
            return self.is_cleared or (self._checkpoint is not None and self._checkpoint != self._before()[0])
        followed = [row.parent for row in self._order if row.parent is not None and row.parent not in self.rows]
        if not followed:
            return not self._is_settled
        last, checkpoint = self._before()
        if self._is_settled:
            checkpoint = self._checkpoint
        is_known = checkpoint in self.rows or (checkpoint is None and self._is_settled)
        return followed != [last] or not (is_known or checkpoint == last)

    def _before(self) -> tuple[str | None, str | None]:
        """The last row before `start`, and the checkpoint there. None: it is further up, or there is none."""
        begin = max(0, self.start - CHECKPOINT_BYTES)
        before = Transcript(self._file, begin, self.start)
        return before.newest.uuid if before.newest is not None else None, before._checkpoint

    def leaf(self) -> Row | None:
        """The row at which the CLI continues. None: it is not among these lines, or there is none."""
        if self.newest is None or self.is_cleared:
            return None
        checkpoint = self.rows.get(self._checkpoint) if self._checkpoint is not None else None
        if checkpoint is None:
            return None if self._is_explicit and self.start > 0 else self.newest
        if self._is_explicit or not self._descends(self.newest, checkpoint):
            return self._with_notes(checkpoint)
        return self.newest

    def _descends(self, row: Row, ancestor: Row) -> bool:
        walk = self._walk(row)
        return ancestor in walk or ancestor in self._with_parallel_rows(walk)

    def _with_notes(self, row: Row) -> Row:
        """The last of the CLI's own notes that follow the row: the next prompt hangs on that."""
        for other in self._order[row.place + 1 :]:
            if other.parent == row.uuid and not other.is_message and not other.is_boundary:
                row = other
        return row

    def chain(self, leaf: Row | None) -> list[Row]:
        """All rows on the chain that ends at `leaf`, the oldest first."""
        return self._with_parallel_rows(self._walk(leaf)) if leaf is not None else []

    def _walk(self, leaf: Row) -> list[Row]:
        found: dict[str, Row] = {}
        row: Row | None = leaf
        while row is not None and row.uuid not in found:
            found[row.uuid] = row
            row = self.above(row)
        return list(found.values())[::-1]

    def above(self, row: Row) -> Row | None:
        """The row that this one follows, if it is among these lines."""
        if row.parent is None:
            return None
        if row.parent in self.rows or self.start > 0:
            return self.rows.get(row.parent)
        return self._order[row.place - 1] if row.place else None  # its parent's line is lost

    def _with_parallel_rows(self, walk: list[Row]) -> list[Row]:
        found = {row.uuid: row for row in walk}
        messages = {row.message_id for row in walk if row.message_id is not None}
        calls: dict[str, set[str]] = {}  # ids of the calls on the chain, by message
        for row in self._order:
            if row.uuid in found or row.parent not in found or not messages:
                continue
            if row.message_id in messages or (row.type == "user" and self._is_result(row, found, calls)):
                found[row.uuid] = row
        if len(found) == len(walk):
            return walk
        return sorted(found.values(), key=lambda row: row.place)

    def _is_result(self, row: Row, found: dict[str, Row], calls: dict[str, set[str]]) -> bool:
        """Whether the row has the result of a call of the message that it follows."""
        answer: Row | None = found[row.parent or ""]
        for _ in range(len(found)):
            if answer is None or answer.message_id is not None:
                break
            answer = found.get(answer.parent or "")
        if answer is None or answer.message_id is None:
            return False
        ids = calls.setdefault(answer.message_id, set())
        if not ids:
            ids |= {
                str(block.get("id"))
                for each in self._messages[answer.message_id]
                for block in self._blocks(each, "tool_use")
            }
        return any(block.get("tool_use_id") in ids for block in self._blocks(row, "tool_result"))

    def beside(self, chain: Sequence[Row], start: int) -> list[Row]:
        """The rows from byte `start` on that are not on the chain, branch by branch."""
        kept = {row.uuid for row in chain}
        roots: dict[str, str] = {}
        branches: dict[str, list[Row]] = {}
        for row in self._order:
            if row.offset >= start and row.uuid not in kept:
                root = roots[row.uuid] = roots.get(row.parent or "", row.uuid)
                branches.setdefault(root, []).append(row)
        return [row for branch in branches.values() for row in branch]

    # --- contents

    def line(self, row: Row) -> Line | None:
        """Reads the row again, with its content. None: the file has changed meanwhile."""
        return decode_line(self._raw(row))

    def _raw(self, row: Row) -> bytes:
        self._file.seek(row.offset)
        return self._file.read(row.length)

    def _blocks(self, row: Row, kind: str) -> list[dict[str, Any]]:
        line = self.line(row)
        return [block for block in line.blocks if block.get("type") == kind] if line is not None else []


def _preserved_tail(metadata: Any) -> str | None:
    """The last row that a compaction has kept. If somebody has only the beginning of a session summarised, the kept
    rows follow the one that `logicalParentUuid` names."""
    kept = metadata.get("preservedSegment") if isinstance(metadata, dict) else None
    tail = kept.get("tailUuid") if isinstance(kept, dict) else None
    return tail if isinstance(tail, str) else None


def _raw_lines(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    file.seek(start)
    at = start
    for raw in file:
        if at >= end:
            return
        offset, at = at, at + len(raw)
        raw = raw[: end - offset].rstrip(b"\r\n")
        if raw:
            yield offset, raw
