"""Workers are killed, suspended and started: every job ends once, in order, and no prompt is shown twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import subprocess
from collections import Counter
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import pytest

import forkserver
from clew import config
from clew.api.client import Client
from clew.core.hooks.hook import Forge, HookEvent
from clew.core.jobs.job import ACTIVE, CONTINUE, Job, JobStatus, Limits
from clew.core.runs.run import RunStatus
from clew.errors import StoreError
from clew.git.checkpoints import Checkpoints
from clew.testing.model.scripts import Slow, Text, newest_user_text
from clew.testing.postgres import PostgresServer
from clew.testing.stage import AgentLaunch, Stage
from clew.wiring.worker import open_worker
from jobs.processes import a_job, a_repository, end, ended, log_of, speaking, start, until, workers


@pytest.mark.parametrize("at", ["text", "tool"])
async def test_a_killed_workers_job_is_taken_over_in_a_copy_of_the_session(stage: Stage, at: str) -> None:
    prompt = "!slow 400 0.05" if at == "text" else '!tool Bash {"command": "echo once >> made; sleep 60"}'
    answer = Text("the right answer")
    stage.api.reply = lambda request: answer if newest_user_text(request.messages).endswith(CONTINUE) else None
    async with stage.open() as client:
        async with workers(stage, {}) as alive:
            job = await client.jobs.submit(a_job(stage, prompt))
            await speaking(client, job, "text_streamed" if at == "text" else "tool_started")
            async with asyncio.timeout(60):
                while at == "tool" and not (stage.work / "made").exists():
                    await asyncio.sleep(0.05)
            alive[0].kill()
            alive[0] = await start(stage, {})
            done = await ended(client, job)
        assert (done.status, done.result, done.runs) == (JobStatus.SUCCEEDED, "the right answer", 2), done
        assert at == "text" or (stage.work / "made").read_text() == "once\n", "what was done is not done again"
        assert sum(prompt in text for role, text in stage.shown if role == "user") == 1
        launch = stage.launches[-1]
        assert launch.resumes and "--fork-session" in launch.argv
        assert done.session_id != launch.resumes


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
async def test_jobs_end_once_and_in_order_whatever_happens_to_their_workers(
    scripted: Stage, tmp_path_factory: pytest.TempPathFactory, where: str, count: int
) -> None:
    """Workers are killed and suspended at random. On PostgreSQL the database is restarted meanwhile."""
    with ExitStack() as stack:
        environ: dict[str, str] = {}
        server: PostgresServer | None = None
        if where == "postgres":
            server = stack.enter_context(PostgresServer(tmp_path_factory.mktemp("storm") / "data"))
            environ["CLEW_STORE"] = server.new_database()
        dice = random.Random(count)
        async with scripted.open(environ=environ) as client, workers(scripted, environ, 3) as alive:
            limits = Limits(max_resumes=100, max_runs=100)
            jobs = [
                await client.jobs.submit(
                    a_job(scripted, f"!slow 10 {dice.choice([0.01, 0.1])}", key=f"k{number % 6}", limits=limits)
                )
                for number in range(count)
            ]
            watch = SessionWatch(scripted)
            unrest = asyncio.create_task(_unrest(scripted, environ, alive, dice, count // 3))
            beside = [unrest, asyncio.create_task(watch.run())]
            try:
                if server is not None:
                    await _restart(client, server, jobs[count // 3])
                done = [await patiently(client, job.id, 700) for job in jobs]
            finally:
                for task in beside:
                    task.cancel()
                ends = await asyncio.gather(*beside, return_exceptions=True)
            assert not [each for each in ends if isinstance(each, Exception)]
            await _hold_up(client, done, watch)


async def _hold_up(client: Client, done: list[Job], watch: SessionWatch) -> None:
    assert [job.status for job in done] == [JobStatus.SUCCEEDED] * len(done)
    assert {job.result for job in done if job.runs == 1} <= {" ".join(f"w{n}" for n in range(10))}
    for key in {job.key for job in done}:
        line = [job for job in done if job.key == key]
        for before, after in pairwise(line):
            assert (before.ended_at or 0) <= (after.started_at or 0), "order by key"
    used: dict[str, list[tuple[float, float]]] = {}
    for job in done:
        runs = await client.runs(thread=await client.find(job.thread_id), limit=1000)
        assert [run.status for run in runs].count(RunStatus.ANSWERED) == 1, "every job ends exactly once"
        assert len(runs) == job.runs, "and every run counts"
        for attempt in [attempt for run in runs for attempt in await client.attempts(run.id)]:
            used.setdefault(attempt.session_id, []).append((attempt.started_at, attempt.ended_at or 0))
    for times in used.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(times))), (
            "one agent a session, by the rows"
        )
    assert watch.most and max(watch.most.values()) == 1, "and by the processes"


class SessionWatch:
    """Checks which agents are alive, and how many of them write to one session."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.most: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            for session, count in Counter(await asyncio.to_thread(self._look)).items():
                self.most[session] = max(count, self.most.get(session, 0))
            await asyncio.sleep(0.2)

    def _look(self) -> list[str]:
        """The sessions that agents write to. The source of a copy is only read."""
        found: dict[int, tuple[int, str]] = {}
        for pid in self._stage.processes():
            try:
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
                parent = int(Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[1])
            except OSError:
                continue
            launch = AgentLaunch(tuple(argv))
            session = launch.session_id or launch.resumes
            if launch.is_turn and session is not None:
                found[pid] = parent, session
        # For a moment after a fork, a process has its parent's command line.
        return [session for parent, session in found.values() if found.get(parent, (0, ""))[1] != session]


async def _unrest(
    stage: Stage,
    environ: dict[str, str],
    alive: list[forkserver.AsyncProcess],
    dice: random.Random,
    disturbances: int,
) -> None:
    """Runs until it is cancelled: it still replaces workers after the last disturbance."""
    for left in itertools.count(disturbances, -1):
        await asyncio.sleep(dice.uniform(1.0, 3.0))
        await _replace_ended(stage, environ, alive)
        if left <= 0:
            continue
        index = dice.randrange(len(alive))
        if dice.random() < 0.5:
            _send(alive[index], signal.SIGKILL)
            await alive[index].wait()
            alive[index] = await start(stage, environ)
        else:
            _send(alive[index], signal.SIGSTOP)
            try:
                await asyncio.sleep(dice.uniform(0.2, 1.0))
            finally:
                _send(alive[index], signal.SIGCONT)


async def _replace_ended(stage: Stage, environ: dict[str, str], alive: list[forkserver.AsyncProcess]) -> None:
    """Restarts ended workers, as a service manager does. A worker that finds no database at its start ends itself."""
    for index, process in enumerate(alive):
        if process.returncode is not None:
            assert "CLEW_STORE" in environ and process.returncode == StoreError.exit_code, log_of(stage)
            alive[index] = await start(stage, environ)


def _send(process: forkserver.AsyncProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended itself: the next check sees that
        process.send_signal(number)


async def _restart(client: Client, server: PostgresServer, middle: Job) -> None:
    """Restarts the database when this many jobs have ended."""
    await patiently(client, middle.id, 700)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)


async def test_a_worker_that_stops_hands_its_job_to_the_next(scripted: Stage) -> None:
    async with scripted.open() as client:
        async with workers(scripted, {}) as alive:
            job = await client.jobs.submit(a_job(scripted, "!slow 400 0.05"))
            await speaking(client, job)
            alive[0].terminate()
            await alive[0].wait()
            assert alive[0].returncode == 0
            back = await client.jobs.find(job.id)
            assert (back.status, back.worker) == (JobStatus.QUEUED, None)
            alive[0] = await start(scripted, {})
            done = await ended(client, job)
        assert (done.status, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, 2, 1)


async def test_a_worker_that_stops_saves_the_files_of_its_job(scripted: Stage) -> None:
    a_repository(scripted)
    made = scripted.work / "made.txt"
    async with scripted.open() as client:
        async with workers(scripted) as alive:
            prompt = '!tool Bash {"command": "echo half > made.txt; sleep 300"}'
            job = await client.jobs.submit(a_job(scripted, prompt, checkpoint=True))
            async with asyncio.timeout(60):
                while not (made.exists() and made.read_text() == "half\n"):
                    await asyncio.sleep(0.1)
            await end(alive)
            assert alive[0].returncode == 0
            back = await client.jobs.find(job.id)
            assert (back.status, back.saved_run_id) == (JobStatus.QUEUED, back.run_id)
            kept = await Checkpoints(str(scripted.work), job.id, scripted.environ).last()
            assert kept is not None and kept.why == "cut_off"
            shown = ["git", "-C", str(scripted.work), "show", f"{kept.commit}:made.txt"]
            assert subprocess.run(shown, capture_output=True, text=True, check=True).stdout == "half\n"
            assert not scripted.processes()
            alive[0] = await start(scripted)
            done = await ended(client, job)
        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 2), "its own files are no conflict"


@pytest.mark.rest
async def test_jobs_survive_a_restart_of_the_database(
    scripted: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        environ = {"CLEW_STORE": server.new_store()}
        async with scripted.open(environ=environ) as client, workers(scripted, environ, 2):
            jobs = [await client.jobs.submit(a_job(scripted, "!slow 60 0.1")) for _ in range(4)]
            await until(client, jobs[0].id, lambda now: now.run_id is not None)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            done = [await patiently(client, job.id) for job in jobs]
        assert [job.status for job in done] == [JobStatus.SUCCEEDED] * 4


@pytest.mark.rest
async def test_an_unreachable_queue_is_reported_in_one_line_and_a_later_try_works(
    scripted: Stage, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The store still works: it is in a file, and the queue is not."""
    event = HookEvent(Forge.GITHUB, "delivery", "issue.opened", "o/r", 1, "someone")
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        elsewhere = config.load({"CLEW_STORE": server.new_store()}, None, {})
        async with scripted.open() as client:
            await client.engine.store.call(lambda store: store.hooks.add_event("hook", event, 1.0))
            await asyncio.to_thread(server.stop)
            given = client.engine, client.jobs, client.hooks, elsewhere, client.home
            worker = open_worker(*given, "one", 2)
            working = asyncio.create_task(worker.run(asyncio.Event(), until_idle=True))
            async with asyncio.timeout(120):
                while not (
                    told := [each.getMessage() for each in caplog.records if each.name == "clew.engine.durable.worker"]
                ):
                    await asyncio.sleep(0.05)
                assert "The queue's database cannot be reached" in told[0] and "\n" not in told[0]
                await asyncio.to_thread(server.start)
                await working
            stored = await client.engine.store.call(lambda store: store.hooks.event("hook"))
            assert stored is not None and stored.state == "ignored"
        assert not any(each.exc_info for each in caplog.records)


async def patiently(client: Client, job_id: str, limit_s: float = 120) -> Job:
    """The connection of this process broke as well: the first call fails, and the next one opens a new one."""
    async with asyncio.timeout(limit_s):
        while True:
            try:
                return await until(client, job_id, lambda now: now.status not in ACTIVE, limit_s)
            except StoreError:
                await asyncio.sleep(0.5)


async def test_a_run_that_was_answered_before_its_worker_died_is_not_repeated(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!say all done"))
        dying = await start(scripted, {"CLEW_FAULT": "outcome_stored"})
        async with asyncio.timeout(60):
            await dying.wait()
        assert (await client.jobs.find(job.id)).status is JobStatus.RUNNING
        async with workers(scripted, {}):
            done = await ended(client, job)
        assert (done.status, done.result, done.runs) == (JobStatus.SUCCEEDED, "all done", 1)
        assert len(scripted.launches) == 1


async def test_a_job_whose_worker_processes_keep_dying_ends(scripted: Stage) -> None:
    scripted.api.default = Slow("word " * 400, words_per_s=20)
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "take your time", limits=Limits(max_runs=2)))
        for _ in range(3):
            dying = await start(scripted, {"CLEW_FAULT": "session_started"})
            async with asyncio.timeout(60):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(dying.wait()),
                        asyncio.ensure_future(until(client, job.id, lambda now: now.status not in ACTIVE)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            if dying.returncode is None:
                dying.terminate()
                await dying.wait()
        over = await client.jobs.find(job.id)
        assert (over.status, over.runs) == (JobStatus.FAILED, 2)


async def test_a_job_without_a_worker_is_cancelled_at_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!slow 100 0.05"))
        dying = await start(scripted, {"CLEW_FAULT": "session_started"})
        async with asyncio.timeout(60):
            await dying.wait()
        assert (await client.jobs.cancel(job.id)).status is JobStatus.CANCELLED
