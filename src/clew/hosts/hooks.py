"""The hooks host: a forge tells of something; the right agent wakes in the right work tree, and remembers.

Theory of operation
1. An event is on disk before the forge hears 202. What a forge tells twice is kept once, by its delivery id and by
   what it signed.
2. Events of one issue are dealt with in order: each finds who is to act, and becomes jobs, all in one transaction. So
   none is lost and none is carried out twice, whatever dies in between. A branch may be any issue's: its events wait
   for all that came before them in the repository, and what comes after waits for them.
3. A job's key is the session key (`boss:charles/peon:4`): one issue is worked on in order, others beside it. The key
   leads to a thread, whose session is resumed or not as for any turn: with the delta of the skill, or with all of it.
4. A key that is dropped leads to a new thread next time. The old one is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clew.core.hook import (
    CLEAN_UP,
    Forge,
    HookAgent,
    HookEvent,
    Match,
    Update,
    needs_writer,
    route,
    session_key,
    split_key,
)
from clew.core.hook_settings import HookRepo, HookSettings
from clew.core.job import Job
from clew.core.leaks import leaked
from clew.core.record import Record
from clew.core.redaction import blank, find_secrets
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.work import Work
from clew.errors import ClewError, ConfigError, StoreError, UsageError
from clew.hosts.forge_api import ForgeApi, is_ours, marked
from clew.hosts.hook_plan import Planned, Verdict, create_job
from clew.hosts.hook_skills import Form, Skills
from clew.hosts.hook_sweep import HookSweep, is_open
from clew.hosts.own_secrets import own_secrets
from clew.store.hook_rows import HookKey, StoredHook
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks")

EVENT = "hook_event"  # work: an event that nobody has dealt with
REPLY = "hook_reply"  # work: final words that nobody has posted
MOST_TRIES = 7  # of asking a forge, over some five minutes; then an event is put aside
AGAIN_S = 5.0
REPLY_MOST = 60_000  # characters of a comment
WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


class Received(Record):
    id: str
    is_new: bool  # False: it was told before


class Hooks(HookSweep):
    def __init__(
        self,
        engine: Engine,
        settings: HookSettings,
        home: Path,
        api_of: Callable[[Forge], ForgeApi | None] = lambda forge: None,
        *,
        secrets: Callable[[], Mapping[str, str]] | None = None,
        again_s: float = AGAIN_S,
    ) -> None:
        """`secrets`: what must not be published, by value; by default what the agents' environment and `home` tell."""
        super().__init__(engine, settings, home, api_of)
        self._secrets = secrets or (lambda: own_secrets(engine.around.environ, home))
        self.skills = Skills(settings)
        self._again_s = again_s

    async def receive(self, event: HookEvent, digest: str | None = None) -> Received:
        """On disk when this returns. `digest`: of what a forge signed, which it does not say twice."""
        hook_id, now = self._engine.around.new_id(), self._engine.around.clock()
        known, is_new = await self._call(lambda store: store.add_hook_event(hook_id, event, now, digest))
        return Received(known, is_new)

    @staticmethod
    def waiting(store: Store) -> Sequence[Work]:
        """What is to be in the queue: events in order by issue, replies by key."""
        events = [
            Work(EVENT, each.id, int(each.received_at), f"hook/{each.event.repo.lower()}/{each.event.number or 0}")
            for each in store.hook_events(state="received", limit=10_000)
        ]
        replies = [Work(REPLY, each.job_id, each.tries + 1, f"reply/{each.key}") for each in store.hook_replies_due()]
        return [*events, *replies]

    async def deal_with(self, hook_id: str) -> None:
        """The worker's handler. Those of the same issue that came before come first."""
        while True:
            first = await self._call(lambda store: _first_before(store, hook_id))
            await self._deal_with(first)
            if first == hook_id:
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
        matches = route(self.settings.rules, event)
        woken = [(match, event.number) for match in matches if event.number is not None]
        if event.number is None:  # a push tells of a branch: whoever works on it is woken, and nobody else
            keys = await self._call(lambda store: _keys_of(store, repo, event))
            if not keys:
                return Verdict(ignored=f"nobody works on the branch {event.branch}: no session has it")
            woken = [(match, key.issue) for key in keys for match in matches if match.rule.agent == key.agent]
        if not woken:
            return Verdict(ignored="no rule applies")
        may = any(needs_writer(match, event) for match, _ in woken) and await self._may(repo, event)
        allowed = [(match.replace(by_writer=may), number) for match, number in woken if may or match.rule.anyone]
        if not allowed:
            return Verdict(ignored=f"{event.actor} is not known to have write access")
        return Verdict(tuple([await self._plan(repo, event, number, match) for match, number in allowed]))

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
            await self.clean_up(stored.id, verdict.dropped)
            return
        if not verdict.planned:
            await self._done(stored.id, "ignored", verdict.ignored)
            return

        def create(store: Store) -> None:
            now = self._engine.around.clock()
            if not is_open(store, stored.id):
                return  # another worker was quicker
            jobs = tuple(self._create_job(store, stored, planned, now) for planned in verdict.planned)
            store.update_hook_event(stored.id, state="dispatched", jobs=jobs, done_at=now)

        await self._engine.database.atomically(create)

    def _create_job(self, store: Store, stored: StoredHook, planned: Planned, now: float) -> str:
        job_id = self._engine.around.new_id()
        create_job(store, stored, planned, self._thread(store, planned, now), job_id, now)
        return job_id

    def _thread(self, store: Store, planned: Planned, now: float) -> Thread:
        """The key's, as its agent is set up now; or a new one."""
        agent, cwd = planned.agent, planned.cwd
        known = store.hook_key(planned.key)
        thread = store.thread_by_id(known.thread_id) if known is not None else None
        if thread is not None and thread.cwd == cwd:
            wanted = {"agent": agent.agent, "model": agent.model, "permissions": agent.permissions}
            changes = {name: value for name, value in wanted.items() if getattr(thread, name) != value}
            return store.update_thread(thread.id, at=now, **changes) if changes else thread
        return self.new_thread(store, planned.key, agent, cwd, now)

    async def _done(self, hook_id: str, state: str, why: str | None) -> None:
        """Unless another worker was quicker: what came of the event then stands."""
        now = self._engine.around.clock()

        def done(store: Store) -> bool:
            if not is_open(store, hook_id):
                return False
            store.update_hook_event(hook_id, state=state, why=why, done_at=now)
            return True

        if await self._engine.database.atomically(done) and state == "failed":
            log.warning("a hook event was put aside: %s", why)

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
        words = (job.result or "").strip()
        own, words, kinds = await asyncio.to_thread(self._publishable, words)
        if own:
            await self._replied(job_id, "withheld", f"the answer holds {', '.join(own)}")
            return
        if not await self._engine.database.atomically(lambda store: self._claim(store, job_id)):
            return
        if kinds:
            log.warning("secrets were blanked in a comment on %s: %s", purpose.key, ", ".join(sorted(set(kinds))))
        try:
            url = await api.comment(repo, number, marked(words[:REPLY_MOST] or "(no words)"))
        except ClewError as error:
            await self._replied(job_id, "failed", error.message)
            return
        await self._replied(job_id, "posted", None, url)

    def _publishable(self, words: str) -> tuple[list[str], str, list[str]]:
        """Which of our own secrets are in it; the words without what looks like a secret, and of which kinds that was.

        Everything counts, also what a comment has no room for.
        """
        found = find_secrets(words)
        return leaked(words, self._secrets()), blank(words, found)[0], [each.kind for each in found]

    def _claim(self, store: Store, job_id: str) -> bool:
        """False: another worker has begun to post it. Whoever dies from here on has posted it, or nobody does."""
        stored = store.hook_job(job_id)
        if stored is None or stored.reply != "waiting":
            return False
        store.update_hook_job(job_id, reply="posting", tries=stored.tries + 1, at=self._engine.around.clock())
        return True

    async def _replied(self, job_id: str, reply: str, why: str | None, url: str | None = None) -> None:
        now = self._engine.around.clock()
        if reply in ("failed", "withheld"):
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


def _keys_of(store: Store, repo: HookRepo, event: HookEvent) -> list[HookKey]:
    """Of an issue; of a branch that was deleted, those that worked on it."""
    if event.number is not None:
        return store.hook_keys(repo=repo.name, issue=event.number)
    return [key for key in store.hook_keys(repo=repo.name) if key.branch is not None and key.branch == event.branch]


def _first_before(store: Store, hook_id: str) -> str:
    """What comes before it may itself have to wait for something."""
    while (earlier := store.hook_event_before(hook_id)) is not None:
        hook_id = earlier
    return hook_id
