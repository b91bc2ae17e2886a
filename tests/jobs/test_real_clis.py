"""Jobs on the real CLIs: a time-out during a tool, a lost machine, and each kind of failure."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.jobs.job import CONTINUE, Job, JobStatus, Limits
from clew.core.record import replace
from clew.core.runs.limits import JITTER_S
from clew.testing.model.refusals import BROKEN_SESSIONS
from clew.testing.model.scripts import Reply, Request, Text, ToolUse, newest_user_text
from clew.testing.stage import CODEX_MODEL, SUBSCRIPTION, Stage
from jobs.processes import REFUSED, a_job, carried_out, ended, start, until, workers

pytestmark = pytest.mark.real

HOUR_S = 3600.0
POISON = BROKEN_SESSIONS[0].directive


def answers_once_told_to_go_on(request: Request) -> Reply | None:
    return Text("the right answer") if CONTINUE in newest_user_text(request.messages) else None


async def appeared(path: Path) -> None:
    async with asyncio.timeout(90):
        while not path.exists():
            await asyncio.sleep(0.1)


async def timed_out_in_its_tool(stage: Stage, client: Client, job: Job, pass_an_hour: Callable[[], None]) -> Job:
    """Runs a job whose first run times out in a tool that writes a file. Returns the finished job."""
    doing = asyncio.create_task(carried_out(client, job, 2 * HOUR_S))
    await appeared(stage.work / "made")
    pass_an_hour()
    return await doing


async def test_after_a_time_out_during_a_tool_the_job_continues_and_does_nothing_twice(
    real: Stage, pass_an_hour: Callable[[], None]
) -> None:
    real.api.reply = answers_once_told_to_go_on
    prompt = '!tool Bash {"command": "echo once >> made; sleep 120"}'
    async with real.open() as client:
        job = await client.jobs.submit(a_job(real, prompt, limits=Limits(timeout_s=HOUR_S / 2)))
        done = await timed_out_in_its_tool(real, client, job, pass_an_hour)
        runs = await client.runs(thread=await client.find(job.thread_id))
    assert (done.status, done.result) == (JobStatus.SUCCEEDED, "the right answer")
    assert (done.runs, done.resume_count) == (2, 1)
    assert [run.outcome for run in runs] == ["success", "timed_out"]
    assert (real.work / "made").read_text() == "once\n"
    assert sum(prompt in text for role, text in real.shown if role == "user") == 1


async def test_a_job_of_codex_continues_in_its_session_after_a_time_out(
    codex: Stage, pass_an_hour: Callable[[], None]
) -> None:
    codex.api.reply = answers_once_told_to_go_on
    prompt = '!tool exec_command {"cmd": "echo once >> made; sleep 120", "yield_time_ms": 30000}'
    new = replace(a_job(codex, prompt, limits=Limits(timeout_s=HOUR_S / 2)), agent="codex", model=CODEX_MODEL)
    async with codex.open() as client:
        job = await client.jobs.submit(new)
        done = await timed_out_in_its_tool(codex, client, job, pass_an_hour)
    assert (done.status, done.result) == (JobStatus.SUCCEEDED, "the right answer")
    assert (done.runs, done.resume_count) == (2, 1)
    assert codex.launches[-1].resumes == done.session_id
    assert (codex.work / "made").read_text() == "once\n"
    assert sum(prompt in text for role, text in codex.shown if role == "user") == 1


@pytest.mark.parametrize(("lost", "reason"), [("machine", "runtime_changed"), ("file", "session_missing")])
async def test_if_the_session_is_lost_the_agent_is_told_what_was_done(real: Stage, lost: str, reason: str) -> None:
    """Another machine has the same store and files, but not the agent's session files. Its home may differ."""
    first = ToolUse("Bash", {"command": "echo once >> made; echo fine"}, text="It is made once.")
    second = ToolUse("Bash", {"command": "touch begun; sleep 120"})
    real.api.script.extend([first, second])
    real.api.reply = answers_once_told_to_go_on
    elsewhere = {"HOME": str(real.folder / "other home")} if lost == "machine" else {}
    async with real.open() as client, workers(real) as alive:
        job = await client.jobs.submit(a_job(real, "do the work"))
        await appeared(real.work / "begun")
        alive[0].kill()
        await alive[0].wait()
        for pid in real.processes():  # they end with the machine; otherwise the agent would write its file again
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if lost == "machine":
            Path(elsewhere["HOME"]).mkdir()
        else:
            for file in real.session_files():
                file.unlink()
            shutil.rmtree(real.home / ".claude" / "projects", ignore_errors=True)
        alive[0] = await start(real, elsewhere)
        done = await ended(client, job)
    assert (done.status, done.result, done.runs) == (JobStatus.SUCCEEDED, "the right answer", 2)
    assert (done.reason, real.launches[-1].resumes) == (reason, None)
    assert (real.work / "made").read_text() == "once\n"
    told = real.prompt.split("# Work done so far")[1].splitlines()
    assert '- Bash {"command": "echo once >> made; echo fine"}: done, "fine"' in told
    assert "The last whole message before the work was cut off was number 1: “It is made once.”" in told
    assert any("touch begun" in line and line.endswith(": cut off while it ran") for line in told)
    assert real.prompt.count("do the work") == 1 and real.prompt.endswith(CONTINUE)


async def test_each_kind_of_failure_is_classified(real: Stage) -> None:
    """Only the outcome of the first run. Tests with the scripted agent check what follows."""
    real.account = SUBSCRIPTION
    async with real.open() as client:
        resets_at = int(client.engine.context.clock()) + 3600
        prompts = {
            REFUSED: (JobStatus.BLOCKED, "auth"),
            f"!limit {resets_at}": (JobStatus.WAITING, "usage_limit"),
            "!fail 529 overloaded_error Overloaded": (JobStatus.WAITING, "overloaded"),
            "!toolong": (JobStatus.WAITING, "overflow"),
            POISON: (JobStatus.WAITING, "poisoned"),
            "!fail 402 billing_error Your credit balance is too low to access the Anthropic API.": (
                JobStatus.BLOCKED,
                "billing",
            ),
            "!fail 404 not_found_error model: claude-nonexistent-9": (JobStatus.FAILED, "wrong_model"),
            "!fail 418 teapot I am one": (JobStatus.FAILED, "failed"),
        }
        seen = {}
        for prompt in prompts:
            job = await client.jobs.submit(a_job(real, prompt))
            carrying = asyncio.create_task(client.carry_out(job.id))
            try:
                over = await until(client, job.id, lambda now: now.saved_run_id is not None)
            finally:
                carrying.cancel()
                await asyncio.gather(carrying, return_exceptions=True)
            seen[prompt] = (over.status, over.outcome)
            assert over.runs == (over.outcome != "usage_limit"), "a run that met the account's limit does not count"
            if over.outcome == "usage_limit":
                assert over.wake_at is not None and 0 <= over.wake_at - resets_at <= JITTER_S
        assert seen == prompts
