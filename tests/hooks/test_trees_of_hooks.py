"""Work trees from event to event: made, brought forward by rule, kept with what is in them, and closed without loss."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew.client import Client
from clew.core.hook import session_key
from clew.core.job import Job, JobStatus
from clew.testing.scripts import Fail, Reply, Request, Text, ToolUse
from clew.testing.stage import Stage
from hooks.forge import PlayedForge, hooks_with
from hooks.house import REPO, SETTINGS, House, event, handled, succeeded, trees
from jobs.house import until
from reviews.house import git

KEY = session_key("boss", REPO, 4)
ANY_TOOL = SETTINGS.replace('model = "{model}"\n', 'model = "{model}"\nallowed_tools = ["Bash"]\n', 1)


def with_update(update: str) -> str:
    return ANY_TOOL.replace('"branch.pushed"]', f'"branch.pushed"]\nupdate = "{update}"')


def origin(house: House) -> Path:
    return house.stage.folder / "origin"


def push(house: House, branch: str, name: str) -> str:
    """Somebody's commit on the forge's branch, which is made when there is none."""
    there = origin(house)
    new = [] if git(there, "branch", "--list", branch).strip() else ["-b"]
    git(there, "checkout", "-q", *new, branch)
    (there / name).write_text("x = 1\n")
    git(there, "add", "-A")
    git(there, "commit", "-qm", name)
    commit = git(there, "rev-parse", "HEAD").strip()
    git(there, "checkout", "-q", "main")
    return commit


def head(tree: Path) -> tuple[str, str]:
    return git(tree, "symbolic-ref", "--short", "HEAD").strip(), git(tree, "rev-parse", "HEAD").strip()


async def sent(client: Client, **more: object) -> str:
    """An event's job, which nobody has begun yet."""
    kind = str(more.pop("kind", "issue.opened"))
    received = await client.hooks.receive(event(kind, **more))  # type: ignore[arg-type]
    await client.hooks.deal_with(received.id)
    [job_id] = next(each.jobs for each in await client.hooks.events() if each.id == received.id)
    return job_id


async def closed(client: Client, kind: str = "issue.closed") -> str:
    """What was noted about it."""
    assert await handled(client, event(kind)) == []
    return (await client.hooks.events())[0].why or ""


@pytest.mark.rest
async def test_a_pull_requests_tree_is_on_its_branch_and_moves_on_with_it(scripted: Stage) -> None:
    house = House(scripted)
    first = push(house, "feature", "one.py")
    async with house.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        tree = Path(job.cwd)
        assert head(tree) == ("feature", first)
        second = push(house, "feature", "two.py")
        again = await succeeded(client, event("pull.changes_requested", branch="feature", text="More."))
        assert again.cwd == job.cwd and head(tree) == ("feature", second)
        assert again.resume_count == 1, "the session's directory is the same"
        third = push(house, "feature", "three.py")
        await succeeded(client, event("issue.commented", text="This event does not tell the branch."))
        assert head(tree) == ("feature", third)
        pushed = await succeeded(client, event("branch.pushed", None, branch="feature"))
        assert pushed.key == KEY, "nor is the branch forgotten by it"
    assert git(house.repo, "symbolic-ref", "--short", "HEAD").strip() == "main", "the user's own tree is left alone"


@pytest.mark.parametrize(("update", "fetched"), [("none", False), ("fetch", True)])
async def test_a_rule_may_leave_the_tree_as_it_is(scripted: Stage, update: str, fetched: bool) -> None:
    house = House(scripted, with_update(update))
    first = push(house, "feature", "one.py")
    git(house.repo, "fetch", "-q")
    async with house.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        second = push(house, "feature", "two.py")
        await succeeded(client, event("pull.changes_requested", branch="feature", text="More."))
        assert head(Path(job.cwd)) == ("feature", first)
        assert git(house.repo, "rev-parse", "origin/feature").strip() == (second if fetched else first)


async def test_what_an_agent_left_uncommitted_is_there_at_the_next_event(stage: Stage) -> None:
    house = House(stage, ANY_TOOL)
    push(house, "feature", "one.py")
    stage.api.script.extend(
        [ToolUse("Bash", {"command": "echo half > made.py; echo more >> one.py"}), Text("Half of it.")]
    )
    async with house.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        tree = Path(job.cwd)
        before = head(tree)
        push(house, "feature", "two.py")
        stage.api.script.extend([ToolUse("Bash", {"command": "cat made.py one.py > seen"}), Text("Seen.")])
        await succeeded(client, event("pull.changes_requested", branch="feature", text="And the rest?"))
        assert (tree / "seen").read_text() == "half\nx = 1\nmore\n"
        assert head(tree) == before, "nothing is moved over it"
        why = await closed(client, "pull.closed")
    ref = git(house.repo, "for-each-ref", "--format=%(refname)", "refs/clew/archive").strip()
    assert ref in why and trees(house) == []
    assert git(house.repo, "show", f"{ref}:made.py") == "half\n"
    assert git(house.repo, "show", f"{ref}:one.py") == "x = 1\nmore\n"


async def test_commits_that_nobody_else_has_are_kept(scripted: Stage) -> None:
    house = House(scripted, ANY_TOOL)
    command = "echo 1 > new.py; git add -A; git -c user.name=a -c user.email=a@localhost commit -qm mine"
    scripted.api.script.extend([ToolUse("Bash", {"command": command}), Text("Done.")])
    async with house.open() as client:
        job = await succeeded(client, event())
        branch, commit = head(Path(job.cwd))
        assert branch.startswith("clew/")
        await closed(client)
    assert trees(house) == []
    assert git(house.repo, "for-each-ref", "--contains", commit).strip(), "some ref has it"


async def test_a_clean_tree_is_removed_with_its_branch_when_the_issue_is_closed(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        await succeeded(client, event())
        assert len(trees(house)) == 1
        assert "removed" in await closed(client)
    assert trees(house) == []
    assert git(house.repo, "worktree", "list").count("\n") == 1
    assert git(house.repo, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/clew") == "refs/heads/main\n"


async def running(client: Client, stage: Stage) -> tuple[Job, asyncio.Task[None]]:
    """A job in the midst of its answer."""
    job_id = await sent(client, text="!hang text so far", body="!hang text so far")
    carrying = asyncio.create_task(client.carry_out(job_id))
    await asyncio.to_thread(stage.api.wait_for_hanging, 1, 60)
    return await client.jobs.find(job_id), carrying


@pytest.mark.rest
async def test_a_job_that_runs_while_its_issue_is_closed_is_left_alone_and_swept_later(stage: Stage) -> None:
    house = House(stage)
    async with house.open() as client:
        job, carrying = await running(client, stage)
        tree = Path(job.cwd)
        assert "left" in await closed(client)
        assert await client.hooks.sessions() == [] and tree.exists()
        assert await client.hooks.sweep() == [], "not while it runs"
        assert tree.exists()
        stage.api.release()
        async with asyncio.timeout(60):
            await carrying
        assert (await client.jobs.find(job.id)).status is JobStatus.SUCCEEDED
        [swept] = await client.hooks.sweep(dry_run=True)
        assert (swept.key, swept.tree, tree.exists()) == (KEY, None, True)
        [swept] = await client.hooks.sweep()
        assert (swept.key, "removed" in (swept.tree or "")) == (KEY, True)
        assert trees(house) == [] and await client.hooks.sweep() == []
        fresh = await succeeded(client, event("issue.commented", text="Again."))
        assert fresh.reason == "first_turn" and fresh.thread_id != job.thread_id


@pytest.mark.rest
async def test_a_job_that_waits_while_its_issue_is_closed_keeps_its_tree(scripted: Stage) -> None:
    """Nobody is in the tree then, and still it is needed."""
    house = House(scripted, ANY_TOOL)
    scripted.api.script.append(ToolUse("Bash", {"command": "echo half > made.py"}))
    limited: list[Request] = []
    async with house.open() as client:
        resets_at, over = int(client.engine.around.clock()) + 3600, asyncio.Event()

        def reply(request: Request) -> Reply | None:
            if request.is_main and not over.is_set():
                limited.append(request)
                return Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{resets_at}")
            return None

        scripted.api.reply = reply
        job_id = await sent(client)
        carrying = asyncio.create_task(client.carry_out(job_id))
        await until(client, job_id, lambda now: now.status is JobStatus.WAITING)
        assert "under way" in await closed(client)
        [tree] = trees(house)
        assert (tree / "made.py").read_text() == "half\n"
        over.set()
        now = client.engine.around.clock()
        await client.engine.database.call(lambda store: store.update_job(job_id, wake_at=now))
        async with asyncio.timeout(90):
            await carrying
        job = await client.jobs.find(job_id)
        assert (job.status, len(limited)) == (JobStatus.SUCCEEDED, 1), job.error
        [swept] = await client.hooks.sweep()
        assert "refs/clew/archive" in (swept.tree or "")
    assert trees(house) == []


@pytest.mark.rest
async def test_a_retried_job_whose_tree_was_removed_gets_another(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        scripted.api.default = Fail(418, "teapot", "I am one")
        [job] = await handled(client, event())
        assert job.status is JobStatus.FAILED
        assert "removed" in await closed(client) and not Path(job.cwd).exists()
        scripted.api.default = Text("Now it works.")
        await client.jobs.retry(job.id)
        async with asyncio.timeout(60):
            await client.carry_out(job.id)
        done = await client.jobs.find(job.id)
        assert (done.status, done.result) == (JobStatus.SUCCEEDED, "Now it works."), done.error
        assert "SKILL" in scripted.prompt, "the session was dropped with its issue"
        assert [str(tree) for tree in trees(house)] == [job.cwd]


async def test_a_repository_that_is_gone_ends_the_job_and_says_so(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        job_id = await sent(client)
        house.repo.rename(house.repo.with_name("moved"))
        async with asyncio.timeout(60):
            await client.carry_out(job_id)
        job = await client.jobs.find(job_id)
        assert job.status is JobStatus.FAILED and str(house.repo) in (job.error or ""), job.error
        assert scripted.launches == []
        later = await client.hooks.receive(event("issue.commented", text="Hello?"))
        await client.hooks.deal_with(later.id)
        stored = (await client.hooks.events())[0]
        assert (stored.state, str(house.repo) in (stored.why or "")) == ("failed", True), stored


@pytest.mark.rest
async def test_a_clean_up_that_was_missed_is_found_by_asking_the_forge(scripted: Stage) -> None:
    house = House(scripted)
    with PlayedForge() as forge:
        async with house.open() as client:
            hooks = hooks_with(client, forge)
            for number in (4, 5):
                await succeeded(client, event(number=number))
            assert await hooks.sweep() == [], "both are open"
            forge.closed.add(4)
            forge.fails = lambda nth: 502
            assert await hooks.sweep() == [], "nobody says that one is closed"
            forge.fails = lambda nth: None
            [swept] = await hooks.sweep()
            assert (swept.key, swept.why) == (KEY, "it is closed")
            assert [session.key.issue for session in await hooks.sessions()] == [5]
            assert len(trees(house)) == 1
            assert await client.hooks.sweep() == [], "without a token nobody is asked"


@pytest.mark.rest
async def test_a_reset_leaves_the_work_tree_of_an_open_issue_to_the_next_event(scripted: Stage) -> None:
    house = House(scripted, ANY_TOOL)
    scripted.api.script.extend([ToolUse("Bash", {"command": "echo half > made.py"}), Text("Half of it.")])
    async with house.open() as client:
        job = await succeeded(client, event())
        assert await client.hooks.drop_session(KEY)
        assert await client.hooks.sweep() == []
        assert (Path(job.cwd) / "made.py").read_text() == "half\n"
        again = await succeeded(client, event("issue.commented", text="Go on."))
        assert (again.cwd, again.reason) == (job.cwd, "first_turn")


@pytest.mark.rest
async def test_after_a_reset_the_work_tree_goes_with_its_issue(scripted: Stage) -> None:
    """Its session is gone by then, so the clean-up finds nothing to drop; the sweep does."""
    house = House(scripted)
    async with house.open() as client:
        await succeeded(client, event())
        assert await client.hooks.drop_session(KEY)
        await closed(client)
        [swept] = await client.hooks.sweep()
        assert (swept.key, swept.why, swept.session) == (KEY, "it is closed", False)
    assert trees(house) == []


@pytest.mark.rest
async def test_after_a_reset_the_forge_is_asked_whether_the_issue_is_closed(scripted: Stage) -> None:
    house = House(scripted)
    with PlayedForge() as forge:
        async with house.open() as client:
            hooks = hooks_with(client, forge)
            await succeeded(client, event())
            assert await hooks.drop_session(KEY)
            assert await hooks.sweep() == []
            forge.closed.add(4)
            [swept] = await hooks.sweep()
            assert (swept.key, swept.why, swept.session) == (KEY, "it is closed", False)
    assert trees(house) == []


async def test_after_a_reset_a_work_tree_that_nobody_used_for_long_is_swept(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        await succeeded(client, event())
        assert await client.hooks.drop_session(KEY)
    house.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]'))
    async with house.open() as client:
        [swept] = await client.hooks.sweep()
        assert (swept.key, swept.why, swept.session) == (KEY, "unused for too long", False)
    assert trees(house) == []


@pytest.mark.rest
async def test_a_session_that_nobody_used_for_long_is_swept(scripted: Stage) -> None:
    house = House(
        scripted, SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]')
    )
    async with house.open() as client:
        await succeeded(client, event())
        [swept] = await client.hooks.sweep()
        assert (swept.key, swept.why) == (KEY, "unused for too long")
    assert trees(house) == []
