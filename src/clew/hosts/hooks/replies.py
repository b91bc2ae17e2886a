"""Posts an agent's final answer as a comment, at most once and without secrets.

The row says `posting` before the request is sent. If the worker dies after that, it is not known whether the comment
was posted, so no other worker posts it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from clew.core.hooks.hook import Forge, split_key
from clew.core.jobs.job import Job
from clew.core.secrets.leaks import leaked
from clew.core.secrets.redaction import blank, find_secrets
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.hosts.hooks.forge.api import ForgeApi
from clew.store.rows.hooks import HookJob, StoredHook
from clew.store.store import Store

log = logging.getLogger("clew.hosts.hooks.replies")


class HookReplies:
    def __init__(
        self, engine: Engine, api_of: Callable[[Forge], ForgeApi | None], secrets: Callable[[], Mapping[str, str]]
    ) -> None:
        self._engine = engine
        self._api_of = api_of
        self._secrets = secrets

    async def post(self, job_id: str) -> None:
        """The worker's handler of a reply."""
        purpose, job, hook = await self._engine.store.call(lambda store: _rows(store, job_id))
        if purpose is None or job is None or hook is None or purpose.reply != "waiting":
            return
        _, repo, number = split_key(purpose.key)
        api = self._api_of(hook.event.forge)
        if api is None:
            await self._end(job_id, "failed", f"there is no token for {hook.event.forge}")
            return
        own, text, kinds = await asyncio.to_thread(self._without_secrets, (job.result or "").strip())
        if own:
            await self._end(job_id, "withheld", f"the answer holds {', '.join(own)}")
            return
        if not await self._engine.store.atomically(lambda store: self._claim(store, job_id)):
            return
        if kinds:
            log.warning("secrets were blanked in a comment on %s: %s", purpose.key, ", ".join(sorted(set(kinds))))
        try:
            url = await api.comment(repo, number, text or "(no words)")
        except ClewError as error:
            await self._end(job_id, "failed", error.message)
            return
        await self._end(job_id, "posted", None, url)

    def _without_secrets(self, text: str) -> tuple[list[str], str, list[str]]:
        """The names of our own secrets in the text, the text with likely secrets blanked, and the kinds of those.

        The whole text is searched, even if it is longer than a comment can be.
        """
        found = find_secrets(text)
        return leaked(text, self._secrets()), blank(text, found)[0], [each.kind for each in found]

    def _claim(self, store: Store, job_id: str) -> bool:
        """Claims the reply for this worker. False: another worker has claimed it."""
        stored = store.hooks.job(job_id)
        if stored is None or stored.reply != "waiting":
            return False
        store.hooks.update_job(job_id, reply="posting", tries=stored.tries + 1, at=self._engine.context.clock())
        return True

    async def _end(self, job_id: str, reply: str, why: str | None, url: str | None = None) -> None:
        now = self._engine.context.clock()
        if reply in ("failed", "withheld"):
            log.warning("a final answer was not posted: %s", why)
        await self._engine.store.call(
            lambda store: store.hooks.update_job(job_id, reply=reply, why=why, url=url, at=now)
        )


def _rows(store: Store, job_id: str) -> tuple[HookJob | None, Job | None, StoredHook | None]:
    """What the job is for, the job itself, and the event that it came from."""
    purpose = store.hooks.job(job_id)
    return purpose, store.jobs.find(job_id), store.hooks.event(purpose.hook_id) if purpose is not None else None
