"""The limits of a body are checked before it is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.server.app import api_routers, http_routes
from clew.server.models.problems import RequestRefused
from clew.server.security.body_limits import (
    MAX_BODY_BYTES,
    MAX_DEPTH,
    MAX_SHORT_BYTES,
    MAX_UPLOAD_BYTES,
    MAX_VALUES,
    check_values,
    max_body_bytes,
)


def nested(depth: int) -> Any:
    return [] if depth == 1 else [nested(depth - 1)]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"prompt": 'a "quoted", \\ [text] {of} , , , ' * 20_000},
        {"prompt": "\\" * 50_001},
        {"paths": [f"file-{n}" for n in range(MAX_VALUES - 10)]},
        nested(MAX_DEPTH),
    ],
    ids=["empty", "text", "backslashes", "list", "deep"],
)
def test_ordinary_bodies_are_accepted(value: Any) -> None:
    check_values(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (json.dumps({str(n): n for n in range(MAX_VALUES + 1)}).encode(), 413),
        (json.dumps({"a\\" + str(n): "\\" for n in range(MAX_VALUES + 1)}).encode(), 413),
        (b"[" + b"[]," * MAX_VALUES + b"1]", 413),
        (b'"" ' * 3 * MAX_VALUES, 413),
        (json.dumps(nested(MAX_DEPTH + 1)).encode(), 400),
        (b"[" * 9_000, 400),
    ],
    ids=["keys", "escapes", "lists", "no json", "deep", "open"],
)
def test_bodies_that_cost_more_than_their_bytes_are_refused(body: bytes, status: int) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_values(body)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/api/threads", MAX_BODY_BYTES),
        ("/api/threads/t/runs", MAX_BODY_BYTES),
        ("/api/threads/t/explain", MAX_BODY_BYTES),
        ("/api/threads/t/turns/1", MAX_BODY_BYTES),
        ("/api/runs/r/tool-result", MAX_BODY_BYTES),
        ("/api/reviews/2026-01-01-001/rounds", MAX_BODY_BYTES),
        ("/api/imports", MAX_UPLOAD_BYTES),
        ("/api/imports/x", MAX_SHORT_BYTES),
        ("/api/threads/t/fork", MAX_SHORT_BYTES),
        ("/api/runs/r/cancel", MAX_SHORT_BYTES),
        ("/api/jobs/j/retry", MAX_SHORT_BYTES),
        ("/reset", MAX_SHORT_BYTES),
    ],
)
def test_a_call_without_a_long_text_has_a_short_body(path: str, limit: int) -> None:
    assert max_body_bytes(http_routes(api_routers()))(path) == limit
