"""Stores what an event starts: jobs with their threads, or the end of sessions.

Several workers may hold the same event. Only the first of them writes: each transaction begins with a check that no
worker has ended the event yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.hooks.hook import KIND, split_key
from clew.core.jobs.job import Job, JobStatus, Limits
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.hosts.hooks.planner import EventPlan, PlannedJob
from clew.hosts.hooks.sessions import HookSessions
from clew.hosts.hooks.sweep import HookSweep
from clew.store.rows.hooks import HookJob, HookKey, StoredHook
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks.dispatch")


class HookDispatcher:
    def __init__(self, engine: Engine, sessions: HookSessions, sweep: HookSweep) -> None:
        self._engine = engine
        self._sessions = sessions
        self._sweep = sweep

    async def dispatch(self, stored: StoredHook, plan: EventPlan) -> None:
        if plan.dropped:
            await self._clean_up(stored.id, plan.dropped)
        elif plan.jobs:
            await self._end_once(
                stored.id, lambda store: {"state": "dispatched", "jobs": self._create_jobs(store, stored, plan)}
            )
        else:
            await self.end(stored.id, "ignored", plan.ignored)

    async def end(self, hook_id: str, state: str, why: str | None) -> None:
        """Sets the event's last state, unless another worker has done so."""
        if await self._end_once(hook_id, lambda store: {"state": state, "why": why}) and state == "failed":
            log.warning("a hook event has failed: %s", why)

    async def _end_once(self, hook_id: str, act: Callable[[Store], Mapping[str, Any]]) -> bool:
        """Calls `act` and ends the event in one transaction. `act` returns the new values of the event's fields.

        False: another worker has ended the event, and `act` is not called.
        """

        def write(store: Store) -> bool:
            known = store.hooks.event(hook_id)
            if known is None or known.state != "received":
                return False
            store.hooks.update_event(hook_id, **act(store), done_at=self._engine.context.clock())
            return True

        return await self._engine.store.atomically(write)

    async def _clean_up(self, hook_id: str, keys: Sequence[str]) -> None:
        """Closes the work trees, then drops the sessions in one transaction with the end of the event.

        If another worker has ended the event, the keys may already lead to sessions of later events: those are kept.
        """
        notes = [await self._sweep.close_tree(key) for key in keys]

        def drop(store: Store) -> Mapping[str, Any]:
            for key in keys:
                self._sessions.forget(store, key)
            return {"state": "dispatched", "why": " ".join(dict.fromkeys(filter(None, notes))) or None}

        await self._end_once(hook_id, drop)

    def _create_jobs(self, store: Store, stored: StoredHook, plan: EventPlan) -> tuple[str, ...]:
        now = self._engine.context.clock()
        created = []
        for planned in plan.jobs:
            created.append(self._engine.context.new_id())
            _save_rows(store, stored, planned, self._thread(store, planned, now), created[-1], now)
        return tuple(created)

    def _thread(self, store: Store, planned: PlannedJob, now: float) -> Thread:
        """The key's thread with the agent's current settings, or a new thread."""
        agent, cwd = planned.agent, planned.cwd
        known = store.hooks.key(planned.key)
        thread = store.threads.by_id(known.thread_id) if known is not None else None
        if thread is None or thread.cwd != cwd:
            return self._sessions.new_thread(store, planned.key, agent, cwd, now)
        settings = {"agent": agent.agent, "model": agent.model, "permissions": agent.permissions}
        changes = {name: value for name, value in settings.items() if getattr(thread, name) != value}
        return store.threads.update(thread.id, at=now, **changes) if changes else thread


def _save_rows(store: Store, stored: StoredHook, planned: PlannedJob, thread: Thread, job_id: str, now: float) -> None:
    event, agent, repo = stored.event, planned.agent, planned.repo
    _, _, number = split_key(planned.key)
    branch = event.branch if event.kind.startswith("pull.") and not event.from_fork else None
    store.hooks.save_key(
        HookKey(
            key=planned.key,
            agent=agent.name,
            repo=repo.name,
            issue=number,
            forge=event.forge.value,
            thread_id=thread.id,
            branch=None if event.from_fork else event.branch,  # a branch of a fork is not in this repository
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
    store.jobs.create(job)
    store.hooks.add_job(
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
