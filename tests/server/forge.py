"""A forge as the daemon sees it: signed messages. The payloads are those of tests/hooks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from itertools import count
from typing import Any

import httpx

from clew.testing.stage import Stage
from hooks.forge.test_events import headers_of, payload_of
from hooks.project import HookProject
from server.daemons import LocalDaemon, ServeProcess

SECRETS = {
    "CLEW_GITHUB_SECRET": "github-dummy-secret",
    "CLEW_GITEA_SECRET": "gitea-dummy-secret",
    "CLEW_FORGEJO_SECRET": "forgejo-dummy-secret",
}
SETTINGS = """
[hooks.agents.boss]
model = "{model}"

[hooks.repos."alice/maze"]
path = "{path}"
writers = ["alice", "bob"]

[[hooks.rules]]
agent = "boss"
events = ["issue.opened", "issue.commented"]
"""
SIGNED_BY = {"github": "x-hub-signature-256", "gitea": "x-gitea-signature", "forgejo": "x-forgejo-signature"}
LIMIT_S = 60
deliveries = count(1)


def repository(stage: Stage) -> HookProject:
    """The repository `alice/maze`, and an agent `boss` that its issues and comments start."""
    return HookProject(stage, SETTINGS)


def secret_of(forge: str) -> str:
    return SECRETS[f"CLEW_{forge.upper()}_SECRET"]


def signature(forge: str, body: bytes, secret: str | None = None) -> dict[str, str]:
    digest = hmac.new((secret_of(forge) if secret is None else secret).encode(), body, hashlib.sha256).hexdigest()
    return {SIGNED_BY[forge]: f"sha256={digest}" if forge == "github" else digest}


def message(name: str, payload: Any = None, delivery: str | None = None) -> tuple[str, bytes, dict[str, str]]:
    """The path, the body and the headers of a valid message. `name` is that of a payload: `github.issues.opened`."""
    forge = name.partition(".")[0]
    nth = next(deliveries)
    body = json.dumps(
        {**(payload_of(name) if payload is None else payload), "nth": nth}
    ).encode()  # each body is unique
    told = {f"x-{forge}-delivery": delivery or f"delivery-{nth}"}
    return f"/hooks/{forge}", body, headers_of(name) | told | signature(forge, body)


async def send(http: httpx.AsyncClient, name: str, payload: Any = None, **more: Any) -> httpx.Response:
    path, body, headers = message(name, payload, more.pop("delivery", None))
    return await http.post(path, content=body, headers=headers | more.pop("headers", {}), **more)


async def received(http: httpx.AsyncClient, name: str, payload: Any = None) -> str:
    """Sends the message and returns the id of its event."""
    response = await send(http, name, payload)
    assert (response.status_code, response.json()["state"]) == (202, "received"), response.text
    return str(response.json()["id"])


async def event(daemon: LocalDaemon, event_id: str) -> Any:
    found = [each for each in (await daemon.get("/api/hooks/events?limit=1000"))["items"] if each["id"] == event_id]
    assert len(found) == 1
    return found[0]


async def until_handled(daemon: LocalDaemon, event_id: str) -> Any:
    """The event, as soon as a worker has handled it. Nothing notifies about that, so it is polled."""
    end = time.monotonic() + LIMIT_S
    while (found := await event(daemon, event_id))["state"] == "received":
        assert time.monotonic() < end, f"nobody handled it: {daemon.log if isinstance(daemon, ServeProcess) else ''}"
        await asyncio.sleep(0.1)
    return found


async def ended_job(daemon: LocalDaemon, event_id: str) -> Any:
    """The one job of the event, after it has ended."""
    found = await until_handled(daemon, event_id)
    assert found["state"] == "dispatched", found
    [job_id] = found["jobs"]
    async with daemon.http.stream("GET", f"/api/jobs/{job_id}/events", timeout=LIMIT_S) as response:
        async for _ in response.aiter_lines():
            pass
    return await daemon.get(f"/api/jobs/{job_id}")
