"""Requests to the scripted model, and the rules that choose a reply.

Pure: `ModelApi` does the I/O. The replies are defined in `replies.py`, and can be imported from here too. A reply is
chosen in this order:

1. the next entry of the script, for a request of the main conversation;
2. the `reply` hook, when it returns one;
3. the prompt's own text, which also works from other processes. A request with the result of a tool is answered with
   `done: <its first 100 characters>`, a compaction with a summary. Otherwise the last line of the newest user text
   that is a *directive* decides (see the table);
4. the default reply, when one is set;
5. `ack: <the last line of the newest user text>`.

| directive                   | the model …                                                                  |
| --------------------------- | ---------------------------------------------------------------------------- |
| `!say TEXT`                 | says TEXT                                                                    |
| `!tool NAME {json}`         | calls a tool; `!tool` lines directly above are called in the same answer     |
| `!slow WORDS DELAY_S`       | says `w0 w1 …`, a word every DELAY_S seconds                                 |
| `!hang WHERE [TEXT]`        | stops sending; WHERE is `request`, `headers`, `start` or `text` (after TEXT) |
| `!cut TEXT`                 | drops the connection after TEXT                                              |
| `!fail STATUS TYPE MESSAGE` | refuses permanently: `!fail 429 rate_limit_error Slow down`                  |
| `!limit [EPOCH]`            | refuses: the account's usage limit is reached, and resets at that time       |
| `!toolong`                  | says that the prompt is too long                                             |
| `!big N_BYTES`              | says N_BYTES of text                                                         |

In a prompt with a transcript, only what follows the last `# New message` heading counts: the directives above it belong
to earlier turns. A malformed directive is answered with a 400 that says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from clew.testing.model import responses_wire
from clew.testing.model.prompt_cache import CacheAccount
from clew.testing.model.replies import (
    FINAL,
    Cut,
    Fail,
    Hang,
    HangPoint,
    Reply,
    Slow,
    Text,
    TooLong,
    ToolUse,
    usage_limit,
)

__all__ = [
    "DONE_CHARS",
    "ECHO_CHARS",
    "FINAL",
    "NEW_MESSAGE_HEADING",
    "Cut",
    "Fail",
    "Hang",
    "HangPoint",
    "Reply",
    "ReplyHook",
    "Request",
    "Slow",
    "Text",
    "TooLong",
    "ToolUse",
    "choose_reply",
    "newest_tool_result",
    "newest_user_text",
    "read_directive",
    "spoken",
    "usage_limit",
    "without_reminders",
]

NEW_MESSAGE_HEADING: Final = "# New message"
ECHO_CHARS: Final = 200
DONE_CHARS: Final = 100

ReplyHook = Callable[["Request"], Reply | None]

# How the Claude CLI's side requests are recognised. Titles, recaps and other auxiliary requests have the first header,
# subagents the second, compactions the third. A compaction is recognised by its prompt, too.
_SIDE_HEADERS: Final = ("x-claude-code-auxiliary-type", "x-claude-code-agent-id", "x-claude-code-compaction")
_COMPACTION_PROMPTS: Final = ("CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary")


@dataclass(frozen=True)
class Request:
    """A request as the API received it."""

    path: str  # with the query
    headers: Mapping[str, str]  # names in lower case
    body: Mapping[str, Any]
    at: float  # time of arrival, by the API's clock
    cache: CacheAccount = field(default_factory=CacheAccount)  # all zero when the request was refused

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation, in the shape of the Messages API for both APIs."""
        if self.is_responses:
            return responses_wire.messages(self.body)
        messages: Sequence[Mapping[str, Any]] = self.body.get("messages") or ()
        return messages

    @property
    def route(self) -> str:
        return urlsplit(self.path).path

    @property
    def is_responses(self) -> bool:
        return self.route == responses_wire.ROUTE

    @property
    def is_main(self) -> bool:
        """This is a turn of the conversation itself: not a token count, a title, a subagent or a compaction."""
        if self.is_responses:
            return responses_wire.request_kind(self.headers) == "turn"
        if self.route != "/v1/messages" or any(name in self.headers for name in _SIDE_HEADERS):
            return False
        if self.body.get("max_tokens") == 1:  # a probe of the key or the quota
            return False
        return not self.is_compaction

    @property
    def is_compaction(self) -> bool:
        """The agent asks for a summary of the conversation, to continue from that."""
        if self.is_responses:
            return responses_wire.request_kind(self.headers) == "compaction"
        return newest_user_text(self.messages).lstrip().startswith(_COMPACTION_PROMPTS)

    def shown_texts(self, *, tools: bool = False) -> list[tuple[str, str]]:
        """What the model was shown, as (role, text) of each block, without the CLI's reminders and its notes on images.

        With `tools`, tool calls and results are included as `[tool_use NAME {…}]` and `[tool_result …]`.
        """
        shown = []
        for message in spoken(self.messages):
            for block in _blocks(message):
                text = _rendered(block) if tools or block.get("type") == "text" else ""
                if text and not text.startswith(_IMAGE_NOTE):
                    shown.append((str(message.get("role")), text))
        return shown

    @property
    def images(self) -> int:
        """How many images the model was shown."""
        blocks = [block for message in spoken(self.messages) for block in _blocks(message)]
        return sum(block.get("type") in ("image", "input_image") for block in blocks)

    def to_json(self) -> dict[str, Any]:
        """The request for a log, without API keys."""
        secret = {"x-api-key", "authorization"}
        headers = {name: "…" if name in secret else value for name, value in self.headers.items()}
        usage = self.cache.usage(output_tokens=0)
        return {"path": self.path, "at": self.at, "headers": headers, "cache": usage, "body": self.body}


def choose_reply(request: Request, default: Reply | None) -> Reply:
    """The reply when neither the script nor the hook has one: steps 3 to 5 above."""
    if request.is_compaction:
        return Text("<analysis>scripted</analysis>\n<summary>scripted summary</summary>")
    result = newest_tool_result(request.messages)
    if result is not None:
        return Text("done: " + result[:DONE_CHARS])
    text = newest_user_text(request.messages)
    directed = read_directive(text)
    if directed is not None:
        return directed
    if default is not None:
        return default
    lines = [line for line in text.splitlines() if line.strip()]
    return Text("ack: " + (lines[-1][:ECHO_CHARS] if lines else ""))


def spoken(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The conversation itself, without the system messages that the CLI inserts as reminders for some models."""
    return [message for message in messages if message.get("role") != "system"]


def newest_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The newest text that a person wrote: the last text block with more than the CLI's own reminders.

    Only what came after the last answer counts: a directive in an older prompt must not be obeyed twice.
    """
    for message in reversed(spoken(messages)):
        if message.get("role") != "user":
            break
        for block in reversed(_blocks(message)):
            text = without_reminders(str(block.get("text", ""))) if block.get("type") == "text" else ""
            if text.strip() and not text.startswith(_IMAGE_NOTE):
                return _below_heading(text)
    return ""


def newest_tool_result(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The text of the tool result that the request ends with, or None when it ends with something else."""
    last = (spoken(messages) or [{}])[-1]
    for block in reversed(_blocks(last)):
        if block.get("type") == "tool_result":
            return _result_text(block)
        if _rendered(block).strip():
            return None
    return None


_IMAGE_NOTE: Final = "[Image: source: "  # what the Claude CLI adds after a prompt with images
_LEADING_REMINDER: Final = re.compile(r"\A\s*<system-reminder>.*?(?:</system-reminder>\s*|\Z)", re.DOTALL)
_TRAILING_REMINDER: Final = re.compile(
    r"\s*<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s*\Z", re.DOTALL
)


def without_reminders(text: str) -> str:
    """The text without the reminders before and after it. A reminder inside is kept: somebody wrote it there."""
    for pattern in (_LEADING_REMINDER, _TRAILING_REMINDER):
        with_shorter_transcript = pattern.sub("", text)
        while with_shorter_transcript != text:
            text, with_shorter_transcript = with_shorter_transcript, pattern.sub("", with_shorter_transcript)
    return text


def read_directive(text: str) -> Reply | None:
    """The reply that a prompt asks for, or None when none of its lines is a directive."""
    lines = text.splitlines()
    places = [index for index, line in enumerate(lines) if _verb(line) in _DIRECTIVES]
    if not places:
        return None
    last = places[-1]
    line = lines[last]
    verb, _, rest = line.partition(" ")
    try:
        reply = _DIRECTIVES[verb](rest.strip())
        if not isinstance(reply, ToolUse):
            return reply
        first = last
        while first > 0 and _verb(lines[first - 1]) == "!tool":
            first -= 1
        calls = [_tool(above.partition(" ")[2].strip()) for above in lines[first : last + 1]]
        return ToolUse(calls[0].name, calls[0].input, also=tuple(calls[1:]))
    except ValueError as error:
        return Fail(400, "invalid_request_error", f"malformed directive {line[:200]!r}: {error}")


def _verb(line: str) -> str:
    return line.rstrip().partition(" ")[0]


def _tool(rest: str) -> ToolUse:
    name, _, arguments = rest.partition(" ")
    values = json.loads(arguments or "{}")
    if not name or not isinstance(values, dict):
        raise ValueError("expected a name and a JSON object")
    return ToolUse(name, values)


def _slow(rest: str) -> Slow:
    words, delay_s = rest.split()
    text = " ".join(f"w{number}" for number in range(int(words)))
    return Slow(text, words_per_s=1 / float(delay_s) if float(delay_s) else float("inf"))


def _hang(rest: str) -> Hang:
    where, _, text = rest.partition(" ")
    points: dict[str, HangPoint] = {"request": "request", "headers": "headers", "start": "start", "text": "text"}
    if where not in points:
        raise ValueError(f"expected one of {', '.join(points)}")
    return Hang(points[where], text) if text else Hang(points[where])


def _fail(rest: str) -> Fail:
    status, kind, message = (*rest.split(None, 2), "", "", "")[:3]
    return Fail(int(status), kind or "api_error", message or "refused by a directive", FINAL)


_DIRECTIVES: Final[Mapping[str, Callable[[str], Reply]]] = {
    "!say": Text,
    "!tool": _tool,
    "!slow": _slow,
    "!hang": _hang,
    "!cut": Cut,
    "!fail": _fail,
    "!limit": lambda rest: usage_limit(float(rest) if rest else None),
    "!toolong": lambda _rest: TooLong(),
    "!big": lambda rest: Text("x" * int(rest)),
}


def _below_heading(text: str) -> str:
    lines = text.splitlines()
    headings = [index for index, line in enumerate(lines) if line.strip() == NEW_MESSAGE_HEADING]
    return "\n".join(lines[headings[-1] + 1 :]) if headings else text


def _blocks(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message.get("content") or ()
    return ({"type": "text", "text": content},) if isinstance(content, str) else content


def _rendered(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            text = without_reminders(str(block.get("text", "")))
            return text if text.strip() else ""
        case "tool_use":
            return f"[tool_use {block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}]"
        case "tool_result":
            return f"[tool_result {_result_text(block)}]"
        case kind:
            return f"[{kind}]"


def _result_text(block: Mapping[str, Any]) -> str:
    parts = _blocks(block)
    return without_reminders("\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts))
