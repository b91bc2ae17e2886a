"""What the model answers: the bytes of an HTTP response, its events, the blocks they build, or a refusal. No I/O."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # spares the import of typing; the checkers know the name
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lines import Line


class ApiError(Exception):
    """The model gave no answer. The fields are those of the lines that tell the host."""

    def __init__(
        self, text: str, error: str, status: int | None = None, kind: str | None = None, failure: str | None = None
    ) -> None:
        super().__init__(text)
        self.text, self.error, self.status, self.kind, self.failure = text, error, status, kind, failure
        self.reason = "prompt_too_long" if text == "Prompt is too long" else "api_error"
        self.retry = failure is not None or status in (401, 408, 409, 429) or (status or 0) >= 500
        self.request_id: str | None = None


def refusal(status: int, body: bytes, model: str, gateway: str) -> ApiError:
    """The CLI's own words for an HTTP status."""
    try:
        said = json.loads(body)["error"]
        kind, message = said["type"], said["message"]
    except (ValueError, KeyError, TypeError):
        kind, message = "api_error", body.decode("utf-8", "replace")
    if status == 401:
        return ApiError("Invalid API key · Fix external API key", "authentication_failed", status, kind)
    if status == 403:
        return ApiError(f"Failed to authenticate. API Error: 403 {message}", "authentication_failed", status, kind)
    if status == 404:
        text = (
            f"There's an issue with the selected model ({model}). It may not exist or you may not have access to it. "
            "Run --model to pick a different model."
        )
        return ApiError(text, "model_not_found", status, kind)
    if status == 429:
        return ApiError(f"API Error: Request rejected (429) · {message}", "rate_limit", status, kind)
    if status >= 500:
        text = (
            f"API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. "
            f"If it persists, check your inference gateway ({gateway})."
        )
        return ApiError(text, "server_error", status, kind)
    if status == 400 and "prompt is too long" in message:
        return ApiError("Prompt is too long", "invalid_request", status, kind)
    return ApiError(f"API Error: {status} {message}", "unknown", status, kind)


class Wire:
    """The bytes of one HTTP answer, taken apart as they come: head, then body. No I/O."""

    def __init__(self) -> None:
        self.raw = b""
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = False

    def feed(self, data: bytes) -> None:
        self.raw += data
        if self.status is None:
            head, end, rest = self.raw.partition(b"\r\n\r\n")
            if not end:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            self.status = int(first.split()[1])
            pairs = (line.partition(":") for line in lines)
            self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            self.raw = rest
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._feed_chunks()
            return
        self.body, self.raw = self.body + self.raw, b""
        self.complete = len(self.body) >= int(self.headers.get("content-length") or sys.maxsize)

    def _feed_chunks(self) -> None:
        while not self.complete:
            head, end, rest = self.raw.partition(b"\r\n")
            if not end:
                return
            size = int(head.split(b";")[0], 16)
            if len(rest) < size + 2:
                return
            self.body, self.raw = self.body + rest[:size], rest[size + 2 :]
            self.complete = size == 0

    def events(self) -> Iterator[Line]:
        while b"\n\n" in self.body:
            block, _, self.body = self.body.partition(b"\n\n")
            data = b"".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))
            if data:
                yield json.loads(data)


class Answer:
    """One answer of the model as it streams in: its blocks, finished or not."""

    def __init__(self) -> None:
        self.message: Line = {}
        self.usage: Line = {}
        self.open: dict[int, Line] = {}
        self.done: list[tuple[Line, str]] = []  # a finished block, and the uuid of its line
        self.stop_reason: str | None = None
        self.stopped = False
        self.request_id: str | None = None

    def take(self, event: Line) -> Line | None:
        """Note an event; the block that it finished, if it did."""
        kind = event["type"]
        if kind == "message_start":
            self.message = event["message"]
            self.usage = dict(self.message.get("usage") or {})
        elif kind == "content_block_start":
            self.open[event["index"]] = {**event["content_block"], "json": ""}
        elif kind == "content_block_delta":
            block, delta = self.open[event["index"]], event["delta"]
            name = {"partial_json": "json"}.get
            for field in ("text", "partial_json", "thinking", "signature"):
                if field in delta:
                    key = name(field) or field
                    block[key] = block.get(key, "") + delta[field]
        elif kind == "content_block_stop":
            block = self.open.pop(event["index"])
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text or "{}")
            return block
        elif kind == "message_delta":
            self.stop_reason = event["delta"].get("stop_reason")
            self.usage.update(event.get("usage") or {})
        elif kind == "message_stop":
            self.stopped = True
        return None

    def partial_text(self) -> str:
        return "".join(block["text"] for block in self.open.values() if block["type"] == "text")
