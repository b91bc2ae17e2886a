"""The model's answer: the bytes of an HTTP response, its events, the blocks that they build, or a refusal. No I/O."""

from __future__ import annotations

import os
import sys
import time

from .lines import loads

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lines import Line


LIMIT = "anthropic-ratelimit-unified"
REACHED = "usage_limit_reached"
PDF = "The PDF file was not valid. Try converting it to text first (e.g., pdftotext)."
TOO_LARGE = (
    "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the request over the "
    "limit. Remove older images or compact the conversation."
)


class ApiError(Exception):
    """The model gave no answer. The fields are those of the lines that report it to the host."""

    def __init__(
        self, text: str, error: str, status: int | None = None, kind: str | None = None, failure: str | None = None
    ) -> None:
        super().__init__(text)
        self.text, self.error, self.status, self.kind, self.failure = text, error, status, kind, failure
        self.reason = "prompt_too_long" if text == "Prompt is too long" else "api_error"
        self.limit: Line | None = None  # the content of the `rate_limit_event` that is sent before the error
        self.retry = failure in BROKEN_CONNECTIONS or status in (401, 408, 409, 429) or (status or 0) >= 500
        self.request_id: str | None = None


BROKEN_CONNECTIONS = ("connection_failed",)
# For a 400: a part of the API's message, the CLI's own text, and a key of CODES.
REWORDED = (
    ("ids were found without `tool_result` blocks", "API Error: 400 due to tool use concurrency issues.", "history"),
    ("unexpected `tool_use_id`", "API Error: 400 orphaned tool_result in conversation history.", "history"),
    ("ids must be unique", "API Error: 400 duplicate tool_use ID in conversation history.", "history"),
    (
        "Could not process image",
        "API Error: an image in the conversation could not be processed and was removed. Re-read the file with a "
        "different approach if you still need it.",
        "removed",
    ),
    ("image exceeds", "Image was too large. Try resizing the image or using a different approach.", "media"),
    ("The PDF specified was not valid", PDF, "media"),
    ("credit balance is too low", "Credit balance is too low", "billing"),
    (
        "This organization has been disabled",
        "Your ANTHROPIC_API_KEY belongs to a disabled organization · Update or unset the environment variable",
        "organization",
    ),
    ("exceed context limit", "Prompt is too long", ""),
    ("prompt is too long", "Prompt is too long", ""),
)
CODES = {  # `error` and `api_error` of the message's line, and `terminal_reason` of the result
    "history": ("invalid_request", "tool_history_mismatch", "api_error"),
    "removed": ("invalid_request", "media_removed", "image_error"),
    "media": ("invalid_request", None, "image_error"),
    "billing": ("billing_error", None, "api_error"),
    "organization": ("invalid_request", "org_disabled_credential", "api_error"),
    "": ("invalid_request", None, "prompt_too_long"),
}


def reworded(status: int, kind: str, message: str) -> ApiError | None:
    """A refusal for which the CLI has its own text."""
    for part, text, name in REWORDED if status == 400 else ():
        if part in message:
            error, failure, reason = CODES[name]
            found = ApiError(text, error, status, kind, failure)
            found.reason = reason
            return found
    if status != 413:
        return None
    found = ApiError(TOO_LARGE, "invalid_request", status, kind)
    found.reason = "image_error"
    return found


def limited(message: str, kind: str, headers: dict[str, str]) -> ApiError:
    """A 429. With a subscription's login, the CLI reports to its host which limit it is and when it resets."""
    reset, subscribed = headers.get(f"{LIMIT}-reset"), os.environ.get("CLAUDE_CODE_OAUTH_TOKEN")
    if not subscribed:
        return ApiError(f"API Error: Request rejected (429) · {message}", "rate_limit", 429, kind)
    if reset is None:
        text = f"API Error: Server is temporarily limiting requests (not your usage limit) · {message}"
        found = ApiError(text, "rate_limit", 429, kind)
        found.limit = {"status": "rejected", "isUsingOverage": False}
        return found
    when = time.strftime("%I:%M%p", time.localtime(int(reset))).lstrip("0").lower()
    found = ApiError(
        f"You've hit your 5-hour limit · resets {when} ({time.strftime('%Z')})", "rate_limit", 429, kind, REACHED
    )
    claim = headers.get(f"{LIMIT}-representative-claim", "five_hour")
    found.limit = {"status": "rejected", "resetsAt": int(reset), "rateLimitType": claim, "isUsingOverage": False}
    return found


def refusal(status: int, body: bytes, model: str, gateway: str, headers: dict[str, str]) -> ApiError:
    """The CLI's own text for an HTTP status."""
    try:
        said = loads(body)["error"]
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
        return limited(message, kind, headers)
    if status >= 500:
        text = (
            f"API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. "
            f"If it persists, check your inference gateway ({gateway})."
        )
        return ApiError(text, "server_error", status, kind)
    return reworded(status, kind, message) or ApiError(f"API Error: {status} {message}", "unknown", status, kind)


class Wire:
    """The bytes of one HTTP answer, parsed as they arrive: head, then body. No I/O."""

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
                yield loads(data)


class StreamedAnswer:
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
        """Applies an event; returns the block that it finished, if any."""
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
                block["input"] = loads(text or "{}")
            return block
        elif kind == "message_delta":
            self.stop_reason = event["delta"].get("stop_reason")
            self.usage.update(event.get("usage") or {})
        elif kind == "message_stop":
            self.stopped = True
        return None

    def partial_text(self) -> str:
        return "".join(block["text"] for block in self.open.values() if block["type"] == "text")
