"""A session that is full or broken is replaced once. A task that breaks every new session fails after a few."""

from __future__ import annotations

import pytest

from clew.api.jobs import error_of
from clew.core.jobs.job import JobStatus, Limits
from clew.testing.model.refusals import BROKEN_SESSIONS
from clew.testing.model.scripts import Reply, Request, Text, TooLong, ToolUse
from clew.testing.stage import Stage
from jobs.processes import REFUSED, a_job, carried_out

POISON = BROKEN_SESSIONS[0].api


@pytest.mark.rest
@pytest.mark.parametrize(("spoiled", "outcome"), [(TooLong(), "overflow"), (POISON, "poisoned")])
async def test_a_task_that_breaks_every_new_session_fails(scripted: Stage, spoiled: Reply, outcome: str) -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply | None:
        asked.append(request)
        return spoiled if request.is_main else None

    scripted.api.reply = reply
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "do it", limits=Limits(retries=1)))
        over = await carried_out(client, job)
        first, second = reversed(await client.runs(thread=await client.find(job.thread_id)))
    assert (over.status, over.outcome, over.runs) == (JobStatus.FAILED, outcome, 2)
    assert (second.started_at or 0) - (first.ended_at or 0) >= 2.5, "after a pause"
    assert len(asked) <= 4, "of which each may be asked once more, in short"
    error = error_of(over)
    assert error is not None and "retry" in (error.hint or "") and "--fresh" in (error.hint or "")
    assert "continues where it stopped" not in (error.hint or "")


@pytest.mark.parametrize(("spoiled", "reason"), [(TooLong(), "overflow"), (POISON, "poisoned")])
async def test_an_unusable_session_is_replaced_at_once_without_a_retry(
    scripted: Stage, spoiled: Reply, reason: str
) -> None:
    """A tool has already run, so the run itself does not fall back to a fresh session."""
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, REFUSED, limits=Limits(retries=0)))
        assert (await carried_out(client, job)).status is JobStatus.BLOCKED
        left: list[Reply] = [ToolUse("Bash", {"command": "true"}), spoiled]
        scripted.api.reply = lambda request: (left.pop(0) if left else Text("done")) if request.is_main else None
        await client.jobs.retry(job.id)
        over = await carried_out(client, job)
    assert (over.status, over.result, over.runs) == (JobStatus.SUCCEEDED, "done", 3)
    assert (over.reason, over.resume_count, over.session_resumes) == (reason, 1, 0)
    assert scripted.prompt == REFUSED, "the original prompt, in a session of its own"
