"""The hooks host: a forge tells of something; the right agent wakes in the right work tree, and remembers.

Theory of operation
1. An event is on disk before the forge hears 202. What a forge tells twice is kept once, by its delivery id.
2. Events of one issue are dealt with in order: each finds who is to act, and becomes jobs, all in one transaction. So
   none is lost and none is carried out twice, whatever dies in between.
3. A job's key is the session key (`boss:charles/peon:4`): one issue is worked on in order, others beside it. The key
   leads to a thread, whose session is resumed or not as for any turn: with the delta of the skill, or with all of it.
4. A key that is dropped leads to a new thread next time. The old one is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.hook import (
    CLEAN_UP,
    Forge,
    HookAgent,
    HookEvent,
    Match,
    Update,
    route,
    session_key,
    split_key,
)
from clew.core.hook_settings import HookRepo, HookSettings
from clew.core.job import UNDER_WAY, Job, JobStatus, Limits
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.work import Work
from clew.errors import ClewError, ConfigError, StoreError, UsageError
from clew.hosts.forge_api import ForgeApi, is_ours, marked
from clew.hosts.hook_sessions import KIND, HookSessions
from clew.hosts.hook_skills import Form, Skills
from clew.store.hook_rows import HookJob, HookKey, StoredHook
from clew.store.store import Store

if TYPE_CHECKING:
    pass

log = logging.getLogger("clew.hosts.hooks")

EVENT = "hook_event"  # work: an event that nobody has dealt with
REPLY = "hook_reply"  # work: final words that nobody has posted
MOST_TRIES = 7  # of asking a forge, over some five minutes; then an event is put aside
AGAIN_S = 5.0
KEPT_S = 30 * 86_400.0  # an event that was dealt with: a forge may send it again
REPLY_MOST = 60_000  # characters of a comment
WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


class Received(Record):
    id: str
    is_new: bool  # False: it was told before


class Planned(Record):
    """What an event would set going."""

    key: str
    agent: HookAgent
    repo: HookRepo
    match: Match
    cwd: str  # the key's work tree
    resumes: bool  # there is a session that would be gone on in
    full: str
    delta: str

    @property
    def prompt(self) -> str:
        return self.delta if self.resumes else self.full


class Verdict(Record):
    """What is to become of an event."""

    planned: tuple[Planned, ...] = ()
    dropped: tuple[str, ...] = ()  # keys, by an event that cleans up
    ignored: str | None = None  # why nothing is done


class Swept(Record):
    key: str
    why: str
    tree: str | None  # what became of its work tree


class Hooks(HookSessions):
    def __init__(
        self,
        engine: Engine,
        settings: HookSettings,
        home: Path,
        api_of: Callable[[Forge], ForgeApi | None] = lambda forge: None,
        *,
        again_s: float = AGAIN_S,
    ) -> None:
        """`api_of`: the forge's API, where the environment has a token for it."""
        super().__init__(engine, settings, home)
        self.skills = Skills(settings)
        self._api_of = api_of
        self._again_s = again_s

    async def receive(self, event: HookEvent) -> Received:
        """On disk when this returns."""
        hook_id, now = self._engine.around.new_id(), self._engine.around.clock()
        known, is_new = await self._call(lambda store: store.add_hook_event(hook_id, event, now))
        return Received(known, is_new)

    @staticmethod
    def waiting(store: Store) -> Sequence[Work]:
        """What is to be in the queue: events in order by issue, replies by key."""
        events = [
            Work(EVENT, each.id, int(each.received_at), f"hook/{each.event.repo.lower()}/{each.event.number or 0}")
            for each in store.hook_events(state="received", limit=10_000)
        ]
        return [
            *events,
            *(Work(REPLY, each.job_id, each.tries + 1, f"reply/{each.key}") for each in store.hook_replies_due()),
        ]

    async def deal_with(self, hook_id: str) -> None:
        """The worker's handler. Those of the same issue that came before come first."""
        while True:
            first = await self._call(lambda store: store.hook_event_before(hook_id))
            await self._deal_with(first or hook_id)
            if first is None:
                return

    async def _deal_with(self, hook_id: str) -> None:
        while True:
            stored = await self._call(lambda store: store.hook_event(hook_id))
            if stored is None or stored.state != "received":
                return
            try:
                verdict = await self.judge(stored.event)
                await self._carry_out(stored, verdict)
                return
            except StoreError:
                raise
            except ClewError as error:
                if stored.tries + 1 >= MOST_TRIES or isinstance(error, UsageError):
                    await self._done(hook_id, "failed", " ".join(filter(None, (error.message, error.hint))))
                    return
                await self._call(lambda store: store.update_hook_event(hook_id, tries=stored.tries + 1))  # noqa: B023
                await asyncio.sleep(self._again_s * 2.0**stored.tries)
            except Exception as error:  # noqa: BLE001 - those of its issue that come later must not wait for ever
                await self._done(hook_id, "failed", f"A fault in Clew itself: {error!r}")
                return

    async def judge(self, event: HookEvent) -> Verdict:
        """Who is to act, with what words. Asks the forge who may, and changes nothing."""
        repo = self.settings.repo(event.repo)
        if repo is None or repo.forge not in (None, event.forge):
            return Verdict(ignored=f"{event.repo} is no repository of the settings")
        if event.kind in CLEAN_UP:
            keys = await self._call(lambda store: _keys_of(store, repo, event))
            return Verdict(dropped=tuple(key.key for key in keys), ignored="there is no session of it")
        if is_ours(event.text or event.body):
            return Verdict(ignored="it is Clew's own comment")
        number = event.number or await self._call(lambda store: _number_of(store, repo, event))
        if number is None:
            return Verdict(ignored="it belongs to no issue or pull request")
        matches = route(self.settings.rules, event)
        if not matches:
            return Verdict(ignored="no rule applies")
        allowed = [match for match in matches if match.rule.anyone or await self._may(repo, event)]
        if not allowed:
            return Verdict(ignored=f"{event.actor} is not known to have write access")
        return Verdict(tuple([await self._plan(repo, event, number, match) for match in allowed]))

    async def _plan(self, repo: HookRepo, event: HookEvent, number: int, match: Match) -> Planned:
        agent = self.settings.agent(match.rule.agent)
        if agent is None:
            raise ConfigError(f"There is no hooks.agents.{match.rule.agent}.")
        key = session_key(agent.name, repo.name, number)
        return Planned(
            key=key,
            agent=agent,
            repo=repo,
            match=match,
            cwd=await self.trees.place(repo.path, key),
            resumes=await self.get_session(key) is not None,
            full=await self._render(agent, event.replace(number=number), match, Form.FULL),
            delta=await self._render(agent, event.replace(number=number), match, Form.DELTA),
        )

    async def _render(self, agent: HookAgent, event: HookEvent, match: Match, form: Form) -> str:
        """In a thread: a template may take its time, and others are served meanwhile."""
        return await asyncio.to_thread(self.skills.render, agent, event, match, form)

    async def _may(self, repo: HookRepo, event: HookEvent) -> bool:
        """Write access: by the settings, by the forge's word when it can be asked, else by what the event says."""
        if event.actor.lower() in {name.lower() for name in repo.writers}:
            return True
        api = self._api_of(event.forge)
        told = await api.can_write(repo.name, event.actor) if api is not None else None
        if told is not None:
            return told
        return event.association in WRITERS if api is None else False

    async def _carry_out(self, stored: StoredHook, verdict: Verdict) -> None:
        if verdict.dropped:
            notes = [await self._drop(key, close_tree=True) for key in verdict.dropped]
            await self._done(stored.id, "dispatched", "; ".join(filter(None, notes)) or None)
            return
        if not verdict.planned:
            await self._done(stored.id, "ignored", verdict.ignored)
            return

        def create(store: Store) -> None:
            now = self._engine.around.clock()
            known = store.hook_event(stored.id)
            if known is None or known.state != "received":
                return  # another worker was quicker
            jobs = tuple(self._create_job(store, stored, planned, now) for planned in verdict.planned)
            store.update_hook_event(stored.id, state="dispatched", jobs=jobs, done_at=now)

        await self._engine.database.atomically(create)

    def _create_job(self, store: Store, stored: StoredHook, planned: Planned, now: float) -> str:
        event, agent, repo = stored.event, planned.agent, planned.repo
        _, _, number = split_key(planned.key)
        thread = self._thread(store, planned, now)
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
            id=self._engine.around.new_id(),
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
        return job.id

    def _thread(self, store: Store, planned: Planned, now: float) -> Thread:
        """The key's, as its agent is set up now; or a new one."""
        agent, cwd = planned.agent, planned.cwd
        known = store.hook_key(planned.key)
        thread = store.thread(known.thread_id) if known is not None else None
        if thread is not None and thread.cwd == cwd:
            wanted = {"agent": agent.agent, "model": agent.model, "permissions": agent.permissions}
            changes = {name: value for name, value in wanted.items() if getattr(thread, name) != value}
            return store.update_thread(thread.id, at=now, **changes) if changes else thread
        return self.new_thread(store, planned.key, agent, cwd, now)

    async def _done(self, hook_id: str, state: str, why: str | None) -> None:
        now = self._engine.around.clock()
        if state == "failed":
            log.warning("a hook event was put aside: %s", why)
        await self._call(lambda store: store.update_hook_event(hook_id, state=state, why=why, done_at=now))

    async def prepare(self, job: Job) -> None:
        """Before a job's first run: its work tree, made or brought up to date."""
        purpose = await self._call(lambda store: store.hook_job(job.id))
        if purpose is None:
            return
        _, name, _ = split_key(purpose.key)
        repo = self.settings.repo(name)
        if repo is None:
            raise UsageError(f"{name} is no repository of the settings any more.", hint="See hooks.repos in clew.toml.")
        tree = await self.trees.open(
            repo.path,
            purpose.key,
            branch=purpose.branch,
            start=f"{repo.remote}/{repo.branch}" if repo.branch else None,
            remote=repo.remote,
            fetch=purpose.fetch_ref,
            update=Update(purpose.tree_update),
        )
        for note in tree.notes:
            log.info("%s: %s", purpose.key, note)

    async def post(self, job_id: str) -> None:
        """The worker's handler: an agent's final words as a comment, at most once."""
        purpose = await self._call(lambda store: store.hook_job(job_id))
        job = await self._call(lambda store: store.job(job_id))
        hook = await self._call(lambda store: store.hook_event(purpose.hook_id)) if purpose is not None else None
        if purpose is None or job is None or hook is None or purpose.reply != "waiting":
            return
        _, repo, number = split_key(purpose.key)
        api = self._api_of(hook.event.forge)
        if api is None:
            await self._replied(job_id, "failed", f"there is no token for {hook.event.forge}")
            return
        if not await self._engine.database.atomically(lambda store: self._claim(store, job_id)):
            return
        try:
            url = await api.comment(repo, number, marked((job.result or "").strip()[:REPLY_MOST] or "(no words)"))
        except ClewError as error:
            await self._replied(job_id, "failed", error.message)
            return
        await self._replied(job_id, "posted", None, url)

    def _claim(self, store: Store, job_id: str) -> bool:
        """False: another worker has begun to post it. Whoever dies from here on has posted it, or nobody does."""
        stored = store.hook_job(job_id)
        if stored is None or stored.reply != "waiting":
            return False
        store.update_hook_job(job_id, reply="posting", tries=stored.tries + 1, at=self._engine.around.clock())
        return True

    async def _replied(self, job_id: str, reply: str, why: str | None, url: str | None = None) -> None:
        now = self._engine.around.clock()
        if reply == "failed":
            log.warning("final words were not posted: %s", why)
        await self._call(lambda store: store.update_hook_job(job_id, reply=reply, why=why, url=url, at=now))

    async def events(self, *, state: str | None = None, limit: int = 50) -> list[StoredHook]:
        """The newest first."""
        return await self._call(lambda store: store.hook_events(state=state, limit=limit, newest=True))

    async def last_events(self) -> dict[str, StoredHook]:
        """By key: what woke its agent last."""
        return await self._call(lambda store: store.last_hook_events())

    async def event_counts(self) -> dict[tuple[str, str], int]:
        """Events by forge and state."""
        return await self._call(lambda store: store.count_hook_events())

    async def sweep(self, *, dry_run: bool = False) -> list[Swept]:
        """Drops sessions whose clean-up event was missed: too long unused, or closed as the forge says."""
        now = self._engine.around.clock()
        swept = []
        for session in await self.sessions():
            key = session.key
            if session.state == "running":
                continue
            why = "unused for too long" if now - key.used_at > self.settings.sweep_age_s else await self._closed(key)
            if why is None or not await self._call(lambda store, key=key: _is_idle(store, key)):  # type: ignore[misc]
                continue  # or it was used while the forge was asked
            tree = None if dry_run else await self._drop(key.key, close_tree=True)
            swept.append(Swept(key.key, why, tree))
        swept += await self._orphans(dry_run=dry_run)
        if not dry_run:
            await self._call(lambda store: store.forget_hook_events(now - KEPT_S))
        return swept

    async def _orphans(self, *, dry_run: bool) -> list[Swept]:
        """Work trees that were in use when their key was dropped."""
        known = await self._call(lambda store: {key.key for key in store.hook_keys()})
        found = []
        for tree in await self.trees.list():
            if tree.key not in known and not await self._call(lambda store, key=tree.key: _has_work(store, key)):  # type: ignore[misc]
                why = None if dry_run else (await self.trees.close(tree.repository, tree.key)).why
                found.append(Swept(tree.key, "its session is gone", why))
        return found

    async def _closed(self, key: HookKey) -> str | None:
        api = self._api_of(Forge(key.forge)) if key.forge is not None else None
        if api is None:
            return None
        try:
            state = await api.state(key.repo, key.issue)
        except ClewError as error:
            log.warning("%s: %s", key.key, error.message)
            return None
        return "it is closed" if state == "closed" else None

    async def _drop(self, key: str, *, close_tree: bool) -> str | None:
        await self.drop_session(key)
        _, name, _ = split_key(key)
        repo = self.settings.repo(name)
        if not close_tree or repo is None:
            return None
        if await self._call(lambda store: _has_work(store, key)):
            return "The work tree is left: a job of it is under way."  # and swept when that is over
        try:
            return (await self.trees.close(repo.path, key)).why
        except ClewError as error:
            log.warning("%s: %s", key, error.message)
            return error.message


def _keys_of(store: Store, repo: HookRepo, event: HookEvent) -> list[HookKey]:
    """Of an issue; of a branch that was deleted, those that worked on it."""
    if event.number is not None:
        return store.hook_keys(repo=repo.name, issue=event.number)
    return [key for key in store.hook_keys(repo=repo.name) if key.branch is not None and key.branch == event.branch]


def _is_idle(store: Store, seen: HookKey) -> bool:
    """Nothing has happened to the key since it was seen."""
    known = store.hook_key(seen.key)
    return known is not None and known.used_at == seen.used_at and not _has_work(store, seen.key)


def _has_work(store: Store, key: str) -> bool:
    return bool(store.jobs(statuses=UNDER_WAY, key=key, limit=1))


def _number_of(store: Store, repo: HookRepo, event: HookEvent) -> int | None:
    """A push tells of a branch: whoever works on it is known by its number."""
    return next((key.issue for key in _keys_of(store, repo, event)), None)
