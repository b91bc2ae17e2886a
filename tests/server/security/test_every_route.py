"""No route answers without the token, also none that is added later."""

from __future__ import annotations

import re

from clew.server.models.openapi import WITHOUT_TOKEN
from clew.server.reference import document
from server.daemons import LocalDaemon


async def test_each_call_is_refused_without_a_token(daemon: LocalDaemon) -> None:
    calls = [
        (method, re.sub(r"\{\w+\}", "x", path))
        for path, methods in document()["paths"].items()
        if path not in WITHOUT_TOKEN
        for method in methods
    ]
    assert len(calls) > 70
    for method, path in calls:
        response = await daemon.http.request(method, path, headers={"Authorization": ""})
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized"), (method, path)
