"""Jobs over HTTP: the calls, the events of all runs, the roots. The daemon's own client runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from clew.core.jobs.job import JobStatus
from clew.testing.stage import MODEL, Stage
from server.daemons import LocalDaemon, local_daemon

IN_A_DAY = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds")


async def submitted(daemon: LocalDaemon, prompt: str, **more: Any) -> Any:
    body = {"prompt": prompt, "cwd": str(daemon.stage.work), "model": MODEL, **more}
    return await daemon.post("/api/jobs", body, 201)


async def ended_job(daemon: LocalDaemon, job: Any) -> Any:
    """Runs the job in this process, as `submit --wait` does, and returns it."""
    assert daemon.shared is not None
    await daemon.shared.client.carry_out(job["id"])
    return await daemon.get(f"/api/jobs/{job['id']}")


@asynccontextmanager
async def running_job(daemon: LocalDaemon, job: Any) -> AsyncIterator[None]:
    assert daemon.shared is not None
    task = asyncio.create_task(daemon.shared.client.carry_out(job["id"]))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def sse_events(
    daemon: LocalDaemon, job: Any, *, after: str | None = None, by: str = "header"
) -> list[dict[str, str]]:
    """The fields of every server-sent event up to the end of the stream."""
    headers = {"Last-Event-ID": after} if after and by == "header" else {}
    query = f"?after={after}" if after and by == "query" else ""
    found: list[dict[str, str]] = []
    async with daemon.http.stream("GET", f"/api/jobs/{job['id']}/events{query}", headers=headers) as response:
        assert response.status_code == 200
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif not line and fields:
                found.append(fields)
                fields = {}
    return found


async def test_a_priority_is_stored_and_shown_and_a_bad_one_refused(daemon: LocalDaemon) -> None:
    urgent, plain = await submitted(daemon, "!say a", priority=3), await submitted(daemon, "!say b")
    assert (urgent["priority"], plain["priority"]) == (3, 50)
    assert [job["priority"] for job in (await daemon.get("/api/jobs"))["items"]] == [50, 3]
    for priority in (0, 101, 1.5, "high"):
        body = {"prompt": "!say c", "cwd": str(daemon.stage.work), "priority": priority}
        assert (await daemon.post("/api/jobs", body, 422))["errors"][0]["where"] == "priority"
    assert len((await daemon.get("/api/jobs"))["items"]) == 2


async def test_a_job_is_submitted_run_and_shown(daemon: LocalDaemon) -> None:
    made = await submitted(
        daemon, "!say done", key="k", timeout_s=60, retries=1, max_resumes=2, max_age_s=5, max_runs=7
    )

    assert (made["status"], made["permissions"], made["key"]) == ("queued", "edits", "k")
    named = ("timeout_s", "retries", "max_resumes", "max_age_s", "max_runs")
    assert [made["limits"][name] for name in named] == [60, 1, 2, 5, 7]
    done = await ended_job(daemon, made)
    assert (done["status"], done["result"], done["runs"], done["error"]) == ("succeeded", "done", 1, None)
    assert done["cost_usd"] > 0
    run = await daemon.get(f"/api/runs/{done['run_id']}")
    assert (run["kind"], run["belongs_to"]) == ("job", {"kind": "job", "id": made["id"], "name": None})
    assert (await daemon.get(f"/api/jobs/{made['id'][:10]}"))["id"] == made["id"], "by the beginning of its id"
    assert (await daemon.get("/api/jobs/latest"))["id"] == made["id"]
    [marker] = done["markers"]
    assert (marker["number"], marker["run"], marker["run_id"], marker["text"]) == (1, 1, done["run_id"], "done")
    assert (made["markers"], done["no_worker"]) == ([], None)
    assert made["no_worker"] == "No worker is alive to run the job: start `clew work`, or `clew serve --work`."


async def test_a_new_job_is_answered_with_its_address(daemon: LocalDaemon) -> None:
    response = await daemon.http.post("/api/jobs", json={"prompt": "x", "cwd": str(daemon.stage.work)})
    assert response.status_code == 201
    assert response.headers["Location"] == f"/api/jobs/{response.json()['id']}"


async def test_jobs_are_listed_by_status_and_key_with_the_workers_that_are_alive(daemon: LocalDaemon) -> None:
    first = await submitted(daemon, "!say one", key="k")
    second = await submitted(daemon, "!say two")
    await ended_job(daemon, second)

    listed = await daemon.get("/api/jobs")

    assert [job["id"] for job in listed["items"]] == [second["id"], first["id"]]
    assert listed["workers"] == 0
    assert [job["id"] for job in (await daemon.get("/api/jobs?status=succeeded"))["items"]] == [second["id"]]
    assert [job["id"] for job in (await daemon.get("/api/jobs?key=k"))["items"]] == [first["id"]]
    assert len((await daemon.get("/api/jobs?limit=1"))["items"]) == 1


@pytest.mark.rest
async def test_events_of_all_runs_continue_after_the_last_one_that_a_client_has(
    daemon: LocalDaemon, pass_an_hour: Callable[[], None]
) -> None:
    job = await submitted(daemon, "!hang text so far", timeout_s=600)
    async with running_job(daemon, job):
        telling = asyncio.create_task(sse_events(daemon, job))
        await asyncio.to_thread(daemon.stage.api.wait_for_hanging, 1)
        pass_an_hour()
        live = await telling

    changed = [json.loads(event["data"]) for event in live if event["event"] == "job_changed"]
    events = [event for event in live if event["event"] != "job_changed"]
    assert changed[0]["status"] in ("queued", "running")
    assert (changed[-1]["status"], changed[-1]["runs"]) == ("succeeded", 2)
    assert live[-1]["event"] == "job_changed"
    assert next(event["id"] for event in events if event["event"] == "run_ended").startswith("1-")
    for event in events:
        body = json.loads(event["data"])
        assert event["id"] == f"{body['run']}-{body['seq']}"
        assert event["event"] == body["kind"]
    assert len({event["id"] for event in events}) == len(events)

    again = [event for event in await sse_events(daemon, job) if event["event"] != "job_changed"]
    assert again == events, "the same from the store"
    middle = len(events) // 2
    for by in ("header", "query"):
        rest = await sse_events(daemon, job, after=events[middle]["id"], by=by)
        assert [event for event in rest if event["event"] != "job_changed"] == events[middle + 1 :]
        assert json.loads(rest[-1]["data"])["status"] == "succeeded"


async def test_a_blocked_job_says_what_to_do_and_is_retried_in_its_session(daemon: LocalDaemon) -> None:
    job = await submitted(daemon, "!fail 401 authentication_error invalid x-api-key")
    blocked = await ended_job(daemon, job)
    assert (blocked["status"], blocked["error"]["code"]) == ("blocked", "auth")
    assert "Log in" in blocked["error"]["hint"]

    queued = await daemon.post(f"/api/jobs/{job['id']}/retry?resume=true")
    done = await ended_job(daemon, job)

    assert (queued["status"], queued["tries"], queued["error"]) == ("queued", 2, None)
    assert (done["status"], done["resume_count"]) == ("succeeded", 1)
    assert daemon.stage.launches[-1].resumes == done["session_id"]
    refused = await daemon.http.post(f"/api/jobs/{job['id']}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_a_retry_without_resume_starts_with_the_prompt(daemon: LocalDaemon) -> None:
    job = await submitted(daemon, "!fail 401 authentication_error invalid x-api-key")
    await ended_job(daemon, job)

    await daemon.post(f"/api/jobs/{job['id']}/retry?resume=false")
    again = await ended_job(daemon, job)

    assert (again["status"], again["reason"]) == ("blocked", "forced_fresh")
    assert not daemon.stage.launches[-1].resumes


async def test_a_job_is_cancelled_while_it_waits_and_while_it_runs(daemon: LocalDaemon) -> None:
    waiting = await submitted(daemon, "x")
    assert (await daemon.post(f"/api/jobs/{waiting['id']}/cancel"))["status"] == "cancelled"
    over = await daemon.http.post(f"/api/jobs/{waiting['id']}/cancel")
    assert over.status_code == 409

    running = await submitted(daemon, "!hang text so far")
    async with running_job(daemon, running):
        await asyncio.to_thread(daemon.stage.api.wait_for_hanging, 1)
        asked = await daemon.post(f"/api/jobs/{running['id']}/cancel")
        events = await sse_events(daemon, running)
    assert (asked["status"], asked["cancel_requested"]) == ("running", True)
    assert json.loads(events[-1]["data"])["status"] == "cancelled"


async def test_a_job_has_a_thread_that_the_list_of_threads_leaves_out(daemon: LocalDaemon) -> None:
    await daemon.thread("chat")
    job = await submitted(daemon, "!say done")
    await ended_job(daemon, job)

    assert [thread["name"] for thread in (await daemon.get("/api/threads"))["items"]] == ["chat"]
    listed = await daemon.get("/api/threads?kind=job")
    assert [thread["id"] for thread in listed["items"]] == [job["thread_id"]]
    assert listed["total"] == 1
    view = await daemon.get(f"/api/threads/{job['thread_id']}/view")
    assert [turn["text"] for turn in view["turns"]] == ["!say done", "done"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"prompt": "x"}, "cwd"),
        ({"cwd": "/tmp"}, "prompt"),
        ({"prompt": "x", "cwd": "/tmp", "timeout_s": 0}, "timeout_s"),
        ({"prompt": "x", "cwd": "/tmp", "retries": -1}, "retries"),
        ({"prompt": "x", "cwd": "/tmp", "max_age_s": 0}, "max_age_s"),
        ({"prompt": "x", "cwd": "/tmp", "max_runs": 0}, "max_runs"),
        ({"prompt": "x", "cwd": "/tmp", "deadline_at": "tomorrow"}, "deadline_at"),
        ({"prompt": "x", "cwd": "/tmp", "deadline_at": "2026-99-01T00:00:00Z"}, "deadline_at"),
        ({"prompt": "x", "cwd": "/tmp", "permissions": "anything"}, "permissions"),
        ({"prompt": "x", "cwd": "/tmp", "colour": "red"}, "colour"),
        ({"prompt": "x", "cwd": "/tmp", "key": ""}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "key": "a\0b"}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "key": "a\nb"}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "key": "\x1b[31m"}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "key": "\u202e"}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "key": "k" * 201}, "key"),
        ({"prompt": "x", "cwd": "/tmp", "delay_s": 1e300}, "delay_s"),
        ({"prompt": "x", "cwd": "/tmp", "deadline_at": "2026-12-31T23:59:60Z"}, "deadline_at"),
    ],
)
async def test_an_invalid_value_is_refused_with_its_place(
    daemon: LocalDaemon, body: dict[str, Any], where: str
) -> None:
    response = await daemon.http.post("/api/jobs", json=body)
    assert response.status_code == 422
    assert where in [fault["where"] for fault in response.json()["errors"]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "  "}, "The prompt is empty."),
        ({"prompt": "x", "agent": "nobody"}, "nobody"),
        ({"prompt": "x", "deadline_at": "2001-01-01T00:00:00Z"}, "The deadline has already passed."),
        ({"prompt": "x", "deadline_at": IN_A_DAY, "delay_s": 2 * 86_400}, "begin only after its deadline"),
        ({"prompt": "x", "checkpoint": True}, "git"),
        ({"prompt": "x", "key": " "}, "The key ' ' is blank"),
        ({"prompt": "x", "deadline_at": "9999-12-31T23:59:59-23:59"}, "more than ten years away"),
        ({"prompt": "x", "delay_s": 1e9}, "longer than ten years"),
        ({"prompt": "x", "cwd": "/nowhere-at-all"}, "is not a directory"),
    ],
)
async def test_an_impossible_request_is_refused_with_a_sentence(
    daemon: LocalDaemon, body: dict[str, Any], words: str
) -> None:
    response = await daemon.http.post("/api/jobs", json={"cwd": str(daemon.stage.work), **body})
    assert response.status_code == 422
    assert words in response.json()["detail"]
    assert (await daemon.get("/api/jobs"))["items"] == []


async def test_a_time_out_of_range_is_shown_as_the_last_possible(daemon: LocalDaemon) -> None:
    assert daemon.shared is not None
    job = await submitted(daemon, "x")
    for status in (JobStatus.RUNNING, JobStatus.WAITING):
        await daemon.shared.client.engine.store.call(
            lambda store, status=status: store.jobs.update(job["id"], status=status, wake_at=1e18)  # type: ignore[misc]
        )
    shown = await daemon.get(f"/api/jobs/{job['id']}")
    assert shown["wake_at"] == "9999-12-31T23:59:59.999Z"
    assert [each["wake_at"] for each in (await daemon.get("/api/jobs"))["items"]] == [shown["wake_at"]]


@pytest.mark.parametrize("path", ["", "/retry", "/cancel", "/events"])
async def test_an_unknown_job_is_not_found(daemon: LocalDaemon, path: str) -> None:
    how = daemon.http.get if path in ("", "/events") else daemon.http.post
    response: httpx.Response = await how(f"/api/jobs/nonsense{path}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("place", ["x", "1", "1-", "-1", "1-x"])
async def test_an_invalid_last_event_id_is_refused(daemon: LocalDaemon, place: str) -> None:
    job = await submitted(daemon, "x")
    response = await daemon.http.get(f"/api/jobs/{job['id']}/events", headers={"Last-Event-ID": place})
    assert response.status_code == 422


async def test_jobs_stay_below_the_roots(scripted: Stage) -> None:
    (scripted.work / "inside").mkdir()
    async with local_daemon(scripted) as anywhere:
        outside = await submitted(anywhere, "!fail 401 authentication_error invalid x-api-key")
        await ended_job(anywhere, outside)
    async with local_daemon(scripted, roots=[scripted.work / "inside"]) as daemon:
        refused = await daemon.http.post("/api/jobs", json={"prompt": "x", "cwd": str(scripted.work)})
        again = await daemon.http.post(f"/api/jobs/{outside['id']}/retry")
        made = await submitted(daemon, "x", cwd=str(scripted.work / "inside"))
    assert (refused.status_code, again.status_code) == (403, 403)
    assert made["cwd"] == str(scripted.work / "inside")
