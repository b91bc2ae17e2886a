"""The Messages API's wire format: a chosen reply as a stream of server-sent events, or in one piece.

Pure: an answer is a sequence of steps, and the server executes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from clew.testing.model.prompt_cache import CacheAccount, estimate_tokens
from clew.testing.model.replies import Cut, Hang, Reply, Slow, Text, ToolUse


class Act(Enum):
    """The steps of an answer that are neither bytes nor pauses."""

    HEADERS = "send the HTTP headers"
    HOLD = "wait for a release"
    BREAK = "drop the connection"


Step = bytes | float | Act  # bytes to send, seconds to pause, or an act


@dataclass(frozen=True)
class MessagesAnswer:
    """A chosen reply in the wire format."""

    reply: Reply
    model: str
    account: CacheAccount
    tag: str  # makes the ids unique

    def content(self) -> list[dict[str, Any]]:
        match self.reply:
            case ToolUse() as first:
                calls = [
                    {"type": "tool_use", "id": f"toolu_{self.tag}{n:02d}", "name": call.name, "input": dict(call.input)}
                    for n, call in enumerate((first, *first.also))
                ]
                return [*_text_block(first.text), *calls]
            case Text(text) | Slow(text) | Cut(text) | Hang(_, text):
                return _text_block(text)
            case _:
                return []

    def message(self) -> dict[str, Any]:
        content = self.content()
        return {
            "id": f"msg_{self.tag}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": "tool_use" if isinstance(self.reply, ToolUse) else "end_turn",
            "stop_sequence": None,
            "usage": self.account.usage(estimate_tokens(json.dumps(content))),
        }

    def stream_steps(self) -> Iterator[Step]:
        """The answer as server-sent events."""
        hang = self.reply.after if isinstance(self.reply, Hang) else None
        message = self.message()
        opening = {**message, "content": [], "stop_reason": None, "usage": self.account.usage(1)}
        yield from [Act.HOLD] if hang == "request" else []
        yield Act.HEADERS
        yield from [Act.HOLD] if hang == "headers" else []
        yield event("message_start", message=opening)
        yield from [Act.HOLD] if hang == "start" else []
        for index, block in enumerate(message["content"]):
            yield from self._block_steps(index, block)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=stop, usage=message["usage"])
        yield event("message_stop")

    def _block_steps(self, index: int, block: dict[str, Any]) -> Iterator[Step]:
        if block["type"] == "tool_use":
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_delta", index=index, delta=delta)
        else:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for step in pieces(self.reply, block["text"]):
                if isinstance(step, str):
                    delta = {"type": "text_delta", "text": step}
                    yield event("content_block_delta", index=index, delta=delta)
                else:
                    yield step
        if isinstance(self.reply, Cut):
            yield Act.BREAK
        yield from [Act.HOLD] if isinstance(self.reply, Hang) and self.reply.after == "text" else []
        yield event("content_block_stop", index=index)

    def json_steps(self) -> Iterator[Step]:
        """The answer in one piece. It hangs or pauses before it is sent, or breaks instead of being sent."""
        if isinstance(self.reply, Hang):
            yield Act.HOLD
        if isinstance(self.reply, Cut):
            yield Act.BREAK
        text = "".join(block.get("text", "") for block in self.content())
        yield sum(step for step in pieces(self.reply, text) if isinstance(step, float))
        yield Act.HEADERS
        yield json.dumps(self.message()).encode()


def _text_block(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []  # the API never answers with an empty block


def pieces(reply: Reply, text: str) -> Iterator[str | float]:
    """A text, split into the pieces that are sent, with the pauses between them."""
    match reply:
        case Slow(_, words_per_s):
            parts, delay_s = re.findall(r"\S+\s*|\s+", text), 1 / words_per_s
        case Text(_, chunks, delay):
            size = max(1, -(-len(text) // max(1, chunks)))
            parts, delay_s = [text[at : at + size] for at in range(0, len(text), size)], delay
        case _:
            parts, delay_s = [text], 0.0
    for number, piece in enumerate(parts):
        if number and delay_s:
            yield delay_s
        yield piece


def event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
