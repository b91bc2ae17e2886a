"""Interrupted jobs whose session cannot be continued as it is: no session loses the note of the work that was done.

The jobs of one key share a thread, so that there are completed turns before the interrupted one. A job that somebody
submits has a thread of its own: nothing stands before its prompt, and its next session is a fresh one.
"""

from __future__ import annotations

import asyncio

from clew.api.client import Client, Thread
from clew.core import prompts, work_done
from clew.core.jobs.job import CONTINUE, Job, JobStatus
from clew.core.runs.run import Run
from clew.testing.model.scripts import Hang, Reply, Request, ToolUse, newest_tool_result, newest_user_text
from clew.testing.stage import Stage
from hooks.project import SETTINGS, HookProject, event, succeeded
from jobs.processes import a_job, start

ALLOWED = SETTINGS.replace('model = "{model}"\n', 'model = "{model}"\npermissions = "all"\n', 1)
TOUCH = "touch done-before"


def busy(request: Request) -> Reply | None:
    """A model that runs a command, and then thinks for ever."""
    if not request.is_main or "Begin." not in newest_user_text(request.messages) + _result(request):
        return None
    return Hang() if newest_tool_result(request.messages) is not None else ToolUse("Bash", {"command": TOUCH})


def _result(request: Request) -> str:
    return "Begin." if newest_tool_result(request.messages) is not None else ""


async def interrupted(stage: Stage, client: Client, job: Job) -> None:
    """The job's worker is killed after the agent has run a command."""
    stage.api.reply = busy
    worker = await start(stage)
    await asyncio.to_thread(stage.api.wait_for_hanging, 1)
    worker.kill()
    await worker.wait()
    await client.engine.recover()
    await asyncio.to_thread(stage.api.wait_for_hanging, 0)
    stage.api.reply = None


async def second_event(client: Client) -> Job:
    received = await client.hooks.receive(event("issue.commented", text="Begin."))
    await client.hooks.handle(received.id)
    [job_id] = next(each.jobs for each in await client.hooks.events() if each.id == received.id)
    return await client.jobs.find(job_id)


async def completed(client: Client, job: Job) -> tuple[Job, Run, Thread]:
    async with asyncio.timeout(90):
        await client.carry_out(job.id)
    done = await client.jobs.find(job.id)
    assert done.status is JobStatus.SUCCEEDED, (done.status, done.error)
    return done, await client.run(done.run_id or ""), await client.find(done.thread_id)


def assert_told(stage: Stage) -> None:
    """The model was told once what was done, and that it is not to be done again."""
    prompt = stage.prompt
    assert prompt.count(prompts.WORK_DONE) == 1
    assert prompt.count(work_done.NOTE) == 1 and prompt.count(f'- Bash {{"command": "{TOUCH}"}}') == 1
    assert prompt.rstrip().endswith(CONTINUE)


async def test_a_job_whose_prompt_was_edited_meanwhile_continues_before_it_and_is_told_what_was_done(
    stage: Stage,
) -> None:
    project = HookProject(stage, ALLOWED)
    async with project.open() as client:
        first = await succeeded(client, event())
        job = await second_event(client)
        await interrupted(stage, client, job)
        thread = await client.find(job.thread_id)
        _, answer, asked, *_ = await thread.turns()
        await thread.edit(asked.id, "Begin, but slowly.")
        content = {path: path.read_bytes() for path in stage.session_files()}
        _, run, _ = await completed(client, job)
        assert (run.session_resumed, run.reason, run.rewound_to_turn_id) == (True, "history_changed", answer.id)
        assert stage.launches[-1].resumes == first.session_id
        assert {path: path.read_bytes() for path in content} == content
        assert_told(stage)
        assert prompts.DROPPED_NOTE in stage.prompt
        assert stage.prompt.splitlines().count("Begin, but slowly.") == 1
        texts = [text for role, text in stage.shown if role == "user"]
        assert sum("SKILL" in text for text in texts) == 1, "the first event's: the copy still holds it"


async def test_a_job_whose_session_is_lost_continues_in_an_older_one_and_is_told_what_was_done(
    scripted: Stage,
) -> None:
    project = HookProject(scripted, ALLOWED)
    async with project.open() as client:
        first = await succeeded(client, event())
        thread = await client.find(first.thread_id)
        await (await thread.ask("a fresh start", fresh_session=True))
        job = await second_event(client)
        await interrupted(scripted, client, job)
        newest = (await client.runs(thread=thread))[0].session_id
        [path] = [path for path in scripted.session_files() if path.stem == newest != first.session_id]
        path.unlink()
        _, run, _ = await completed(client, job)
        assert (run.session_resumed, run.reason) == (True, "session_missing")
        assert scripted.launches[-1].resumes == first.session_id
        assert_told(scripted)


async def test_a_submitted_job_has_nothing_before_its_prompt_and_its_fresh_session_is_told(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "Begin."))
        await interrupted(scripted, client, job)
        thread = await client.find(job.thread_id)
        await thread.edit((await thread.turns())[0].id, "Begin, but slowly.")
        done, run, _ = await completed(client, job)
        assert (run.session_resumed, run.reason, done.reason) == (False, "history_changed", "history_changed")
        assert_told(scripted)


async def test_without_rewinds_it_is_fresh_and_told_as_well(scripted: Stage) -> None:
    project = HookProject(scripted, ALLOWED)
    async with scripted.open(rewind=False) as client:
        await succeeded(client, event())
        job = await second_event(client)
        await interrupted(scripted, client, job)
        thread = await client.find(job.thread_id)
        await thread.edit((await thread.turns())[2].id, "Begin, but slowly.")
        _, run, _ = await completed(client, job)
        assert (run.session_resumed, run.reason) == (False, "history_changed")
        assert_told(scripted)
    assert project.repo.exists()


async def test_without_rewinds_a_prompt_that_never_arrived_is_sent_again_in_the_same_session(scripted: Stage) -> None:
    """It is not asked again by a person: nobody has seen an answer to it."""
    project = HookProject(scripted, ALLOWED)
    async with scripted.open(rewind=False) as client:
        first = await succeeded(client, event())
        job = await second_event(client)
        dying = await start(scripted, {"CLEW_FAULT": "decided"})
        async with asyncio.timeout(60):
            await dying.wait()
        _, run, _ = await completed(client, job)
        assert (run.session_resumed, run.reason) == (True, None)
        assert scripted.launches[-1].resumes == first.session_id
    assert project.repo.exists()
