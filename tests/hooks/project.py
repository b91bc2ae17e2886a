"""A repository with a remote, a boss with skills, and events that wake it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path

from clew.api.client import Client
from clew.core.hooks.hook import Forge, HookEvent
from clew.core.jobs.job import Job, JobStatus
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import git, repository

REPO = "charles/peon"
SKILLS = {
    "default.full.md": (
        "SKILL: you are {{ agent }} of {{ repo }}.\n{{ event }} #{{ number }}: {{ title }}\n{{ body }}\n"
        "{% if text %}{{ text }}{% endif %}"
    ),
    "default.delta.md": "DELTA {{ event }} #{{ number }}:\n{{ text }}",
}
SETTINGS = """
[hooks.agents.boss]
model = "{model}"

[hooks.agents.reviewer]
model = "{model}"
permissions = "read-only"

[hooks.repos."charles/peon"]
path = "{path}"
writers = ["alice"]

[[hooks.rules]]
agent = "boss"
events = ["issue.opened", "issue.commented", "pull.changes_requested", "pull.opened", "branch.pushed"]

[[hooks.rules]]
agent = "reviewer"
events = ["pull.review_requested"]
"""
deliveries = count(1)


class HookProject:
    """All files of the project, under a stage's folder."""

    def __init__(self, stage: Stage, settings: str = SETTINGS) -> None:
        self.stage = stage
        origin = repository(stage.folder / "origin")
        self.repo = stage.folder / "peon"
        git(stage.folder, "clone", "-q", str(origin), str(self.repo))
        stage.clew_home.mkdir(mode=0o700, exist_ok=True)
        self.write(settings)
        for agent in ("boss", "reviewer"):
            folder = stage.clew_home / "skills" / agent
            folder.mkdir(parents=True)
            for name, text in SKILLS.items():
                (folder / name).write_text(text)

    def write(self, settings: str) -> None:
        text = settings.format(model=MODEL, path=self.repo)
        (self.stage.clew_home / "clew.toml").write_text(text)

    def open(self, environ: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Client]:
        return self.stage.open(environ=environ)


def event(kind: str = "issue.opened", number: int | None = 4, **more: object) -> HookEvent:
    given: dict[str, object] = {"actor": "alice", "title": "It breaks", "body": "Badly.", "text": ""} | more
    delivery = str(given.pop("delivery", f"d{next(deliveries)}"))
    repo = str(given.pop("repo", REPO))
    return HookEvent(Forge.GITEA, delivery, kind, repo, number, **given)  # type: ignore[arg-type]


async def handled(client: Client, told: HookEvent) -> list[Job]:
    """Receives and handles the event, and runs its jobs, in this process."""
    received = await client.hooks.receive(told)
    assert received.is_new
    await client.hooks.handle(received.id)
    stored = next(each for each in await client.hooks.events() if each.id == received.id)
    done = []
    for job_id in stored.jobs:
        async with asyncio.timeout(60):
            await client.carry_out(job_id)
        done.append(await client.jobs.find(job_id))
    return done


async def succeeded(client: Client, told: HookEvent) -> Job:
    [job] = await handled(client, told)
    assert job.status is JobStatus.SUCCEEDED, (job.status, job.error, job.hint)
    return job


def trees(project: HookProject) -> list[Path]:
    folder = project.stage.clew_home / "worktrees"
    return sorted(path for path in folder.iterdir() if (path / ".git").exists()) if folder.exists() else []
