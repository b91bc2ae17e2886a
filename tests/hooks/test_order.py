"""Events of one issue are handled in order, whichever worker is faster, including events that name only its branch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clew.api.client import Client
from clew.core.hooks.hook import HookEvent, session_key
from clew.hosts.hooks.planner import EventPlan
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from hooks.project import REPO, SETTINGS, HookProject, event, handled, succeeded

BOTH_REVIEW = SETTINGS.replace(
    'events = ["pull.review_requested"]', 'events = ["pull.review_requested", "branch.pushed"]'
)


@pytest.fixture(params=["sqlite", "postgres"])
async def client(request: pytest.FixtureRequest, scripted: Stage) -> AsyncIterator[Client]:
    environ: dict[str, str] = {}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        environ["CLEW_STORE"] = server.new_store()
    async with HookProject(scripted, BOTH_REVIEW).open(environ) as opened:
        yield opened


async def receive_all(client: Client, *events: HookEvent) -> list[str]:
    return [(await client.hooks.receive(each)).id for each in events]


async def kinds_in_line(client: Client, key: str) -> list[str]:
    """The kinds of the events of the key's jobs, in the order in which the jobs will run."""
    kind_of = {job: stored.event.kind for stored in await client.hooks.events() for job in stored.jobs}
    jobs = [job for job in await client.jobs.list() if job.key == key]
    return [kind_of[job.id] for job in sorted(jobs, key=lambda job: job.created_at)]


def pushed(branch: str = "feature/x") -> HookEvent:
    return event("branch.pushed", None, branch=branch)


async def test_a_push_comes_before_a_later_comment_and_after_an_earlier_one(client: Client) -> None:
    await succeeded(client, event("pull.opened", 9, branch="feature/x"))
    first, push, last = await receive_all(client, event("issue.commented", 9), pushed(), event("issue.commented", 9))
    await client.hooks.handle(last)  # the worker that has it is the fastest
    assert await kinds_in_line(client, session_key("boss", REPO, 9)) == [
        "pull.opened",
        "issue.commented",
        "branch.pushed",
        "issue.commented",
    ]
    for each in (first, push):
        await client.hooks.handle(each)
    assert len(await client.jobs.list()) == 4, "nothing is done twice"


async def test_what_comes_before_a_push_comes_before_what_follows_it_whatever_its_issue(client: Client) -> None:
    """The push may belong to any issue, so it waits for the event of number 5."""
    opened, push, commented = await receive_all(
        client, event("pull.opened", 5, branch="feature/x"), pushed(), event("issue.opened", 9)
    )
    await client.hooks.handle(commented)
    stored = {each.id: each for each in await client.hooks.events()}
    assert [stored[each].state for each in (opened, push, commented)] == ["dispatched"] * 3
    assert await kinds_in_line(client, session_key("boss", REPO, 5)) == ["pull.opened", "branch.pushed"]


async def test_a_deleted_branch_drops_no_later_session(client: Client) -> None:
    key = session_key("boss", REPO, 9)
    old = await succeeded(client, event("pull.opened", 9, branch="feature/x"))
    deleted, reopened = await receive_all(
        client, event("branch.deleted", None, branch="feature/x"), event("pull.opened", 9, branch="feature/x")
    )
    await client.hooks.handle(reopened)
    await client.hooks.handle(deleted)
    [session] = await client.hooks.sessions.list()
    assert (session.key.key, session.key.thread_id != old.thread_id) == (key, True)


@pytest.mark.parametrize("cleans_up", ["issue.closed", "branch.deleted"])
async def test_a_worker_that_is_late_to_clean_up_drops_nothing_of_what_came_after(
    client: Client, cleans_up: str
) -> None:
    """It had planned the event when another worker handled it and the next one."""
    await succeeded(client, event("pull.opened", 9, branch="feature/x"))
    number = 9 if cleans_up == "issue.closed" else None
    closed, reopened = await receive_all(
        client, event(cleans_up, number, branch="feature/x"), event("pull.opened", 9, branch="feature/x")
    )
    [stored] = [each for each in await client.hooks.events() if each.id == closed]
    late: EventPlan = await client.hooks.planner.plan(stored.event)
    await client.hooks.handle(reopened)
    await client.hooks.dispatcher.dispatch(stored, late)
    [session] = await client.hooks.sessions.list()
    assert session.key.issue == 9
    [after] = [each for each in await client.hooks.events() if each.id == reopened]
    job = await client.jobs.find(after.jobs[0])
    assert job.thread_id == session.key.thread_id, "the session is the one of the job"


async def test_a_late_worker_that_finds_nothing_to_do_changes_nothing(client: Client) -> None:
    """The session was dropped before this worker planned the event, so it finds nothing to clean up."""
    await succeeded(client, event("pull.opened", 9, branch="feature/x"))
    [closed] = await receive_all(client, event("issue.closed", 9))
    [seen] = [each for each in await client.hooks.events() if each.id == closed]
    await client.hooks.handle(closed)
    await client.hooks.dispatcher.dispatch(seen, await client.hooks.planner.plan(seen.event))
    [stored] = [each for each in await client.hooks.events() if each.id == closed]
    assert (stored.state, stored.why) == ("dispatched", "The work tree is removed.")


@pytest.mark.rest
async def test_a_push_wakes_every_key_of_its_branch_and_nobody_else(client: Client) -> None:
    for number in (9, 10):
        await succeeded(client, event("pull.opened", number, branch="feature/x"))
    await succeeded(client, event("pull.review_requested", 11, branch="feature/x"))
    await succeeded(client, event("pull.opened", 12, branch="feature/y"))
    woken = {job.key for job in await handled(client, pushed())}
    assert woken == {
        session_key("boss", REPO, 9),
        session_key("boss", REPO, 10),
        session_key("reviewer", REPO, 11),
    }, "each by the rules of its own agent: the boss has no session of 11, the reviewer none of 9 and 10"


async def test_a_push_that_no_agent_of_its_branch_has_a_rule_for_is_ignored(scripted: Stage) -> None:
    """The boss has such a rule, but works on another branch."""
    async with HookProject(scripted).open() as client:
        await succeeded(client, event("pull.review_requested", 9, branch="feature/x"))
        await succeeded(client, event("pull.opened", 10, branch="feature/y"))
        assert await handled(client, pushed()) == []
        assert (await client.hooks.events())[0].why == "no rule applies"
        assert await handled(client, pushed("feature/z")) == []
        assert (await client.hooks.events())[0].why == "no session works on the branch feature/z"


@pytest.mark.rest
async def test_concurrent_workers_handle_each_event_once(client: Client) -> None:
    await succeeded(client, event("pull.opened", 9, branch="feature/x"))
    sent = [event("issue.commented", 9) if nth % 2 else pushed() for nth in range(8)]
    ids = await receive_all(client, *sent)
    await asyncio.gather(*(client.hooks.handle(each) for each in reversed(ids)))
    line = await kinds_in_line(client, session_key("boss", REPO, 9))
    assert line == ["pull.opened", *(each.kind for each in sent)]
