"""The error of an invalid request is a sentence, with a hint that says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.daemons import LocalDaemon

RUNS, THREADS = "/api/threads/t/runs", "/api/threads"


@pytest.mark.parametrize(
    ("path", "body", "where", "said", "hint"),
    [
        (RUNS, {"prompt": ""}, "prompt", "prompt is empty.", "give a value"),
        (RUNS, {}, "prompt", "prompt is missing.", None),
        (RUNS, {"prompt": 7}, "prompt", "prompt must be a text.", None),
        (RUNS, {"prompt": "x", "promt": "y"}, "promt", "There is no field promt.", "Did you mean prompt?"),
        (RUNS, {"prompt": "x", "zzz": 1}, "zzz", "There is no field zzz.", "force_fresh_session"),
        (RUNS, {"prompt": "x", "timeout_s": 0}, "timeout_s", "timeout_s must be greater than 0.", None),
        (RUNS, {"prompt": "x", "timeout_s": "1"}, "timeout_s", "timeout_s must be a number.", None),
        (
            *(RUNS, {"prompt": "x", "force_fresh_session": "yes"}),
            *("force_fresh_session", "force_fresh_session must be true or false.", None),
        ),
        (RUNS, [], "body", "body must be an object.", "prompt"),
        (
            *(THREADS, {"cwd": "/", "permissions": "yolo"}),
            *("permissions", "permissions must be one of ask, edits, read-only, all.", None),
        ),
        (THREADS, {"cwd": "/", "name": "no spaces"}, "name", "name must begin with a letter or a digit", None),
        (THREADS, {"cwd": ""}, "cwd", "cwd is empty.", "give a value"),
        (THREADS, {"cwd": "/" * 5000}, "cwd", "cwd is longer than 4,096 characters.", None),
        (
            THREADS,
            {"cwd": "/", "instructions": "\ud800"},
            "instructions",
            "instructions contains half a character (a lone surrogate).",
            None,
        ),
    ],
)
async def test_an_error_is_a_sentence(
    daemon: LocalDaemon, path: str, body: Any, where: str, said: str, hint: str | None
) -> None:
    await daemon.thread("t")
    answer = await daemon.http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "usage")
    assert problem["detail"].startswith(said)
    assert problem["errors"] == [{"where": where, "what": problem["detail"]}]
    assert (problem["hint"] is None) if hint is None else (hint in problem["hint"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": "x"}, "limit must be a whole number."),
        ({"limit": 0}, "limit must be at least 1."),
        ({"limit": 10_000}, "limit must be at most 1000."),
        ({"kind": "x"}, "kind must be one of chat, pair, review, job, hook, all."),
    ],
)
async def test_an_error_in_a_query_is_one_too(daemon: LocalDaemon, query: dict[str, Any], said: str) -> None:
    answer = await daemon.http.get("/api/threads", params=query)
    assert (answer.status_code, answer.json()["detail"]) == (422, said)
