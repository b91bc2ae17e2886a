"""A work directory whose git settings name commands: none of them runs when the real agents run git there."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.reviews.review import RoundStatus
from clew.core.thread import Permissions
from clew.hosts.jobs.jobs import JobSpec
from clew.hosts.reviews.reviews import ReviewSpec
from clew.testing.stage import CODEX_MODEL, Stage
from git import trap
from jobs.processes import carried_out
from reviews.reviewer import Reviewer, answer

pytestmark = pytest.mark.real


@pytest.fixture
def ran(both_real: Stage) -> Path:
    """The folder in which each command of the work directory's repository leaves a file."""
    ran = both_real.folder / "ran"
    trap.arm(trap.repository(both_real.work / "repo"), ran)
    trap.change(both_real.work / "repo")
    return ran


async def test_no_command_of_the_repository_runs_under_any_host(both_real: Stage, ran: Path) -> None:
    repo = both_real.work / "repo"
    async with both_real.open() as client:
        for agent in ("claude", "codex"):
            thread = await client.thread(agent, cwd=repo, agent=agent)
            for _ in range(2):
                assert (await (await thread.ask("Hello.", agent=agent))).status == "answered"
        assert trap.marks(ran) == set(), "ask"
        # The model may run git as well: its tools have the same environment.
        thread = await client.thread("tools", cwd=repo, agent="codex", permissions="all")
        reply = await (await thread.ask('!tool exec_command {"cmd": "git status --porcelain && git diff | head -40"}'))
        assert reply.status == "answered" and "-def a():" in str(both_real.api.main_requests[-1].messages)
        assert trap.marks(ran) == set(), "a tool"
        new = JobSpec("Hello.", str(repo), "codex", CODEX_MODEL, permissions=Permissions.ALL, checkpoint=True)
        job = await carried_out(client, await client.jobs.submit(new))
        assert job.result == "ack: Hello."
        assert trap.marks(ran) == set(), "a job with checkpoints"
        both_real.api.reply = Reviewer(answer())
        review = await (await client.reviews.start(ReviewSpec(str(repo), "codex", CODEX_MODEL))).finish()
        assert review.status is RoundStatus.DONE
        assert trap.marks(ran) == set(), "a review"


async def test_the_commands_run_where_the_project_is_trusted(both_real: Stage, ran: Path) -> None:
    async with both_real.open() as client:
        thread = await client.thread("t", cwd=both_real.work / "repo", agent="codex", trust="project")
        assert (await (await thread.ask("Hello."))).status == "answered"
    assert trap.marks(ran) >= {"clean", "process"}
