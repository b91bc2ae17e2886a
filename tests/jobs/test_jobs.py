"""Jobs from submission to their end, run by a worker with the scripted and the real Claude CLI."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import subprocess
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from clew.api.client import Client
from clew.core.jobs.job import CONTINUE, Job, JobStatus, Limits, StartMode
from clew.engine.durable import worker as work
from clew.engine.durable.claims import WorkerSlot
from clew.errors import Conflict, StoreError
from clew.git.checkpoints import Checkpoint, Checkpoints
from clew.hosts.jobs.runner import JobRunner
from clew.store.tables.jobs import JobTable
from clew.testing.model.scripts import Fail, Reply, Request, Text, TooLong
from clew.testing.stage import Stage
from jobs.processes import REFUSED, a_job, a_repository, carried_out, ended, workers


async def test_a_job_runs_and_its_answer_is_the_result(stage: Stage) -> None:
    async with stage.open() as client:
        jobs = client.jobs
        async with workers(stage):
            done = await ended(client, await jobs.submit(a_job(stage, "!say all done")))
        assert (done.status, done.result, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, "all done", 1, 0)
        assert done.session_id and done.session_saved_at
        [marker] = await client.engine.store.call(lambda store: store.jobs.markers(done.id))
        assert (marker.number, marker.text, marker.run_id) == (1, "all done", done.run_id)
        assert marker.message_id, "the agent's own"


async def test_after_a_time_out_a_resumed_run_is_told_to_continue(
    stage: Stage, pass_an_hour: Callable[[], None]
) -> None:
    async with stage.open() as client:
        job = await client.jobs.submit(a_job(stage, "!hang text so far", limits=Limits(timeout_s=600)))
        carrying = asyncio.create_task(client.carry_out(job.id))
        await asyncio.to_thread(stage.api.wait_for_hanging, 1)
        pass_an_hour()
        await carrying
        done = await client.jobs.find(job.id)
        assert (done.status, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, 2, 1)
        assert stage.launches[-1].resumes
        assert stage.prompt == CONTINUE
        assert sum("!hang" in text for role, text in stage.shown if role == "user") == 1


async def test_a_worker_stops_when_told_to_even_if_its_store_fails(
    scripted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StoreError("It is away.", kind="unreachable")

    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!hang text so far"))
        stop = asyncio.Event()
        working = asyncio.create_task(client.work(1, stop))
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        with monkeypatch.context() as broken:
            broken.setattr(JobTable, "require", away)  # it is called when a job is handed back
            stop.set()
            await asyncio.wait({working}, timeout=60)
            assert working.done()
            await working
        assert len(scripted.launches) == 1, "nor is its agent started again"
        async with workers(scripted):
            assert (await ended(client, job)).status is JobStatus.SUCCEEDED, "another worker continues it"


async def test_a_worker_that_stops_while_the_queue_starts_ends_the_queue(
    scripted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, go_on, ends = threading.Event(), threading.Event(), []

    def launch(*_: object) -> contextlib.ExitStack:
        starting.set()
        go_on.wait(60)
        stack = contextlib.ExitStack()
        stack.callback(ends.append, "the queue")
        return stack

    monkeypatch.setattr(work, "_launch", launch)
    async with scripted.open() as client:
        context, settings = client.engine.context, work.WorkerSettings("w", None)
        waiting = [work.WorkItem("event", "e", 1, "k")]
        worker = work.Worker(client.engine.store, context, settings, {}, lambda _: waiting, never)
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(stop))
        await asyncio.to_thread(starting.wait, 60)
        stop.set()
        await asyncio.sleep(0)
        go_on.set()
        async with asyncio.timeout(60):
            await working
        assert ends == ["the queue"]


async def never(job_id: str, slot: WorkerSlot) -> float | None:
    raise AssertionError("there is no job")


@pytest.mark.rest
async def test_a_job_that_may_not_be_resumed_starts_over_with_the_original_prompt(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        async with workers(scripted):
            job = await jobs.submit(
                a_job(scripted, "!slow 1000 0.05", limits=Limits(timeout_s=5, max_resumes=0, max_runs=2))
            )
            failed = await ended(client, job)
        assert failed.status is JobStatus.FAILED
        assert (failed.runs, failed.reason) == (2, "worn_out")
        assert not scripted.launches[-1].resumes
        assert scripted.prompt == "!slow 1000 0.05"


async def test_jobs_of_one_key_run_in_order_and_others_beside_them(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        submitted = [await jobs.submit(a_job(scripted, f"!say {n}", key="k")) for n in range(4)]
        other = await jobs.submit(a_job(scripted, "!say other"))
        async with workers(scripted):
            done = [await ended(client, job) for job in (*submitted, other)]
        assert all(job.status is JobStatus.SUCCEEDED for job in done)
        times = [(job.started_at, job.ended_at) for job in done[:4]]
        assert all(before[1] <= after[0] for before, after in pairwise(times))  # type: ignore[operator]


async def test_an_auth_failure_blocks_and_a_retry_resumes(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        async with workers(scripted):
            job = await jobs.submit(a_job(scripted, REFUSED))
            blocked = await ended(client, job)
            assert blocked.status is JobStatus.BLOCKED and blocked.hint
            await jobs.retry(job.id, StartMode.RESUME)
            done = await ended(client, job)
        assert done.status is JobStatus.SUCCEEDED and done.tries == 2
        with pytest.raises(Conflict):
            await jobs.retry(job.id)


async def stopped_in_mid_work(stage: Stage, client: Client) -> Job:
    """A job that is blocked after its first run, with its files saved."""
    a_repository(stage)
    job = await client.jobs.submit(a_job(stage, REFUSED, checkpoint=True))
    return await ended(client, job)


@pytest.mark.parametrize("how", ["restore", "keep"])
async def test_changed_files_are_a_conflict_until_a_person_decides(scripted: Stage, how: str) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        async with workers(scripted):
            job = await stopped_in_mid_work(scripted, client)
            (scripted.work / "kept.txt").write_text("somebody else was here\n")
            (scripted.work / "new.txt").write_text("new\n")
            await jobs.retry(job.id)
            conflict = await ended(client, job)
            assert conflict.status is JobStatus.CONFLICT
            assert set(conflict.conflicts) == {"kept.txt", "new.txt"}
            assert conflict.runs == 1, "no agent was started"
            with pytest.raises(Conflict):
                await jobs.retry(job.id)
            await jobs.retry(job.id, restore=how == "restore", keep=how == "keep")
            done = await ended(client, job)
        assert done.status is JobStatus.SUCCEEDED
        there = (scripted.work / "kept.txt").read_text()
        assert there == ("as it was\n" if how == "restore" else "somebody else was here\n")
        assert (scripted.work / "new.txt").exists() == (how == "keep")


async def test_the_agents_own_changes_are_not_a_conflict(scripted: Stage, pass_an_hour: Callable[[], None]) -> None:
    async with scripted.open() as client:
        a_repository(scripted)
        made = scripted.work / "made.txt"
        prompt = f'!tool Bash {{"command": "echo x > {made}; sleep 30"}}'
        job = await client.jobs.submit(a_job(scripted, prompt, checkpoint=True, limits=Limits(timeout_s=600)))
        # Else an interval would end with the same hour, and its save could leave nothing for the cut-off.
        runner = JobRunner(client.engine, checkpoint_s=86_400)
        carrying = asyncio.create_task(runner.carry_out(job.id, "here"))
        async with asyncio.timeout(60):
            while not made.exists():
                await asyncio.sleep(0.05)
        pass_an_hour()
        await carrying
        done = await client.jobs.find(job.id)
        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 2)
        saved = await Checkpoints(str(scripted.work), job.id, scripted.environ).list()
        assert {"start", "cut_off"} <= {checkpoint.why for checkpoint in saved}
        status = subprocess.run(
            ["git", "-C", str(scripted.work), "status", "--porcelain"], capture_output=True, text=True, check=True
        )
        assert status.stdout == "?? made.txt\n", "the user's index and branch are as they were"


async def test_changed_files_are_saved_at_intervals_during_a_run(scripted: Stage) -> None:
    a_repository(scripted)
    wait = "while [ ! -e {0} ]; do sleep 0.05; done"
    go = [scripted.folder / "go 1", scripted.folder / "go 2"]
    waits = [wait.format(shlex.quote(str(path))) for path in go]
    command = f"echo half > made.txt; {waits[0]}; echo whole > made.txt; {waits[1]}"
    prompt = f"!tool Bash {json.dumps({'command': command})}"

    def saved(checkpoint: Checkpoint) -> str:
        shown = ["git", "-C", str(scripted.work), "show", f"{checkpoint.commit}:made.txt"]
        return subprocess.run(shown, capture_output=True, text=True).stdout

    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, prompt, checkpoint=True))
        kept = Checkpoints(str(scripted.work), job.id, scripted.environ)
        runner = JobRunner(client.engine, checkpoint_s=0.3)
        carrying = asyncio.create_task(runner.carry_out(job.id, "here"))
        async with asyncio.timeout(90):
            for text, path in zip(("half\n", "whole\n"), go, strict=True):
                while not any(each.why == "interval" and saved(each) == text for each in await kept.list()):
                    await asyncio.sleep(0.1)
                path.touch()
            await carrying
        assert (await client.jobs.find(job.id)).status is JobStatus.SUCCEEDED
        during = [each for each in await kept.list() if each.why in ("start", "interval")]
    texts = [saved(each) for each in during]
    assert all(before != after for before, after in pairwise(texts)), "only when they changed"


@pytest.mark.rest
async def test_a_usage_limit_is_waited_for_and_the_session_is_kept(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        asked: list[str] = []

        def reply(request: Request) -> Reply | None:
            if not request.is_main:
                return None
            asked.append(request.shown_texts()[-1][1])
            soon = int(client.engine.context.clock()) + 8
            return Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{soon}") if len(asked) == 1 else None

        scripted.api.reply = reply
        async with workers(scripted):
            job = await jobs.submit(a_job(scripted, "!say done"))
            waiting = await ended(client, job, status=JobStatus.WAITING)
            assert waiting.status is JobStatus.WAITING and waiting.wake_at
            done = await ended(client, job)
        assert (done.status, done.runs, done.troubles) == (JobStatus.SUCCEEDED, 1, 0), "the limit's run does not count"
        assert (done.ended_at or 0) >= waiting.wake_at


@pytest.mark.rest
async def test_a_deadline_ends_a_job_that_waits_and_one_that_runs(scripted: Stage) -> None:
    async with scripted.open() as client:
        now = client.engine.context.clock()
        late = a_job(scripted, "!say x", not_before=now + 600, limits=Limits(deadline_at=now + 1))
        runs = a_job(scripted, "!slow 10000 0.05", limits=Limits(deadline_at=now + 12))
        over = [await carried_out(client, await client.jobs.submit(new)) for new in (late, runs)]
        assert [job.status for job in over] == [JobStatus.FAILED] * 2
        assert [job.runs for job in over] == [0, 1]
        assert "deadline" in (over[0].error or "")


OVERLOADED = Fail(529, "overloaded_error", "Overloaded")
STRANGE = Fail(418, "teapot", "I am one")


@pytest.mark.parametrize(
    ("replies", "status", "runs"),
    [
        ([OVERLOADED], JobStatus.SUCCEEDED, 2),  # repeated after a pause, in the same session
        ([OVERLOADED] * 9, JobStatus.FAILED, 2),  # up to a limit
        ([TooLong()], JobStatus.SUCCEEDED, 2),  # a run does not repeat its prompt; the job starts a fresh session
        ([STRANGE] * 9, JobStatus.FAILED, 1),
    ],
)
async def test_each_kind_of_failure_leads_to_its_status(
    scripted: Stage, replies: list[Reply], status: JobStatus, runs: int
) -> None:
    left = list(replies)

    def reply(request: Request) -> Reply | None:
        return (left.pop(0) if left else Text("done")) if request.is_main else None

    scripted.api.reply = reply
    async with scripted.open() as client:
        jobs = client.jobs
        async with workers(scripted):
            job = await jobs.submit(a_job(scripted, "do it", limits=Limits(retries=1)))
            over = await ended(client, job)
        assert (over.status, over.runs) == (status, runs), over
        assert over.error or over.result == "done"


async def test_jobs_share_a_limit_over_all_workers(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = client.jobs
        async with workers(scripted, {"CLEW_JOBS_MOST_AT_ONCE": "1"}, 2):
            submitted = [await jobs.submit(a_job(scripted, "!slow 5 0.05")) for _ in range(3)]
            done = [await ended(client, job) for job in submitted]
        assert all(job.status is JobStatus.SUCCEEDED for job in done)
        runs = sorted(((run.started_at or 0, run.ended_at or 0) for run in await client.runs()), key=lambda run: run[0])
        assert all(before[1] <= after[0] for before, after in pairwise(runs))
