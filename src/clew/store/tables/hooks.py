"""Hooks in the store: events, keys, and what jobs are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.errors import NotFound
from clew.store.database.database import provisional_number
from clew.store.records import Row, dumps, each, first
from clew.store.tables.table import Table

if TYPE_CHECKING:
    from clew.core.hooks.hook import HookEvent
    from clew.store.rows.hooks import HookJob, HookKey, StoredHook


class HookTables(Table):
    def add_event(self, hook_id: str, event: HookEvent, at: float, digest: str | None = None) -> tuple[str, bool]:
        """Its id; and False when it was told before, and has come to something or still may.

        `digest` is of what the forge signed: the same words under another delivery id are no news.
        """
        row: Row = {
            "id": hook_id,
            "number": provisional_number(),
            "forge": event.forge.value,
            "delivery": event.delivery,
            "digest": digest,
            "kind": event.kind,
            "repo": event.repo.lower(),
            "issue": event.number,
            "state": "received",
            "why": None,
            "tries": 0,
            "event": dumps(event.as_dict()),
            "jobs": "[]",
            "received_at": at,
            "done_at": None,
        }
        with self._database.transaction():
            known = self._database.one(
                "hook_event_told_before", forge=row["forge"], delivery=event.delivery, digest=digest
            )
            if known is None:
                self._database.do("insert_hook_event", **row)
                self._database.at_commit("number_hook_event", id=hook_id)
                return hook_id, True
            again = self._database.do("take_hook_event_up", id=known["id"], event=row["event"], received_at=at)
        return str(known["id"]), again > 0

    def event(self, hook_id: str) -> StoredHook | None:
        from clew.store.rows.hooks import hook_from

        return first(hook_from, self._database.one("hook_event_by_id", id=hook_id))

    def events(self, *, state: str | None = None, limit: int = 100, newest: bool = False) -> list[StoredHook]:
        """Of a state, the oldest first unless `newest`; of all, the newest first."""
        from clew.store.rows.hooks import hook_from

        if state is None:
            return each(hook_from, self._database.all("hook_events_newest", limit=limit))
        query = "hook_events_newest_with_state" if newest else "hook_events_with_state"
        return each(hook_from, self._database.all(query, state=state, limit=limit))

    def last_events(self) -> dict[str, StoredHook]:
        """By key: the event that woke its agent last."""
        from clew.store.rows.hooks import hook_from

        return {str(row["key"]): hook_from(row) for row in self._database.all("hook_events_last_by_key")}

    def count_events(self) -> dict[tuple[str, str], int]:
        """How many there are, by forge and state."""
        return {(row["forge"], row["state"]): row["count"] for row in self._database.all("count_hook_events")}

    def event_before(self, hook_id: str) -> str | None:
        """The oldest of the same issue, or of a branch, that is not dealt with yet; of a branch: of all."""
        row = self._database.one("hook_event_before", id=hook_id)
        return None if row is None else str(row["id"])

    def issue_last(self, repo: str, issue: int) -> str | None:
        """The event that last opened or closed it, as far as they are kept."""
        row = self._database.one("hook_issue_last", repo=repo.lower(), issue=issue)
        return None if row is None else str(row["kind"])

    def update_event(self, hook_id: str, **changes: Any) -> StoredHook:
        with self._database.transaction():
            stored = self.event(hook_id)
            if stored is None:
                raise NotFound(f"There is no hook event {hook_id}.")
            changed = stored._replace(**changes)
            self._database.do(
                "write_hook_event",
                id=hook_id,
                state=changed.state,
                why=changed.why,
                tries=changed.tries,
                jobs=dumps(list(changed.jobs)),
                done_at=changed.done_at,
            )
        return changed

    def forget_events(self, before: float) -> int:
        return self._database.do("forget_hook_events", before=before)

    def save_key(self, key: HookKey) -> None:
        with self._database.transaction():
            self._database.do("save_hook_key", **key._asdict())
            self._versions.changed(key.thread_id)

    def key(self, key: str) -> HookKey | None:
        from clew.store.rows.hooks import key_from

        return first(key_from, self._database.one("hook_key", key=key))

    def keys(self, *, repo: str | None = None, issue: int | None = None) -> list[HookKey]:
        from clew.store.rows.hooks import key_from

        return each(key_from, self._database.all("hook_keys", repo=repo, issue=issue))

    def delete_key(self, key: str) -> bool:
        with self._database.transaction():
            known = self.key(key)
            if known is None:
                return False
            self._database.do("delete_hook_key", key=key)
            self._versions.changed(known.thread_id)
        return True

    def add_job(self, job: HookJob) -> None:
        self._database.do("insert_hook_job", **job._asdict())

    def job(self, job_id: str) -> HookJob | None:
        from clew.store.rows.hooks import job_from

        return first(job_from, self._database.one("hook_job", job_id=job_id))

    def key_last_used(self, key: str) -> tuple[float | None, str | None]:
        """When it last had a job, and which forge the event was of, as far as that is kept; also of a dropped key."""
        row = self._database.one("hook_key_last_used", key=key)
        return (None, None) if row is None else (row["at"], row["forge"])

    def replies_due(self, limit: int = 100) -> list[HookJob]:
        """Of jobs that have succeeded, and that nobody has begun to post."""
        from clew.store.rows.hooks import job_from

        return each(job_from, self._database.all("hook_replies_due", limit=limit))

    def update_job(self, job_id: str, **changes: Any) -> HookJob:
        with self._database.transaction():
            stored = self.job(job_id)
            if stored is None:
                raise NotFound(f"{job_id} is no job of a hook.")
            changed = stored._replace(**changes)
            self._database.do(
                "write_hook_job",
                job_id=job_id,
                reply=changed.reply,
                why=changed.why,
                url=changed.url,
                tries=changed.tries,
                at=changed.at,
            )
        return changed
