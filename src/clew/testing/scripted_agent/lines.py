"""The parts of every line on the stream or in a session file: ids, times, messages, blocks, usage."""

from __future__ import annotations

import os
import time
from _json import encode_basestring, make_encoder, make_scanner

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Line: TypeAlias = dict[str, Any]


def new_id() -> str:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    digits = all(part and not part.strip("0123456789abcdefABCDEF") for part in parts)
    return digits and [len(part) for part in parts] == [8, 4, 4, 4, 12]


def stamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


class _Reading:
    """The settings of `json`'s scanner. `json` itself is not imported: that would take longer than a turn."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float
    memo = None


_scan = make_scanner(_Reading)  # type: ignore[arg-type]


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, True)


def dumps(line: object) -> bytes:
    return "".join(_encode(line, 0)).encode("utf-8", "surrogatepass") + b"\n"


def loads(raw: bytes | str) -> Any:
    """Raises ValueError."""
    text = (raw if isinstance(raw, str) else raw.decode("utf-8", "surrogatepass")).strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # the scanner's own exception is defined in `json`, which is not imported
        end = -1
    if end != len(text):
        raise ValueError("not JSON")
    return value


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return str(content)


def blocks(entry: Line, kind: str | None = None) -> list[Line]:
    """The content blocks of a message's entry; plain text is one block, and so is the output of a command."""
    content = entry["message"]["content"] if "message" in entry else entry.get("content", [])
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [block for block in content if kind is None or block["type"] == kind]


def synthetic_message(text: str) -> Line:
    """A message in the role of the assistant that the CLI writes without asking the model."""
    return {
        "id": new_id(),
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "usage": zero_usage(service_tier=None, inference_geo=None, iterations=None, speed=None),
        "context_management": None,
    }


def zero_usage(**more: object) -> Line:
    usage: Line = {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }
    return {**usage, **more}


def add_usage(total: Line, usage: Line) -> None:
    for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        total[name] += usage.get(name) or 0
