"""Work trees between events: made, updated as the rule says, kept with their content, and closed without loss."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.hooks.hook import session_key
from clew.core.jobs.job import Job, JobStatus
from clew.testing.model.scripts import Fail, Reply, Request, Text, ToolUse
from clew.testing.stage import Stage
from hooks.forge.fake_forge import FakeForge, hooks_with
from hooks.project import REPO, SETTINGS, HookProject, event, handled, succeeded, trees
from jobs.processes import until
from reviews.reviewer import git

KEY = session_key("boss", REPO, 4)
ANY_TOOL = SETTINGS.replace('model = "{model}"\n', 'model = "{model}"\nallowed_tools = ["Bash"]\n', 1)


def with_update(update: str) -> str:
    return ANY_TOOL.replace('"branch.pushed"]', f'"branch.pushed"]\nupdate = "{update}"')


def origin(project: HookProject) -> Path:
    return project.stage.folder / "origin"


def push(project: HookProject, branch: str, name: str) -> str:
    """Another person's commit on the forge's branch, which is created if it is missing."""
    there = origin(project)
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
    """An event's job, not started yet."""
    kind = str(more.pop("kind", "issue.opened"))
    received = await client.hooks.receive(event(kind, **more))  # type: ignore[arg-type]
    await client.hooks.handle(received.id)
    [job_id] = next(each.jobs for each in await client.hooks.events() if each.id == received.id)
    return job_id


async def closed(client: Client, kind: str = "issue.closed") -> str:
    """Closes the issue; returns the note of the event."""
    assert await handled(client, event(kind)) == []
    return (await client.hooks.events())[0].why or ""


@pytest.mark.rest
async def test_a_pull_requests_tree_is_on_its_branch_and_moves_forward_with_it(scripted: Stage) -> None:
    project = HookProject(scripted)
    first = push(project, "feature", "one.py")
    async with project.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        tree = Path(job.cwd)
        assert head(tree) == ("feature", first)
        second = push(project, "feature", "two.py")
        again = await succeeded(client, event("pull.changes_requested", branch="feature", text="More."))
        assert again.cwd == job.cwd and head(tree) == ("feature", second)
        assert again.resume_count == 1, "the session's directory is the same"
        third = push(project, "feature", "three.py")
        await succeeded(client, event("issue.commented", text="This event does not tell the branch."))
        assert head(tree) == ("feature", third)
        pushed = await succeeded(client, event("branch.pushed", None, branch="feature"))
        assert pushed.key == KEY, "the session still has the branch"
    assert git(project.repo, "symbolic-ref", "--short", "HEAD").strip() == "main", "the user's own tree is left alone"


@pytest.mark.parametrize(("update", "fetched"), [("none", False), ("fetch", True)])
async def test_a_rule_may_leave_the_tree_as_it_is(scripted: Stage, update: str, fetched: bool) -> None:
    project = HookProject(scripted, with_update(update))
    first = push(project, "feature", "one.py")
    git(project.repo, "fetch", "-q")
    async with project.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        second = push(project, "feature", "two.py")
        await succeeded(client, event("pull.changes_requested", branch="feature", text="More."))
        assert head(Path(job.cwd)) == ("feature", first)
        assert git(project.repo, "rev-parse", "origin/feature").strip() == (second if fetched else first)


async def test_what_an_agent_left_uncommitted_is_there_at_the_next_event(stage: Stage) -> None:
    project = HookProject(stage, ANY_TOOL)
    push(project, "feature", "one.py")
    stage.api.script.extend(
        [ToolUse("Bash", {"command": "echo half > made.py; echo more >> one.py"}), Text("Half of it.")]
    )
    async with project.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        tree = Path(job.cwd)
        before = head(tree)
        push(project, "feature", "two.py")
        stage.api.script.extend([ToolUse("Bash", {"command": "cat made.py one.py > seen"}), Text("Seen.")])
        await succeeded(client, event("pull.changes_requested", branch="feature", text="And the rest?"))
        assert (tree / "seen").read_text() == "half\nx = 1\nmore\n"
        assert head(tree) == before, "the tree is not moved"
        why = await closed(client, "pull.closed")
    ref = git(project.repo, "for-each-ref", "--format=%(refname)", "refs/clew/archive").strip()
    assert ref in why and trees(project) == []
    assert git(project.repo, "show", f"{ref}:made.py") == "half\n"
    assert git(project.repo, "show", f"{ref}:one.py") == "x = 1\nmore\n"


async def test_commits_that_are_nowhere_else_are_kept(scripted: Stage) -> None:
    project = HookProject(scripted, ANY_TOOL)
    command = "echo 1 > new.py; git add -A; git -c user.name=a -c user.email=a@localhost commit -qm mine"
    scripted.api.script.extend([ToolUse("Bash", {"command": command}), Text("Done.")])
    async with project.open() as client:
        job = await succeeded(client, event())
        branch, commit = head(Path(job.cwd))
        assert branch.startswith("clew/")
        await closed(client)
    assert trees(project) == []
    assert git(project.repo, "for-each-ref", "--contains", commit).strip(), "some ref has it"


async def test_a_clean_tree_is_removed_with_its_branch_when_the_issue_is_closed(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        await succeeded(client, event())
        assert len(trees(project)) == 1
        assert "removed" in await closed(client)
    assert trees(project) == []
    assert git(project.repo, "worktree", "list").count("\n") == 1
    assert git(project.repo, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/clew") == "refs/heads/main\n"


async def running(client: Client, stage: Stage) -> tuple[Job, asyncio.Task[None]]:
    """A job whose agent is answering."""
    job_id = await sent(client, text="!hang text so far", body="!hang text so far")
    carrying = asyncio.create_task(client.carry_out(job_id))
    await asyncio.to_thread(stage.api.wait_for_hanging, 1, 60)
    return await client.jobs.find(job_id), carrying


@pytest.mark.rest
async def test_a_job_that_runs_while_its_issue_is_closed_is_left_alone_and_swept_later(stage: Stage) -> None:
    project = HookProject(stage)
    async with project.open() as client:
        job, carrying = await running(client, stage)
        tree = Path(job.cwd)
        assert "left" in await closed(client)
        assert await client.hooks.sessions.list() == [] and tree.exists()
        assert await client.hooks.sweep.run() == [], "not while it runs"
        assert tree.exists()
        stage.api.release()
        async with asyncio.timeout(60):
            await carrying
        assert (await client.jobs.find(job.id)).status is JobStatus.SUCCEEDED
        [swept] = await client.hooks.sweep.run(dry_run=True)
        assert (swept.key, swept.tree, tree.exists()) == (KEY, None, True)
        [swept] = await client.hooks.sweep.run()
        assert (swept.key, "removed" in (swept.tree or "")) == (KEY, True)
        assert trees(project) == [] and await client.hooks.sweep.run() == []
        fresh = await succeeded(client, event("issue.commented", text="Again."))
        assert fresh.reason == "first_turn" and fresh.thread_id != job.thread_id


@pytest.mark.rest
async def test_a_job_that_waits_while_its_issue_is_closed_keeps_its_tree(scripted: Stage) -> None:
    """No process works in the tree then, but the job still needs it."""
    project = HookProject(scripted, ANY_TOOL)
    scripted.api.script.append(ToolUse("Bash", {"command": "echo half > made.py"}))
    limited: list[Request] = []
    async with project.open() as client:
        resets_at, over = int(client.engine.context.clock()) + 3600, asyncio.Event()

        def reply(request: Request) -> Reply | None:
            if request.is_main and not over.is_set():
                limited.append(request)
                return Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{resets_at}")
            return None

        scripted.api.reply = reply
        job_id = await sent(client)
        carrying = asyncio.create_task(client.carry_out(job_id))
        await until(client, job_id, lambda now: now.status is JobStatus.WAITING)
        assert "a job needs it" in await closed(client)
        [tree] = trees(project)
        assert (tree / "made.py").read_text() == "half\n"
        over.set()
        now = client.engine.context.clock()
        await client.engine.store.call(lambda store: store.jobs.update(job_id, wake_at=now))
        async with asyncio.timeout(90):
            await carrying
        job = await client.jobs.find(job_id)
        assert (job.status, len(limited)) == (JobStatus.SUCCEEDED, 1), job.error
        [swept] = await client.hooks.sweep.run()
        assert "refs/clew/archive" in (swept.tree or "")
    assert trees(project) == []


@pytest.mark.rest
async def test_a_retried_job_whose_tree_was_removed_gets_another(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
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
        assert [str(tree) for tree in trees(project)] == [job.cwd]


async def test_a_missing_repository_ends_the_job_with_a_reason(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        job_id = await sent(client)
        project.repo.rename(project.repo.with_name("moved"))
        async with asyncio.timeout(60):
            await client.carry_out(job_id)
        job = await client.jobs.find(job_id)
        assert job.status is JobStatus.FAILED and str(project.repo) in (job.error or ""), job.error
        assert scripted.launches == []
        later = await client.hooks.receive(event("issue.commented", text="Hello?"))
        await client.hooks.handle(later.id)
        stored = (await client.hooks.events())[0]
        assert (stored.state, str(project.repo) in (stored.why or "")) == ("failed", True), stored


@pytest.mark.rest
async def test_a_clean_up_that_was_missed_is_found_by_asking_the_forge(scripted: Stage) -> None:
    project = HookProject(scripted)
    with FakeForge() as forge:
        async with project.open() as client:
            hooks = hooks_with(client, forge)
            for number in (4, 5):
                await succeeded(client, event(number=number))
            assert await hooks.sweep.run() == [], "both are open"
            forge.closed.add(4)
            forge.fails = lambda nth: 502
            assert await hooks.sweep.run() == [], "the forge gives no answer"
            forge.fails = lambda nth: None
            [swept] = await hooks.sweep.run()
            assert (swept.key, swept.why) == (KEY, "it is closed")
            assert [session.key.issue for session in await hooks.sessions.list()] == [5]
            assert len(trees(project)) == 1
            assert await client.hooks.sweep.run() == [], "without a token the forge is not asked"


@pytest.mark.rest
async def test_a_reset_leaves_the_work_tree_of_an_open_issue_to_the_next_event(scripted: Stage) -> None:
    project = HookProject(scripted, ANY_TOOL)
    scripted.api.script.extend([ToolUse("Bash", {"command": "echo half > made.py"}), Text("Half of it.")])
    async with project.open() as client:
        job = await succeeded(client, event())
        assert await client.hooks.sessions.drop(KEY)
        assert await client.hooks.sweep.run() == []
        assert (Path(job.cwd) / "made.py").read_text() == "half\n"
        again = await succeeded(client, event("issue.commented", text="Go on."))
        assert (again.cwd, again.reason) == (job.cwd, "first_turn")


@pytest.mark.rest
async def test_after_a_reset_the_work_tree_is_removed_with_its_issue(scripted: Stage) -> None:
    """Its session is gone by then, so the clean-up finds nothing to drop; the sweep does."""
    project = HookProject(scripted)
    async with project.open() as client:
        await succeeded(client, event())
        assert await client.hooks.sessions.drop(KEY)
        await closed(client)
        [swept] = await client.hooks.sweep.run()
        assert (swept.key, swept.why, swept.session) == (KEY, "it is closed", False)
    assert trees(project) == []


@pytest.mark.rest
async def test_after_a_reset_the_forge_is_asked_whether_the_issue_is_closed(scripted: Stage) -> None:
    project = HookProject(scripted)
    with FakeForge() as forge:
        async with project.open() as client:
            hooks = hooks_with(client, forge)
            await succeeded(client, event())
            assert await hooks.sessions.drop(KEY)
            assert await hooks.sweep.run() == []
            forge.closed.add(4)
            [swept] = await hooks.sweep.run()
            assert (swept.key, swept.why, swept.session) == (KEY, "it is closed", False)
    assert trees(project) == []


async def test_after_a_reset_a_work_tree_that_nobody_used_for_long_is_swept(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        await succeeded(client, event())
        assert await client.hooks.sessions.drop(KEY)
    project.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]'))
    async with project.open() as client:
        [swept] = await client.hooks.sweep.run()
        assert (swept.key, swept.why, swept.session) == (KEY, "unused for too long", False)
    assert trees(project) == []


@pytest.mark.rest
async def test_a_session_that_nobody_used_for_long_is_swept(scripted: Stage) -> None:
    project = HookProject(
        scripted, SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]')
    )
    async with project.open() as client:
        await succeeded(client, event())
        [swept] = await client.hooks.sweep.run()
        assert (swept.key, swept.why) == (KEY, "unused for too long")
    assert trees(project) == []
