"""Writes JSON. Agents may print anything, also a lone surrogate: such a text is escaped, not refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response


def json_text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a NaN in a tool's input: it is not JSON, and no browser can read it
        return json_text(_finite(value))
    return text if _is_unicode(text) else json.dumps(value, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    return json_text(value).encode()


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Tests check every response against the OpenAPI document. Here nothing is checked: it would refuse a surrogate."""
    return Response(json_bytes(value), status_code=status, headers=dict(headers or {}), media_type="application/json")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
