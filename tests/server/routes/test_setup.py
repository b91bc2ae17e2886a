"""The settings of a daemon and what is wrong with it, and hooks: a preview, a check and a sweep."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from clew.core.hooks.hook import session_key
from clew.testing.stage import Stage
from hooks.project import REPO, SETTINGS, HookProject, event, succeeded
from server.daemons import LocalDaemon, local_daemon

KEY = session_key("boss", REPO, 4)


def payload(**changes: Any) -> dict[str, Any]:
    """An event as Clew stores it."""
    given = event(**changes).as_dict()
    return {name: value for name, value in given.items() if value not in ("", None, ())}


async def ended(daemon: LocalDaemon, operation: Any) -> Any:
    async with daemon.http.stream("GET", f"/api/operations/{operation['id']}/events", timeout=60) as response:
        async for _ in response.aiter_lines():
            pass
    return await daemon.get(f"/api/operations/{operation['id']}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/config"),
        ("GET", "/api/doctor"),
        ("GET", "/api/hooks/check"),
        ("POST", "/api/hooks/preview"),
        ("POST", "/api/hooks/sweep"),
    ],
)
async def test_nothing_is_answered_without_the_token(daemon: LocalDaemon, method: str, path: str) -> None:
    refused = await daemon.http.request(method, path, json={}, headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 401


async def test_the_settings_have_their_sources_and_no_passwords(daemon: LocalDaemon) -> None:
    found = {each["name"]: each for each in (await daemon.get("/api/config"))["items"]}
    assert (found["permissions"]["value"], found["permissions"]["source"]) == ("ask", "default")
    assert found["agents.claude.path"]["variable"] == "CLEW_AGENTS_CLAUDE_PATH"
    assert found["store"]["value"] is None


async def test_the_doctor_of_a_daemon_checks_agents_settings_and_files(daemon: LocalDaemon) -> None:
    (daemon.stage.clew_home / "clew.db").chmod(0o644)
    found = await daemon.get("/api/doctor")
    assert [agent["name"] for agent in found["agents"]][:1] == ["claude"]
    assert found["agents"][0]["resume"] is True
    assert (found["store"]["problems"], found["store"]["only_owner_reads"]) == (None, False)
    assert found["runs"]["left_by_a_crash"] == 0
    [problem] = found["problems"]
    assert (found["ok"], problem["fix"]) == (False, f"chmod 600 {daemon.stage.clew_home / 'clew.db'}")


async def test_a_preview_has_the_exact_prompt_and_stores_nothing(scripted: Stage) -> None:
    HookProject(scripted)
    async with local_daemon(scripted) as daemon:
        found = await daemon.post("/api/hooks/preview", {"payload": payload()}, 200)
        [planned] = found["planned"]
        assert (planned["key"], planned["agent"], planned["rule"]) == (KEY, "boss", 1)
        assert (planned["resumes"], planned["reason"]) == (False, "first_turn")
        assert planned["prompt"].startswith("SKILL: you are boss")
        assert (found["why"], found["event"]["kind"], found["event"]["delivery"]) == (None, "issue.opened", None)
        assert (await daemon.get("/api/hooks/events"))["items"] == []
        assert scripted.launches == []

        nobody = await daemon.post("/api/hooks/preview", {"payload": payload(actor="mallory")}, 200)
        assert (nobody["planned"], nobody["why"]) == ([], "mallory is not known to have write access")


async def test_a_preview_of_what_is_no_event_says_why(daemon: LocalDaemon) -> None:
    unknown = {"payload": {"repository": {}}}
    refused = await daemon.post("/api/hooks/preview", unknown, 422)
    assert "does not say which forge sent it" in refused["detail"]
    star = {"payload": {"repository": {"full_name": REPO}}, "forge": "github", "event": "star"}
    ignored = await daemon.post("/api/hooks/preview", star, 200)
    assert ignored == {
        "event": None,
        "why": "Clew does not handle star events of this kind",
        "planned": [],
        "dropped": [],
    }


async def test_a_check_of_hooks_names_what_would_fail(scripted: Stage) -> None:
    project = HookProject(scripted)
    (scripted.clew_home / "skills" / "boss" / "default.delta.md").unlink()
    async with local_daemon(scripted) as daemon:
        found = await daemon.get("/api/hooks/check")
    assert found["ok"] is False
    assert sum("boss has no delta text for" in each for each in found["problems"]) == len(found["problems"]) > 0
    assert {"what": f"repo {REPO}", "words": f"{project.repo}, remote origin"} in found["good"]


async def test_a_sweep_is_an_operation_and_a_dry_run_changes_nothing(scripted: Stage) -> None:
    project = HookProject(
        scripted, SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]')
    )
    async with project.open() as client:
        await succeeded(client, event())
    async with local_daemon(scripted) as daemon:
        dry = await ended(daemon, await daemon.post("/api/hooks/sweep", {"dry_run": True}))
        swept = {"key": KEY, "why": "unused for too long", "tree": None, "session": True}
        assert (dry["kind"], dry["status"]) == ("sweep", "done")
        assert dry["result"] == {"dry_run": True, "items": [swept]}
        assert len((await daemon.get("/api/hooks/sessions"))["items"]) == 1

        done = await ended(daemon, await daemon.post("/api/hooks/sweep"))
        [item] = done["result"]["items"]
        assert (item["key"], item["session"], done["message"]) == (KEY, True, KEY)
        assert (await daemon.get("/api/hooks/sessions"))["items"] == []


async def test_a_sweep_with_the_same_key_is_carried_out_once(daemon: LocalDaemon) -> None:
    async def send() -> httpx.Response:
        return await daemon.http.post("/api/hooks/sweep", json={}, headers={"Idempotency-Key": "once"})

    first, second = await send(), await send()
    assert (first.status_code, second.status_code) == (202, 202)
    assert json.loads(first.text)["id"] == json.loads(second.text)["id"]
    assert first.headers["location"] == f"/api/operations/{first.json()['id']}"
    assert len((await daemon.get("/api/operations"))["items"]) == 1
