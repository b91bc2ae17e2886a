"""The tables of hooks: events that forges sent, session keys, and what each job of a hook is for."""

from __future__ import annotations

from typing import Any

from clew.core.hooks.hook import HookEvent
from clew.errors import NotFound
from clew.store.database.database import provisional_number
from clew.store.records import Row, dumps, each, first, flat
from clew.store.rows.hooks import HookJob, HookKey, StoredHook, hook_from, job_from, key_from
from clew.store.tables.table import DumpedTable, Table, Tables

DUMPED = (
    DumpedTable("hook_keys", belongs_to={"thread_id": "threads"}),
    DumpedTable("hook_jobs", belongs_to={"job_id": "jobs"}),
)


class HookTables(Table):
    def add_event(self, hook_id: str, event: HookEvent, at: float, digest: str | None = None) -> tuple[str, bool]:
        """Returns the event's id, and whether it has to be handled. An event that was received before is handled again
        only if it was ignored or failed.

        `digest` is that of the signed part: the same content with another delivery id is the same event.
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
            known = self._database.one("known_hook_event", forge=row["forge"], delivery=event.delivery, digest=digest)
            if known is None:
                self._database.do("insert_hook_event", **row)
                self._database.at_commit("number_hook_event", id=hook_id)
                return hook_id, True
            again = self._database.do("reopen_hook_event", id=known["id"], event=row["event"], received_at=at)
        return str(known["id"]), again > 0

    def event(self, hook_id: str) -> StoredHook | None:
        return first(hook_from, self._database.one("hook_event_by_id", id=hook_id))

    def events(self, *, state: str | None = None, limit: int = 100, newest: bool = False) -> list[StoredHook]:
        """Events in that state, the oldest first unless `newest`; without a state all events, the newest first."""
        if state is None:
            return each(hook_from, self._database.all("hook_events_newest", limit=limit))
        query = "hook_events_newest_with_state" if newest else "hook_events_with_state"
        return each(hook_from, self._database.all(query, state=state, limit=limit))

    def last_events(self) -> dict[str, StoredHook]:
        """By session key: the last event that started a job for it."""
        return {str(row["key"]): hook_from(row) for row in self._database.all("hook_events_last_by_key")}

    def count_events(self) -> dict[tuple[str, str], int]:
        """The number of events by forge and state."""
        return {(row["forge"], row["state"]): row["count"] for row in self._database.all("count_hook_events")}

    def event_before(self, hook_id: str) -> str | None:
        """The oldest event that must be handled before this one: an unhandled one of the same issue or of a branch.

        An event of a branch waits for all unhandled events of its repository.
        """
        row = self._database.one("hook_event_before", id=hook_id)
        return None if row is None else str(row["id"])

    def issue_last(self, repo: str, issue: int) -> str | None:
        """The kind of the last stored event that opened, reopened, closed or merged the issue or pull request."""
        row = self._database.one("hook_issue_last", repo=repo.lower(), issue=issue)
        return None if row is None else str(row["kind"])

    def update_event(self, hook_id: str, **changes: Any) -> StoredHook:
        with self._database.transaction():
            stored = self.event(hook_id)
            if stored is None:
                raise NotFound(f"There is no hook event {hook_id}.")
            changed = stored._replace(**changes)
            columns = flat(changed, without=("event", "jobs"))
            self._database.do("write_hook_event", **columns, jobs=dumps(list(changed.jobs)))
        return changed

    def forget_events(self, before: float) -> int:
        return self._database.do("forget_hook_events", before=before)

    def save_key(self, key: HookKey) -> None:
        with self._database.transaction():
            self._database.do("save_hook_key", **key._asdict())
            self._versions.changed(key.thread_id)

    def key(self, key: str) -> HookKey | None:
        return first(key_from, self._database.one("hook_key", key=key))

    def keys(self, *, repo: str | None = None, issue: int | None = None) -> list[HookKey]:
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
        return first(job_from, self._database.one("hook_job", job_id=job_id))

    def key_last_used(self, key: str) -> tuple[float | None, str | None]:
        """When the key last had a job, and the forge of that job's event if it is stored. Also for dropped keys."""
        row = self._database.one("hook_key_last_used", key=key)
        return (None, None) if row is None else (row["at"], row["forge"])

    def replies_due(self, limit: int = 100) -> list[HookJob]:
        """Succeeded jobs whose reply has to be posted, and that no worker has begun to post."""
        return each(job_from, self._database.all("hook_replies_due", limit=limit))

    def update_job(self, job_id: str, **changes: Any) -> HookJob:
        with self._database.transaction():
            stored = self.job(job_id)
            if stored is None:
                raise NotFound(f"{job_id} is not a job of a hook.")
            changed = stored._replace(**changes)
            self._database.do("write_hook_job", **changed._asdict())
        return changed

    def adapt_imported(self, tables: Tables) -> None:
        """Leaves out keys that this store has already: they keep their thread."""
        keys = tables.get("hook_keys", ())
        tables["hook_keys"] = [row for row in keys if self._database.one("hook_key", key=str(row.get("key"))) is None]
