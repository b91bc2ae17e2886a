"""The hooks host: a forge reports an event, and the right agent continues its session in the right work tree.

Theory of operation
1. An event is on disk before the forge gets its 202. An event that a forge sends twice is stored once: it is
   recognized by its delivery id and by what the forge signed.
2. Events of one issue are handled in order. Each is planned (which agents act on it); then its jobs and its new state
   are stored in one transaction. So no event is lost and none is acted on twice, even if a process dies in between. A
   branch may belong to any issue: its events wait for all earlier events of the repository, and later ones for them.
3. A job's key is the session key (`boss:charles/peon:4`): work on one issue is done in order, on others in parallel.
   The key leads to a thread, and the thread's session is resumed or not as for any turn: a resumed session gets the
   delta text of the skill, a fresh one the full text.
4. A key that was dropped leads to a new thread next time. The old thread is kept.

The parts: `planner` decides what an event starts, `dispatcher` stores it, `preparation` makes the work tree
of a job, `replies` posts final answers, `sessions` are found by key, `sweep` removes what clean-up events missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clew.core.hooks.hook import Forge, HookEvent
from clew.core.hooks.settings import HookSettings
from clew.core.record import Record
from clew.engine.durable.worker import WorkItem
from clew.engine.engine import Engine
from clew.errors import ClewError, NotFound, StoreError, UsageError
from clew.git.worktrees.worktrees import WorkTrees
from clew.hosts.hooks.dispatch import HookDispatcher
from clew.hosts.hooks.forge.api import ForgeApi
from clew.hosts.hooks.own_secrets import own_secrets
from clew.hosts.hooks.planner import HookPlanner
from clew.hosts.hooks.preparation import WorkTreePreparation
from clew.hosts.hooks.replies import HookReplies
from clew.hosts.hooks.sessions import HookSessions
from clew.hosts.hooks.skills import Skills
from clew.hosts.hooks.sweep import HookSweep
from clew.store.rows.hooks import StoredHook
from clew.store.store import Store

EVENT = "hook_event"  # a kind of queued work: an event that is not handled yet
REPLY = "hook_reply"  # a kind of queued work: a final answer that is not posted yet
MAX_TRIES = 7  # how often an event is tried, within about five minutes, before it counts as failed
RETRY_S = 5.0  # the first pause between two tries; each later one is twice as long


class Received(Record):
    id: str
    is_new: bool  # False: the same event was received before


class Hooks:
    def __init__(
        self,
        engine: Engine,
        settings: HookSettings,
        home: Path,
        api_of: Callable[[Forge], ForgeApi | None] = lambda forge: None,
        *,
        secrets: Callable[[], Mapping[str, str]] | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        """`api_of`: the forge's API, if the environment has a token for it.

        `secrets`: what must not be published; a mapping from each value to its name. By default the secrets in the
        environment and in `home`.
        """
        self._engine = engine
        self._retry_s = retry_s
        self.settings = settings
        self.trees = WorkTrees(home / "worktrees", engine.context.environ)
        self.skills = Skills(settings)
        self.sessions = HookSessions(engine, settings, self.trees)
        self.sweep = HookSweep(engine, settings, self.trees, self.sessions, api_of)
        self.planner = HookPlanner(engine, settings, self.trees, self.skills, api_of)
        self.dispatcher = HookDispatcher(engine, self.sessions, self.sweep)
        self.preparation = WorkTreePreparation(engine, settings, self.trees)
        self.replies = HookReplies(engine, api_of, secrets or (lambda: own_secrets(engine.context.environ, home)))

    async def receive(self, event: HookEvent, digest: str | None = None) -> Received:
        """The event is on disk when this returns. `digest`: of what the forge signed, to detect duplicates."""
        hook_id, now = self._engine.context.new_id(), self._engine.context.clock()
        known, is_new = await self._engine.store.call(lambda store: store.hooks.add_event(hook_id, event, now, digest))
        return Received(known, is_new)

    @staticmethod
    def queued_work(store: Store) -> Sequence[WorkItem]:
        """The items for the workers' queue: events, in order for each issue, and replies, in order for each key."""
        events = [
            WorkItem(EVENT, each.id, int(each.received_at), f"hook/{each.event.repo.lower()}/{each.event.number or 0}")
            for each in store.hooks.events(state="received", limit=10_000)
        ]
        replies = [
            WorkItem(REPLY, each.job_id, each.tries + 1, f"reply/{each.key}") for each in store.hooks.replies_due()
        ]
        return [*events, *replies]

    async def handle(self, hook_id: str) -> None:
        """The worker's handler of an event. It first handles the events that this one waits for."""
        while True:
            first = await self._engine.store.call(lambda store: _first_before(store, hook_id))
            await self._handle(first)
            if first == hook_id:
                return

    async def _handle(self, hook_id: str) -> None:
        while True:
            stored = await self._engine.store.call(lambda store: store.hooks.event(hook_id))
            if stored is None or stored.state != "received":
                return
            try:
                plan = await self.planner.plan(stored.event)
                await self.dispatcher.dispatch(stored, plan)
                return
            except StoreError:
                raise
            except ClewError as error:
                tries = stored.tries + 1
                if tries >= MAX_TRIES or isinstance(error, UsageError):
                    await self.dispatcher.end(hook_id, "failed", " ".join(filter(None, (error.message, error.hint))))
                    return
                await self._engine.store.call(lambda store: store.hooks.update_event(hook_id, tries=tries))  # noqa: B023
                await asyncio.sleep(self._retry_s * 2.0**stored.tries)
            except Exception as error:  # noqa: BLE001 - later events of its issue must not wait for it forever
                await self.dispatcher.end(hook_id, "failed", f"A fault in Clew itself: {error!r}")
                return

    async def events(self, *, state: str | None = None, limit: int = 50) -> list[StoredHook]:
        """The newest first."""
        return await self._engine.store.call(lambda store: store.hooks.events(state=state, limit=limit, newest=True))

    async def event(self, hook_id: str) -> StoredHook:
        """Raises NotFound."""
        found = await self._engine.store.call(lambda store: store.hooks.event(hook_id))
        if found is None:
            raise NotFound(f"There is no event {hook_id}.", hint="clew hooks events lists them.")
        return found

    async def last_events(self) -> dict[str, StoredHook]:
        """By session key: the event that woke its agent last."""
        return await self._engine.store.call(lambda store: store.hooks.last_events())

    async def event_counts(self) -> dict[tuple[str, str], int]:
        """Events by forge and state."""
        return await self._engine.store.call(lambda store: store.hooks.count_events())


def _first_before(store: Store, hook_id: str) -> str:
    """The event to handle first: this one, or an earlier one that it waits for, directly or through others."""
    while (earlier := store.hooks.event_before(hook_id)) is not None:
        hook_id = earlier
    return hook_id
