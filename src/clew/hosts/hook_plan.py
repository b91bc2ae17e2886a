"""What an event sets going, and the rows that make it so."""

from __future__ import annotations

from clew.core.hook import HookAgent, Match, split_key
from clew.core.hook_settings import HookRepo
from clew.core.job import Job, JobStatus, Limits
from clew.core.record import Record
from clew.core.thread import Thread
from clew.hosts.hook_sessions import KIND
from clew.store.hook_rows import HookJob, HookKey, StoredHook
from clew.store.store import Store


class Planned(Record):
    """What an event would set going."""

    key: str
    agent: HookAgent
    repo: HookRepo
    match: Match
    cwd: str  # the key's work tree
    full: str
    delta: str


class Verdict(Record):
    """What is to become of an event."""

    planned: tuple[Planned, ...] = ()
    dropped: tuple[str, ...] = ()  # keys, by an event that cleans up
    ignored: str | None = None  # why nothing is done


def create_job(store: Store, stored: StoredHook, planned: Planned, thread: Thread, job_id: str, now: float) -> None:
    """The rows of one agent's part in an event; in the caller's transaction."""
    event, agent, repo = stored.event, planned.agent, planned.repo
    _, _, number = split_key(planned.key)
    branch = event.branch if event.kind.startswith("pull.") and not event.from_fork else None
    store.save_hook_key(
        HookKey(
            key=planned.key,
            agent=agent.name,
            repo=repo.name,
            issue=number,
            forge=event.forge.value,
            thread_id=thread.id,
            branch=None if event.from_fork else event.branch,  # a fork's branches have names of their own
            created_at=now,
            used_at=now,
        )
    )
    job = Job(
        id=job_id,
        thread_id=thread.id,
        prompt=planned.delta,
        full_prompt=planned.full,
        cwd=thread.cwd,
        agent=agent.agent,
        model=agent.model,
        permissions=agent.permissions,
        allowed_tools=agent.allowed_tools,
        status=JobStatus.QUEUED,
        key=planned.key,
        kind=KIND,
        limits=Limits(timeout_s=agent.timeout_s, max_age_s=agent.max_age_s),
        created_at=now,
    )
    store.create_job(job)
    store.add_hook_job(
        HookJob(
            job_id=job.id,
            hook_id=stored.id,
            key=planned.key,
            branch=branch,
            fetch_ref=f"refs/pull/{number}/head" if event.from_fork else None,
            tree_update=planned.match.rule.update.value,
            reply="waiting" if planned.match.rule.comment else "none",
            why=None,
            url=None,
            tries=0,
            at=now,
        )
    )
