"""The daemon that received a hook's event runs its jobs, across kills and restarts, and reports the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forkserver
from clew.server.worker import DaemonWork, running_worker
from clew.store.rows.hooks import HookKey
from clew.testing.stage import MODEL, Stage
from hooks.forge.test_events import payload_of
from server.daemons import LocalDaemon, ServeProcess, local_daemon
from server.forge import SECRETS, SETTINGS, ended_job, received, repository, until_handled
from server.routes.test_metrics import scraped, value
from server.test_serve_start import run

StartDaemon = Callable[..., ServeProcess]
BOSS = {"agent": "boss", "repo": "alice/maze", "number": 4}
KEY = "boss:alice/maze:4"
NO_RULES = SETTINGS.partition("[[hooks.rules]]")[0]


def opened(words: str = "It is wrong.", number: int = 4) -> dict[str, Any]:
    payload = payload_of("gitea.issues.opened")
    payload["issue"]["body"] = words
    payload["issue"]["number"] = number
    return payload


def commented(words: str) -> dict[str, Any]:
    payload = payload_of("gitea.issue_comment.created")
    payload["comment"]["body"] = words
    return payload


@pytest.mark.rest
async def test_a_signed_message_starts_the_agent_and_the_next_one_resumes_its_session(
    scripted: Stage, start_daemon: StartDaemon
) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    await daemon.load_contract()
    async with daemon.client(known=False) as forge:
        first = await ended_job(daemon, await received(forge, "gitea.issues.opened", opened()))
        assert (first["status"], first["key"], first["runs"]) == ("succeeded", KEY, 1)
        assert "SKILL: you are boss of alice/maze" in scripted.prompt
        assert Path(first["cwd"]).is_relative_to(scripted.clew_home / "worktrees")

        second = await ended_job(
            daemon, await received(forge, "gitea.issue_comment.created", commented("Try the left door."))
        )
    assert (second["status"], second["thread_id"]) == ("succeeded", first["thread_id"])
    assert "DELTA issue.commented #4" in scripted.prompt
    assert "Try the left door." in scripted.prompt
    assert "SKILL" not in scripted.prompt
    assert scripted.launches[-1].resumes == first["session_id"]
    [session] = (await daemon.get("/api/hooks/sessions"))["items"]
    assert (session["key"], session["state"], session["session_id"]) == (KEY, "resumable", second["session_id"])
    assert (session["thread_id"], session["last_event"]["kind"]) == (first["thread_id"], "issue.commented")
    assert [each["kind"] for each in (await daemon.get("/api/hooks/events"))["items"]] == [
        "issue.commented",
        "issue.opened",
    ]
    [thread] = (await daemon.get("/api/threads?kind=hook"))["items"]
    assert (thread["id"], thread["turns"]) == (first["thread_id"], 4)
    assert (await daemon.get("/api/threads"))["total"] == 0, "it is no conversation of the user's"
    assert daemon.stop() == 0


@pytest.mark.rest
async def test_a_daemon_that_is_killed_after_its_answer_leaves_the_event_to_the_next(
    scripted: Stage, start_daemon: StartDaemon
) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    async with daemon.client(known=False) as forge:
        told = [await received(forge, "gitea.issues.opened", opened(number=number)) for number in (4, 5)]
        daemon.kill()
    daemon.restart()
    done = [await ended_job(daemon, each) for each in told]
    assert [job["status"] for job in done] == ["succeeded", "succeeded"]
    assert [job["key"] for job in done] == [KEY, "boss:alice/maze:5"]
    assert len((await daemon.get("/api/jobs"))["items"]) == 2, "neither lost nor twice"


@pytest.mark.rest
async def test_a_daemon_that_ends_returns_its_running_jobs_to_the_queue(
    scripted: Stage, start_daemon: StartDaemon
) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    async with daemon.client(known=False) as forge:
        told = await received(forge, "gitea.issues.opened", opened("!hang text so far"))
        found = await until_handled(daemon, told)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
    assert daemon.stop() == 0
    scripted.api.release()
    assert not scripted.processes()
    daemon.restart()
    job = await ended_job(daemon, told)
    assert ([job["id"]], job["status"], job["runs"]) == (found["jobs"], "succeeded", 2)
    assert "Traceback" not in daemon.log


@pytest.mark.rest
async def test_a_reset_says_whether_there_was_a_session_and_the_next_event_starts_a_fresh_one(
    scripted: Stage, start_daemon: StartDaemon
) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    await daemon.load_contract()
    assert await daemon.post("/reset", BOSS, 200) == {"dropped": False}
    async with daemon.client(known=False) as forge:
        first = await ended_job(daemon, await received(forge, "gitea.issues.opened", opened()))
        assert await daemon.post("/reset", BOSS | {"repo": "Alice/Maze"}, 200) == {"dropped": True}
        assert await daemon.post("/reset", BOSS, 200) == {"dropped": False}
        assert (await daemon.get("/api/hooks/sessions"))["items"] == []
        second = await ended_job(daemon, await received(forge, "gitea.issue_comment.created", commented("And now?")))
    assert "SKILL" in scripted.prompt
    assert scripted.launches[-1].resumes is None
    assert second["thread_id"] != first["thread_id"]
    assert await daemon.post("/api/hooks/reset", BOSS, 200) == {"dropped": True}
    for wrong in ({"agent": "no/name"}, {"repo": "a/../b"}, {"number": 0}, {"number": "4"}, {"more": 1}):
        assert (await daemon.http.post("/reset", json=BOSS | wrong)).status_code == 422, wrong
    assert (await daemon.http.get("/reset")).status_code == 405


@pytest.mark.rest
async def test_an_event_that_starts_no_agent_says_why(scripted: Stage, start_daemon: StartDaemon) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    stranger, elsewhere = opened(), opened()
    stranger["sender"]["login"] = "mallory"
    elsewhere["repository"]["full_name"] = "alice/other"
    async with daemon.client(known=False) as forge:
        for payload, why in ((stranger, "write access"), (elsewhere, "the settings have no repository")):
            found = await until_handled(daemon, await received(forge, "gitea.issues.opened", payload))
            assert (found["state"], found["jobs"]) == ("ignored", [])
            assert why in found["why"]
    assert len((await daemon.get("/api/hooks/events?state=ignored"))["items"]) == 2
    assert (await daemon.get("/api/hooks/events?state=received"))["items"] == []
    assert len((await daemon.get("/api/hooks/events?limit=1"))["items"]) == 1
    assert (await daemon.http.get("/api/hooks/events?state=gone")).status_code == 422


@pytest.mark.rest
@pytest.mark.parametrize(
    ("settings", "args", "given", "most"),
    [
        (SETTINGS, [], {}, 2),
        (SETTINGS, [], {"CLEW_SERVE_WORK": "0"}, 0),
        (NO_RULES, [], {}, 0),
        (NO_RULES, [], {"CLEW_SERVE_WORK": "1"}, 1),
        (NO_RULES, [], {"CLEW_SERVE_WORKER": "true"}, 2),
        (SETTINGS, ["--work"], {"CLEW_SERVE_WORK": "3"}, 3),
    ],
)
async def test_how_many_jobs_a_daemon_runs_and_which(
    scripted: Stage, start_daemon: StartDaemon, settings: str, args: list[str], given: dict[str, str], most: int
) -> None:
    repository(scripted).write(settings)
    daemon = start_daemon(scripted, *args, **SECRETS, **given)
    assert (await daemon.get("/api/hooks/settings"))["work"] == most
    body = {"prompt": "!say done", "cwd": str(scripted.work), "model": MODEL}
    job = await daemon.post("/api/jobs", body, 201)
    if args or "CLEW_SERVE_WORKER" in given:
        async with daemon.http.stream("GET", f"/api/jobs/{job['id']}/events") as response:
            assert [line async for line in response.aiter_lines()]
        done = await daemon.get(f"/api/jobs/{job['id']}")
        assert (done["result"], done["no_worker"]) == ("done", None)
        return
    assert job["no_worker"] == "No worker is alive to run the job: start `clew work`, or `clew serve --work`."
    if settings == SETTINGS and most:  # the job of a hook is run, and the older submitted job is not
        async with daemon.client(known=False) as forge:
            hooked = await ended_job(daemon, await received(forge, "gitea.issues.opened", opened()))
        assert (hooked["status"], hooked["no_worker"]) == ("succeeded", None)
    listed = await daemon.get("/api/jobs")
    assert (listed["workers"], listed["items"][-1]["status"]) == (0, "queued")
    assert listed["items"][-1]["no_worker"] == job["no_worker"]
    assert ("no rules for hooks; --work runs other jobs" in daemon.log) == (settings == NO_RULES and most > 0)


def test_a_worker_that_may_run_no_job_is_refused(scripted: Stage) -> None:
    refused = run(scripted, "--port", "0", "--work", CLEW_SERVE_WORK="0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "serve.worker is true, and serve.work is 0" in refused.stderr


def test_a_skill_that_is_missing_is_found_at_the_start(scripted: Stage) -> None:
    repository(scripted)
    (scripted.clew_home / "skills" / "boss" / "default.delta.md").unlink()
    refused = run(scripted, "--port", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "boss has no delta text for issue.opened" in refused.stderr
    assert "clew hooks check" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("broken", ["[hooks]\nrulez = 1\n", "hooks = 3\n", "[[hooks.rules]]\nagent = 'nobody'\n"])
def test_invalid_settings_of_hooks_stop_only_the_daemon(scripted: Stage, broken: str) -> None:
    scripted.clew_home.mkdir(mode=0o700)
    (scripted.clew_home / "clew.toml").write_text(broken)
    refused = run(scripted, "--port", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "clew.toml" in refused.stderr
    assert "Traceback" not in refused.stderr
    asked = forkserver.run("ask", "!say here", env={**scripted.environ, "CLEW_MODEL": MODEL}, cwd=scripted.work)
    assert (asked.returncode, "here" in asked.stdout) == (0, True), asked.stderr


@pytest.mark.rest
async def test_sessions_and_events_are_counted(scripted: Stage, start_daemon: StartDaemon) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    await daemon.load_contract()
    empty = await daemon.get("/api/stats")
    assert empty["hooks"] == {"sessions": [], "events": []}
    elsewhere = opened()
    elsewhere["repository"]["full_name"] = "alice/other"
    async with daemon.client(known=False) as forge:
        await ended_job(daemon, await received(forge, "gitea.issues.opened", opened()))
        await until_handled(daemon, await received(forge, "gitea.issues.opened", elsewhere))
    place = {"repo": "alice/maze", "agent": "boss", "state": "resumable"}
    assert (await daemon.get("/api/stats"))["hooks"] == {
        "sessions": [{**place, "count": 1}],
        "events": [
            {"forge": "gitea", "state": "dispatched", "count": 1},
            {"forge": "gitea", "state": "ignored", "count": 1},
        ],
    }
    found = await scraped(daemon)
    assert value(found, "clew_hook_sessions", **place) == 1
    for state in ("dispatched", "ignored"):
        assert value(found, "clew_hook_events", forge="gitea", state=state) == 1
    assert value(found, "clew_runs_total", kind="hook", agent="claude", outcome="success") == 1


@pytest.mark.rest
async def test_settings_are_shown_and_say_whether_hooks_are_used(daemon: LocalDaemon, scripted: Stage) -> None:
    """The page shows hooks only when they are used."""
    settings = await daemon.get("/api/hooks/settings")
    assert (settings["is_used"], settings["work"], settings["rules"]) == (False, 0, [])
    assert {each["forge"]: each["has_secret"] for each in settings["forges"]} == {
        "github": False,
        "gitea": False,
        "forgejo": False,
    }
    assert daemon.shared is not None
    await a_session(daemon, used_at=1.0)
    assert (await daemon.get("/api/hooks/settings"))["is_used"]
    [session] = (await daemon.get("/api/hooks/sessions"))["items"]
    assert (session["key"], session["state"], session["last_event"]) == (KEY, "fresh", None)


async def test_missed_clean_ups_are_done_after_the_start(scripted: Stage) -> None:
    async with local_daemon(scripted) as daemon:
        assert daemon.shared is not None
        client = daemon.shared.client
        await a_session(daemon, used_at=1.0)
        async with asyncio.timeout(60), running_worker(client, DaemonWork(0), first_sweep_s=0):
            while await client.hooks.sessions.list():
                await client.views.written()
        assert (await daemon.get("/api/hooks/sessions"))["items"] == []


async def a_session(daemon: LocalDaemon, *, used_at: float) -> None:
    """A session key in the store, as an event of long ago left it."""
    assert daemon.shared is not None
    made = await daemon.thread("boss-alice-maze-4")
    key = HookKey(KEY, "boss", "alice/maze", 4, "gitea", made["id"], None, used_at, used_at)
    await daemon.shared.client.engine.store.call(lambda store: store.hooks.save_key(key))


@pytest.mark.rest
async def test_an_agent_that_ignores_signals_does_not_delay_the_shutdown(
    scripted: Stage, start_daemon: StartDaemon
) -> None:
    repository(scripted)
    daemon = start_daemon(scripted, **SECRETS)
    scripted.fault({"do": "hang_after_init", "ignore_term": True})
    async with daemon.client(known=False) as forge:
        await until_handled(daemon, await received(forge, "gitea.issues.opened", opened()))
    assert await asyncio.to_thread(daemon.stop) == 0
    assert "Traceback" not in daemon.log
