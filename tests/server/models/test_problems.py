"""Errors are problem details everywhere, by class, without internals."""

from __future__ import annotations

import errno
import json
import logging

import httpx
import pytest
from fastapi import FastAPI

from clew import errors
from clew.server.models import problems
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.guards import Guards
from clew.server.security.token import Credentials
from server.daemons import BASE, TOKEN, LocalDaemon

CASES = [
    (errors.NotFound("No such thread.", hint="Look."), 404, "not_found"),
    (errors.Conflict("Over already."), 409, "conflict"),
    (errors.Busy("A run is in progress.", run_id="r1"), 409, "busy"),
    (errors.UsageError("Not so."), 422, "usage"),
    (errors.ConfigError("Not so."), 422, "config"),
    (errors.StoreError("Full.", kind="full"), 503, "store"),
    (errors.AgentMissing("No binary."), 503, "agent_missing"),
    (errors.ClewError("Something."), 500, "error"),
    (problems.RequestRefused(403, "Not you."), 403, "forbidden"),
    (OSError(errno.ENAMETOOLONG, "File name too long"), 422, "usage"),
    (PermissionError(errno.EACCES, "Permission denied"), 422, "usage"),
    (OSError(errno.ENOSPC, "No space left on device"), 503, "store"),
    (OSError("without a number"), 503, "store"),
]


def failing(error: Exception) -> httpx.AsyncClient:
    """A server whose only call raises this error."""
    app = FastAPI()

    @app.get("/fails")
    async def fails() -> None:
        raise error

    problems.install(app)
    policy = AccessPolicy(Credentials(TOKEN), 7421)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(Guards(app, policy)), base_url=BASE, headers=headers)


@pytest.mark.parametrize(("error", "status", "code"), CASES, ids=lambda value: str(value))
async def test_the_class_of_an_error_gives_the_status(error: Exception, status: int, code: str) -> None:
    async with failing(error) as client:
        answer = await client.get("/fails")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == "about:blank"
    assert problem["title"]
    if isinstance(error, errors.ClewError):
        assert (problem["detail"], problem["hint"]) == (error.message, error.hint)
    if isinstance(error, errors.Busy):
        assert problem["run_id"] == "r1"
    assert ("retry-after" in answer.headers) is (status == 503)


def test_every_error_of_clew_has_a_status() -> None:
    def kinds(kind: type[errors.ClewError]) -> list[type[errors.ClewError]]:
        return [kind, *(inner for each in kind.__subclasses__() for inner in kinds(each))]

    mapped = [kind for kind, _ in problems.STATUS_OF]
    for kind in kinds(errors.ClewError)[1:]:
        assert issubclass(kind, tuple(mapped)), kind


async def test_an_unexpected_error_is_answered_without_internals_and_logged_without_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with failing(KeyError("a private prompt")) as client:
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/fails")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "private" not in answer.text
    assert "KeyError" not in answer.text
    logged = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert "KeyError" in logged
    assert "test_problems.py" in logged, "where it happened"
    assert "private" not in logged


async def test_unknown_addresses_and_methods(daemon: LocalDaemon) -> None:
    unknown = await daemon.http.get("/api/nothing")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    for method, path, allowed in (
        ("PUT", "/api/threads", {"GET", "POST"}),
        ("DELETE", "/api/threads", {"GET", "POST"}),
        ("POST", "/api/threads/t", {"GET", "PATCH", "DELETE"}),
        ("GET", "/api/runs/r/cancel", {"POST"}),
        ("DELETE", "/healthz", {"GET"}),
        ("POST", "/", {"GET"}),
    ):
        answer = await daemon.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed"), path
        assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"cwd": }', b"9" * 5000])
async def test_a_body_that_is_not_json(daemon: LocalDaemon, body: bytes) -> None:
    answer = await daemon.http.post("/api/threads", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == (422 if not body else 400)
    assert json.loads(answer.content)["status"] == answer.status_code


async def test_a_store_that_cannot_be_written_is_not_the_clients_fault(daemon: LocalDaemon) -> None:
    """A table was dropped under the daemon: the store's own error, as 503."""
    await daemon.thread("t")
    assert daemon.shared is not None
    import sqlite3

    with sqlite3.connect(daemon.stage.clew_home / "clew.db") as raw:
        raw.execute("ALTER TABLE turns RENAME TO taken")
    raw.close()
    answer = await daemon.http.get("/api/threads/t/view")
    with sqlite3.connect(daemon.stage.clew_home / "clew.db") as raw:
        raw.execute("ALTER TABLE taken RENAME TO turns")
    raw.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "store")
