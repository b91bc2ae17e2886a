"""OpenAI's Responses API: its requests as conversations, and a chosen reply in its wire format.

Pure, like `messages_wire.py`: the server executes the steps of an answer. A request's items are converted to the shape
of the Messages API, so that the rules that choose a reply and `Request.shown_texts` are the same for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clew.testing.model.messages_wire import Act, Step, event, pieces
from clew.testing.model.prompt_cache import CacheAccount, estimate_tokens
from clew.testing.model.replies import Cut, Fail, Hang, Reply, Slow, Text, TooLong, ToolUse

ROUTE: Final = "/v1/responses"

Json = Mapping[str, Any]

# How the Codex CLI's own notes in the role of the user begin.
_NOTES: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<skill>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<subagent_notification>",
)
_FREEFORM: Final = frozenset({"apply_patch"})  # tools that take text, not JSON; a directive writes it as {"input": …}


def messages(body: Json) -> list[Json]:
    """The request's items as messages: notes and instructions as `system`, tool calls and results as blocks."""
    return [message for item in _items(body) for message in _message(item)]


def _items(body: Json) -> Sequence[Json]:
    given = body.get("input") or ()
    return ({"type": "message", "role": "user", "content": given},) if isinstance(given, str) else given


def _message(item: Json) -> Iterator[Json]:
    kind = str(item.get("type") or "message")
    if kind == "message":
        for part in _parts(item.get("content")):
            role, text = str(item.get("role")), str(part.get("text") or "")
            if part.get("type") == "input_image":
                yield {"role": role, "content": [{"type": "image", "source": part.get("image_url")}]}
                continue
            own = role == "developer" or (role == "user" and text.lstrip().startswith(_NOTES))
            yield {"role": "system" if own else role, "content": [{"type": "text", "text": text}]}
    elif kind.endswith("_call_output"):
        result = {"type": "tool_result", "tool_use_id": item.get("call_id"), "content": _output(item.get("output"))}
        yield {"role": "user", "content": [result]}
    elif kind.endswith("_call"):
        call = {"type": "tool_use", "id": item.get("call_id"), "name": item.get("name"), "input": _arguments(item)}
        yield {"role": "assistant", "content": [call]}


def _texts(content: Any) -> list[str]:
    return [str(part.get("text") or "") for part in _parts(content)]


def _parts(content: Any) -> Sequence[Json]:
    if isinstance(content, str):
        return ({"type": "input_text", "text": content},)
    return [part for part in content or () if isinstance(part, Mapping)]


def _output(output: Any) -> str:
    return output if isinstance(output, str) else "\n".join(_texts(output))


def _arguments(item: Json) -> Any:
    if "input" in item:
        return {"input": item["input"]}
    try:
        return json.loads(item.get("arguments") or "{}")
    except ValueError:
        return {"arguments": item.get("arguments")}


def request_kind(headers: Mapping[str, str]) -> str:
    """The purpose of a request, as the Codex CLI reports it: "turn", "compaction", …; "title" for the TUI's titles,
    "subagent" for all that a subagent asks."""
    try:
        metadata = json.loads(headers.get("x-codex-turn-metadata") or "{}")
        if metadata.get("thread_source") == "thread_title":  # it has a session of its own, without a file
            return "title"
        if metadata.get("thread_source") == "subagent":
            return "subagent"
        return str(metadata.get("request_kind") or "turn")
    except (ValueError, AttributeError):
        return "turn"


def cacheable(body: Json) -> Json:
    """The request in the form that `PromptCache` accounts for. This API caches every prefix, so the end is marked."""
    blocks = [
        {"role": "user", "content": [{key: value for key, value in item.items() if key != "id"}]}
        for item in _items(body)
    ]
    return {
        "model": body.get("model"),
        "tools": body.get("tools"),
        "system": body.get("instructions"),
        "messages": blocks,
        "cache_control": {"type": "ephemeral"},
    }


def refusal(fail: Fail) -> dict[str, Any]:
    if fail.resets_at is not None:
        limit = {"plan_type": "pro", "resets_at": int(fail.resets_at)}
        return {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", **limit}}
    return {"error": {"type": fail.type, "code": fail.type, "message": fail.message}}


@dataclass(frozen=True)
class ResponsesAnswer:
    """A chosen reply in the wire format."""

    reply: Reply
    model: str
    account: CacheAccount
    tag: str  # makes the ids unique

    def items(self) -> list[dict[str, Any]]:
        match self.reply:
            case ToolUse() as first:
                calls = [self._call(n, call) for n, call in enumerate((first, *first.also))]
                return [*self._message(first.text), *calls]
            case Text(text) | Slow(text) | Cut(text) | Hang(_, text):
                return self._message(text)
            case _:
                return []

    def _message(self, text: str) -> list[dict[str, Any]]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{self.tag}", "role": "assistant", "content": content}
        return [message] if text else []

    def _call(self, number: int, call: ToolUse) -> dict[str, Any]:
        namespace, _, name = call.name.rpartition(".")  # a tool's own name has no dot
        head = {"id": f"fc_{self.tag}{number:02d}", "call_id": f"call_{self.tag}{number:02d}", "name": name}
        if name in _FREEFORM:
            return {"type": "custom_tool_call", **head, "input": str(call.input.get("input", ""))}
        if namespace:
            head["namespace"] = namespace
        return {"type": "function_call", **head, "arguments": json.dumps(dict(call.input))}

    def response(self, status: str, items: Sequence[Json]) -> dict[str, Any]:
        output_tokens = estimate_tokens(json.dumps(list(items)))
        return {
            "id": f"resp_{self.tag}",
            "object": "response",
            "model": self.model,
            "status": status,
            "output": list(items),
            "usage": {
                "input_tokens": self.account.prompt_tokens,
                "input_tokens_details": {"cached_tokens": self.account.read_tokens},
                "output_tokens": output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": self.account.prompt_tokens + output_tokens,
            },
        }

    def stream_steps(self) -> Iterator[Step]:
        """The answer as server-sent events."""
        hang = self.reply.after if isinstance(self.reply, Hang) else None
        yield from [Act.HOLD] if hang == "request" else []
        yield Act.HEADERS
        yield from [Act.HOLD] if hang == "headers" else []
        yield event("response.created", response={**self.response("in_progress", []), "usage": None})
        yield from [Act.HOLD] if hang == "start" else []
        if isinstance(self.reply, TooLong):
            yield self._too_long()
            return
        for index, item in enumerate(self.items()):
            yield from self._item_steps(index, item)
        yield event("response.completed", response=self.response("completed", self.items()))

    def _too_long(self) -> bytes:
        """The event for a prompt that is too long. This API reports that only after the stream has begun."""
        error = {
            "code": "context_length_exceeded",
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
        }
        return event("response.failed", response={**self.response("failed", []), "error": error, "usage": None})

    def _item_steps(self, index: int, item: dict[str, Any]) -> Iterator[Step]:
        if item["type"] == "message":
            yield event("response.output_item.added", output_index=index, item={**item, "content": []})
            for step in pieces(self.reply, item["content"][0]["text"]):
                if isinstance(step, str):
                    yield event("response.output_text.delta", output_index=index, item_id=item["id"], delta=step)
                else:
                    yield step
            if isinstance(self.reply, Cut):
                yield Act.BREAK
            yield from [Act.HOLD] if isinstance(self.reply, Hang) and self.reply.after == "text" else []
        yield event("response.output_item.done", output_index=index, item=item)

    def json_steps(self) -> Iterator[Step]:
        """The answer in one piece. It hangs before it is sent, or breaks instead of being sent."""
        if isinstance(self.reply, Hang):
            yield Act.HOLD
        if isinstance(self.reply, Cut):
            yield Act.BREAK
        yield Act.HEADERS
        yield json.dumps(self.response("completed", self.items())).encode()
