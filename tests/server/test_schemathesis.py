"""Schemathesis on the OpenAPI document: no 5xx, no undocumented status, content type or header, no invalid data taken.

It runs against a real `clew serve` with the scripted agent, whose every run answers `ack` and ends.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.testing.model.scripts import newest_user_text
from clew.testing.stage import Stage
from reviews.reviewer import repository
from server.daemons import ServeProcess
from server.routes.test_reviews import over, started

pytestmark = pytest.mark.rest

LIMIT_S = 200  # the machine may be busy
HOOKS = Path(__file__).with_name("fuzz_hooks.py")
# A valid value may still name nothing that exists (positive_data_acceptance), such as a turn of an existing thread
# (ensure_resource_availability); and there is only one user (object_level_authorization).
EXCLUDED = "positive_data_acceptance,ensure_resource_availability,object_level_authorization"
CONFIG = f"""\
hooks = "{HOOKS}"

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 431]
"""


@pytest.mark.timeout(LIMIT_S + 60)
async def test_no_request_that_the_document_allows_or_forbids_breaks_the_server(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    await daemon.ask("t", "hello")
    job = await daemon.post("/api/jobs", {"prompt": "hello", "cwd": str(scripted.work)}, 201)
    await daemon.post(f"/api/jobs/{job['id']}/cancel")
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 1\n")
    review = await over(daemon, await started(daemon, repo))
    other = await daemon.post("/api/threads/t/fork", {"name": "other"}, 201)
    config = scripted.folder / "schemathesis.toml"
    config.write_text(CONFIG)
    done = await asyncio.to_thread(
        subprocess.run,
        [
            str(Path(sys.executable).with_name("st")),
            *("--config-file", str(config), "run", f"http://127.0.0.1:{daemon.port}/api/openapi.json"),
            *("--header", f"Authorization: Bearer {daemon.token}", "--checks", "all", "--exclude-checks", EXCLUDED),
            *("--seed", "1", "--max-examples", "8", "--generation-database", "none", "--request-timeout", "20"),
            *("--no-color", "--continue-on-failure", "--warnings", "off", "--output-truncate", "true"),
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(scripted.folder),
            "FUZZ_CWD": str(scripted.work),
            "FUZZ_JOB": job["id"],
            "FUZZ_REPO": str(repo),
            "FUZZ_REVIEW": review["id"],
            "FUZZ_OTHER": other["id"],
            "FUZZ_KEPT": (await daemon.get(f"/api/reviews/{review['id']}"))["thread_id"],
        },
        cwd=scripted.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = "\n".join(line[:400] for line in done.stdout.splitlines())
    assert done.returncode == 0, said + done.stderr[-2000:]
    document = await daemon.get("/api/openapi.json")
    calls = sum(len(methods) for methods in document["paths"].values())
    assert calls > 40 and f"{calls} selected / {calls} total" in said, [
        line for line in said.splitlines() if "selected" in line
    ]
    assert "unexpected" not in daemon.log
    assert len((await daemon.get("/api/threads"))["items"]) > 1, "it got past the validation"
    shown = [newest_user_text(request.messages) for request in scripted.api.requests]
    assert any("what has changed since round" in text for text in shown), "of reviews too"
    begun = {each["kind"] for each in (await daemon.get("/api/operations"))["items"]}
    assert begun >= {"replay", "adopt"}, "and it started operations"
