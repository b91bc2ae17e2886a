"""A burst of events over many issues, while workers are killed at random: all are handled once, in order per issue."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import ExitStack
from itertools import groupby, pairwise

import pytest

import forkserver
from clew.api.client import Client
from clew.core.hooks.hook import HookEvent, session_key
from clew.core.jobs.job import ACTIVE, CONTINUE, Job, JobStatus
from clew.core.runs.run import RunStatus
from clew.errors import StoreError
from clew.testing.model.scripts import Slow
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from hooks.project import REPO, SETTINGS, HookProject, event
from jobs.processes import log_of, start, workers

pytestmark = pytest.mark.rest

# Every event contains its own word, both in the delta and in the full text.
TEMPLATES = {"default.full.md": "SKILL of {{ agent }}\n{{ text }}", "default.delta.md": "NEWS\n{{ text }}"}
DELETED = "branch.deleted"
WORD = re.compile(r"word-\d+-\d+")


def furnish(stage: Stage, update: str) -> None:
    HookProject(stage, SETTINGS.replace('"branch.pushed"]', f'"branch.pushed"]\nupdate = "{update}"'))
    for name, text in TEMPLATES.items():
        (stage.clew_home / "skills" / "boss" / name).write_text(text)


def a_burst(count: int, issues: int, dice: random.Random) -> list[HookEvent]:
    """Events of several issues in random order; those of one issue are numbered.

    Each issue has its own branch. One in four events names only the branch, and the last event of every fifth issue is
    that its branch was deleted.
    """
    of_issue = [number % issues + 1 for number in range(count)]
    dice.shuffle(of_issue)
    told: dict[int, int] = {}
    events = []
    for issue in of_issue:
        nth = told[issue] = told.get(issue, 0) + 1
        kind = "pull.opened" if nth == 1 else dice.choice(["issue.commented"] * 3 + ["branch.pushed"])
        if issue % 5 == 0 and nth == of_issue.count(issue):
            kind = DELETED
        number = None if kind.startswith("branch.") else issue
        word, delivery = f"word-{issue}-{nth}", f"burst-{issue}-{nth}"
        events.append(event(kind, number, branch=f"of-{issue}", text=word, delivery=delivery))
    return events


def is_of(issue: int, told: HookEvent) -> bool:
    return told.branch == f"of-{issue}"


@pytest.mark.parametrize(
    ("count", "issues", "update", "where"),
    [
        (100, 10, "none", "sqlite"),
        pytest.param(1000, 50, "forward", "sqlite", marks=pytest.mark.soak),
        pytest.param(1000, 50, "forward", "postgres", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(2400)  # for a busy machine; the wait below has its own limit
async def test_a_burst_is_carried_out_once_and_in_order(
    scripted: Stage, tmp_path_factory: pytest.TempPathFactory, count: int, issues: int, update: str, where: str
) -> None:
    dice = random.Random(count)
    furnish(scripted, update)
    scripted.api.default = Slow("done with it", words_per_s=20)
    with ExitStack() as stack:
        environ: dict[str, str] = {}
        if where == "postgres":
            server = stack.enter_context(PostgresServer(tmp_path_factory.mktemp("burst") / "data"))
            environ["CLEW_STORE"] = server.new_store()
        burst = a_burst(count, issues, dice)
        async with scripted.open(environ=environ) as client, workers(scripted, environ, 3) as alive:
            killed: list[int] = []
            unrest = asyncio.create_task(_kill_now_and_then(scripted, environ, alive, dice, killed))
            try:
                for told in burst:
                    assert (await client.hooks.receive(told)).is_new
                    if dice.random() < 0.2:
                        assert not (await client.hooks.receive(told)).is_new, "the forge has sent it again"
                await _all_done(client, count, limit_s=2.0 * count + 100)
            finally:
                unrest.cancel()
                ends = await asyncio.gather(unrest, return_exceptions=True)
            assert not [each for each in ends if isinstance(each, Exception)]
            assert len(killed) >= 2, "otherwise the test proves little"
            await _holds(client, scripted, burst, issues)
    assert "Traceback" not in log_of(scripted)


async def _kill_now_and_then(
    stage: Stage,
    environ: dict[str, str],
    alive: list[forkserver.AsyncProcess],
    dice: random.Random,
    killed: list[int],
) -> None:
    """Depends on the work done since the last time, not on the clock, so that it ends on a slow machine too."""
    due = 0
    while True:
        due += dice.randint(5, 15)
        while len(stage.launches) < due:
            await asyncio.sleep(0.05)
        await asyncio.sleep(dice.uniform(0, 0.5))
        place = dice.randrange(len(alive))
        if alive[place].returncode is None:
            alive[place].kill()
            killed.append(alive[place].pid)
        await alive[place].wait()
        alive[place] = await start(stage, environ)


async def _all_done(client: Client, count: int, limit_s: float) -> None:
    async with asyncio.timeout(limit_s):
        while True:
            try:
                if not await client.hooks.events(state="received", limit=1):
                    jobs = await client.jobs.list(limit=2 * count)
                    if not [job for job in jobs if job.status in ACTIVE]:
                        return
            except StoreError:
                pass  # the store is busy: try again
            await asyncio.sleep(0.5)


async def _holds(client: Client, stage: Stage, burst: list[HookEvent], issues: int) -> None:
    stored = await client.hooks.events(limit=2 * len(burst))
    assert sorted(each.event.delivery for each in stored) == sorted(each.delivery for each in burst)
    assert {each.state for each in stored} == {"dispatched"}
    assert all(len(each.jobs) == (0 if each.event.kind == DELETED else 1) for each in stored)
    word_of = {each.jobs[0]: each.event.text for each in stored if each.jobs}

    jobs = await client.jobs.list(limit=2 * len(burst))
    assert sorted(job.id for job in jobs) == sorted(word_of), "every job belongs to an event"
    assert {job.status for job in jobs} == {JobStatus.SUCCEEDED}
    keys = {session_key("boss", REPO, issue) for issue in range(1, issues + 1) if issue % 5}
    assert {key.key.key for key in await client.hooks.sessions.list()} == keys
    for issue in range(1, issues + 1):
        words = [told.text for told in burst if is_of(issue, told) and told.kind != DELETED]
        line = sorted((job for job in jobs if job.key == session_key("boss", REPO, issue)), key=_begun)
        assert [word_of[job.id] for job in line] == words, "started in order"
        assert all((before.ended_at or 0) <= _begun(after) for before, after in pairwise(line)), "one at a time"
        assert len({job.thread_id for job in line}) == 1
        await _thread_holds(client, stage, line, words)


async def _thread_holds(client: Client, stage: Stage, line: list[Job], words: list[str]) -> None:
    thread = await client.find(line[0].thread_id)
    asked = [turn.text for turn in await thread.turns() if turn.role == "user" and turn.text != CONTINUE]
    assert [WORD.findall(text) for text in asked] == [[word] for word in words], "each prompt once, in order"
    runs = await client.runs(thread=thread, limit=1000)
    assert [run.status for run in runs].count(RunStatus.ANSWERED) == len(words), "each event has one answer"
    assert len(runs) == sum(job.runs for job in line), "and every run belongs to a job"
    # An agent that was killed between its start and its request makes its first request when it is told to continue.
    last = [request for request in stage.api.main_requests if words[-1] in str(request.messages)][-1]
    shown = "\n".join(text for role, text in last.shown_texts() if role == "user")
    seen = WORD.findall(shown)
    if "SKILL" in shown and CONTINUE in shown:  # told to continue in a fresh session: the skill names its event again
        seen = [word for word, _ in groupby(seen)]
    assert seen == words, f"the model was shown all of it, once and in order: {shown[-2000:]}"


def _begun(job: Job) -> float:
    return job.started_at or 0.0
