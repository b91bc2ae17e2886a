"""Agents of hooks are shown the rules of the repository's own branch: anybody may change those of a pull request."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.api.client import Client
from clew.testing.stage import CODEX_MODEL, Stage
from hooks.project import SETTINGS, HookProject, event, succeeded
from hooks.test_trees_of_hooks import origin, push
from reviews.reviewer import git

OURS, THEIRS, NEWER = "rules-of-the-base", "rules-of-the-pull-request", "what-the-base-says-now"
FILES = ("CLAUDE.md", "AGENTS.md", ".claude/rules/more.md")


def write(folder: Path, text: str) -> None:
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def commit(folder: Path, branch: str, text: str) -> None:
    git(folder, "checkout", "-q", branch)
    write(folder, text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "rules")
    git(folder, "checkout", "-q", "main")


@pytest.fixture
def project(scripted: Stage) -> HookProject:
    return with_rules(HookProject(scripted))


def with_rules(project: HookProject) -> HookProject:
    commit(origin(project), "main", OURS)
    push(project, "feature", "one.py")
    commit(origin(project), "feature", THEIRS)
    write(project.repo, "what the user is trying out")
    return project


def given(stage: Stage) -> str:
    """All that the newest launch gives to the agent."""
    folder = stage.launches[-1].value("--add-dir")
    return "".join(path.read_text() for path in Path(folder).rglob("*.md")) if folder is not None else ""


async def person_asks(client: Client, thread_id: str) -> None:
    assert (await (await (await client.find(thread_id)).ask("And you?"))).status == "answered"


async def test_the_rules_of_a_pull_request_do_not_count(scripted: Stage, project: HookProject) -> None:
    async with project.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        assert THEIRS in (Path(job.cwd) / "CLAUDE.md").read_text(), "the tree has them"
        assert given(scripted).count(OURS) == 2 and THEIRS not in given(scripted)
        first = scripted.launches[-1].value("--add-dir")
        commit(origin(project), "main", NEWER)
        again = await succeeded(client, event("pull.changes_requested", branch="feature", text="More."))
        assert again.resume_count == 1 and scripted.launches[-1].value("--add-dir") == first
        assert given(scripted).count(NEWER) == 2 and THEIRS not in given(scripted)
        await person_asks(client, job.thread_id)
        assert given(scripted).count(NEWER) == 2 and THEIRS not in given(scripted), "also when a person continues"


@pytest.mark.parametrize("kind", ["branch", "tag"])
async def test_a_name_that_looks_like_the_base_is_not_it(scripted: Stage, kind: str) -> None:
    """Whoever may push any branch could otherwise choose the rules, and what new trees start at."""
    project = with_rules(HookProject(scripted))
    git(origin(project), "branch", "stable", "main")
    git(origin(project), kind, "origin/stable", "feature")
    git(project.repo, "fetch", "-q", "--tags")
    project.write(SETTINGS.replace("writers =", 'branch = "stable"\nwriters ='))
    async with project.open() as client:
        await succeeded(client, event("pull.opened", branch="feature"))
        assert given(scripted).count(OURS) == 2 and THEIRS not in given(scripted)


async def test_without_rules_in_the_base_there_are_none(scripted: Stage) -> None:
    project = HookProject(scripted)
    push(project, "feature", "one.py")
    commit(origin(project), "feature", THEIRS)
    async with project.open() as client:
        job = await succeeded(client, event("pull.opened", branch="feature"))
        assert given(scripted) == "" and (Path(job.cwd) / "CLAUDE.md").exists()
        await person_asks(client, job.thread_id)
        assert given(scripted) == ""


async def test_the_branch_that_the_settings_name_counts(scripted: Stage) -> None:
    settings = SETTINGS.replace('path = "{path}"', 'path = "{path}"\nbranch = "stable"')
    project = HookProject(scripted, settings)
    push(project, "stable", "one.py")
    commit(origin(project), "stable", OURS)
    commit(origin(project), "main", THEIRS)
    async with project.open() as client:
        await succeeded(client, event())
        assert OURS in given(scripted) and THEIRS not in given(scripted)


@pytest.mark.real
async def test_both_real_agents_are_shown_the_rules_of_the_base(both_real: Stage) -> None:
    codex = f'[hooks.agents.reviewer]\nagent = "codex"\nmodel = "{CODEX_MODEL}"'
    project = with_rules(HookProject(both_real, SETTINGS.replace('[hooks.agents.reviewer]\nmodel = "{model}"', codex)))
    async with project.open() as client:
        for kind, count in (("pull.opened", 2), ("pull.review_requested", 1)):
            await succeeded(client, event(kind, branch="feature"))
            shown = str(both_real.api.main_requests[-1].body)
            assert shown.count(OURS) == count and THEIRS not in shown, kind
