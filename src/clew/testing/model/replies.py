"""The scripted model's replies, as data: texts, tool calls, refusals, and answers that break off or hang."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

# Without this header the Claude CLI retries ten times, also after a 401, and doubles the wait each time.
FINAL: Final[Mapping[str, str]] = MappingProxyType({"x-should-retry": "false"})

HangPoint = Literal["request", "headers", "start", "text"]


@dataclass(frozen=True)
class Text:
    """A plain answer, in `chunks` pieces, with a pause of `delay_s` between them."""

    text: str
    chunks: int = 1
    delay_s: float = 0.0


@dataclass(frozen=True)
class Slow:
    """An answer that arrives word by word."""

    text: str
    words_per_s: float = 10.0


@dataclass(frozen=True)
class ToolUse:
    """A tool call, after `text` if there is any; `also` are further calls in the same answer."""

    name: str
    input: Mapping[str, Any]
    text: str = ""
    also: tuple[ToolUse, ...] = ()


@dataclass(frozen=True)
class Hang:
    """Sends nothing more, with the connection open, until `ModelApi.release()` lets the answer continue.

    It also ends when the client disconnects or the API closes. `after` says what is sent before: nothing ("request"),
    the HTTP headers, the `message_start` event, or the text.
    """

    after: HangPoint = "start"
    text: str = "…"


@dataclass(frozen=True)
class Cut:
    """A connection that breaks in the middle of an answer."""

    after_text: str = ""


@dataclass(frozen=True)
class Fail:
    """A refusal. Clients retry after most of them, for minutes; with `headers=FINAL` they do not.

    A 400 is different: the Claude CLI retries at once, with fewer features each time, and one entry in the script
    refuses only the first of these requests. To refuse all of them, use a directive, the hook or the default.
    """

    status: int
    type: str = "api_error"
    message: str = "Internal server error"
    headers: Mapping[str, str] = field(default_factory=dict)
    resets_at: float | None = (
        None  # when an account's usage limit resets, in epoch seconds; each API has its own format
    )


def usage_limit(resets_at: float | None) -> Fail:
    """The refusal at an account's usage limit; without a time, at the API's rate limit."""
    if resets_at is None:
        return Fail(429, "rate_limit_error", "This request would exceed your account's rate limit.", FINAL)
    headers = {
        **FINAL,
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(resets_at)),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    message = "This request would exceed your account's rate limit. Please try again later."
    return Fail(429, "rate_limit_error", message, headers, resets_at)


@dataclass(frozen=True)
class TooLong:
    """The refusal of a prompt that does not fit the model's context window."""

    tokens: int = 210_000
    maximum_tokens: int = 200_000

    def as_fail(self) -> Fail:
        message = f"prompt is too long: {self.tokens} tokens > {self.maximum_tokens} maximum"
        return Fail(400, "invalid_request_error", message)


Reply = Text | Slow | ToolUse | Hang | Cut | Fail | TooLong
