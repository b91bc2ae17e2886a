"""The table of threads."""

from __future__ import annotations

from typing import Any

from clew.core.lookup import SEARCH_LIMIT
from clew.core.record import replace
from clew.core.runs.tool_rules import ToolRule, with_rule
from clew.core.thread import NAME_CHARS, Permissions, Thread
from clew.errors import Conflict, NotFound
from clew.store.database import sql
from clew.store.database.database import Row
from clew.store.records import each, first, thread_from, thread_row
from clew.store.tables.table import Table, free_name

ALL_THREADS = "`clew threads list --kind all` shows all threads."
ASKED = "questions"
USES = {
    "running": "a run is active",
    "queued": "a prompt is queued",
    "jobs": "a job has not ended",
    ASKED: "a question is open",
}


class ThreadTable(Table):
    def create(self, thread: Thread, *, unique: bool = True) -> Thread:
        """Stores the thread under its name, or under that name with -2, -3, … when it is taken.

        `unique=False`: raises Conflict when the name is taken.
        """
        with self._database.transaction():
            named = replace(thread, name=self.new_name(thread.name, unique=unique))
            self._database.do("insert_thread", **thread_row(named))
            self._database.do("forget_deleted", id=named.id)  # an archived thread is restored with its old id
            self._versions.changed(named.id)
        return named

    def new_name(self, name: str, *, unique: bool = True) -> str:
        """The name that `create` stores a new thread under."""

        def is_taken(name: str) -> bool:
            return any(self._database.one(query, name=name) for query in ("is_thread_name", "thread_by_name"))

        if unique:
            return free_name(name, NAME_CHARS, is_taken)
        if self._database.one("thread_by_name", name=name) is not None:
            raise Conflict(f"There is a thread named {name} already.", hint="Choose another name.")
        return name

    def find(self, name_or_id: str) -> Thread | None:
        """By exact name first, then by id."""
        return first(thread_from, self._database.one("thread_by_name", name=name_or_id)) or self.by_id(name_or_id)

    def by_id(self, thread_id: str) -> Thread | None:
        """The thread with that id, even if the id is the name of another thread."""
        return first(thread_from, self._database.one("thread_by_id", id=thread_id))

    def require(self, name_or_id: str) -> Thread:
        found = self.find(name_or_id)
        if found is None:
            raise NotFound(f"There is no thread named {name_or_id}.", hint=self._suggestion(name_or_id))
        return found

    def require_by_id(self, thread_id: str) -> Thread:
        found = self.by_id(thread_id)
        if found is None:
            raise NotFound(f"There is no thread with the id {thread_id}.", hint=ALL_THREADS)
        return found

    def _suggestion(self, name: str) -> str:
        import difflib

        pair = [thread.name for thread in self._pair_threads(name)]
        if pair:
            threads = f"{name} is a pair; its threads are {' and '.join(pair)}"
            return f"{threads}. Name one of them, or continue the pair with clew pair --session {name}."
        names = [row["name"] for row in self._database.all("thread_names", limit=SEARCH_LIMIT)]
        close = difflib.get_close_matches(name, names, n=3)
        return f"Did you mean {' or '.join(close)}?" if close else ALL_THREADS

    def _pair_threads(self, name_or_id: str) -> list[Thread]:
        """The two threads of a pair, the instructor's first; empty if there is no such pair."""
        pair = self._database.one("pair_by_id", id=name_or_id) or self._database.one("pair_by_name", name=name_or_id)
        if pair is None:
            return []
        return [self.require_by_id(pair[f"{part}_thread_id"]) for part in ("instructor", "worker")]

    def recent(self, *, cwd: str | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        """The last used first."""
        if cwd is None:
            rows = self._database.all("threads_newest", limit=limit, offset=offset)
        else:
            rows = self._database.all("threads_in", cwd=cwd, limit=limit, offset=offset)
        return each(thread_from, rows)

    def with_permissions(self, permissions: Permissions, *, limit: int = 2) -> tuple[int, list[str]]:
        """The number of threads with these permissions, and the names of the last used ones."""
        rows = self._database.all("threads_with_permissions", permissions=permissions, limit=limit)
        return (int(rows[0]["n"]) if rows else 0), [str(row["name"]) for row in rows]

    def latest(self, cwd: str, kind: str = "chat") -> Thread | None:
        """The thread of that kind that was last used in that directory."""
        return first(thread_from, self._database.one("latest_thread", cwd=cwd, kind=kind))

    def below(self, folder: str, *, kind: str = "chat", limit: int = 50, offset: int = 0) -> list[Thread]:
        """The threads of that kind in that directory and in those below it, the last used first."""
        below = folder.rstrip("/") + "/"
        rows = self._database.all("threads_below", below=below, kind=kind, limit=limit, offset=offset)
        return each(thread_from, rows)

    def update(self, thread_id: str, *, at: float, **changes: Any) -> Thread:
        """Changes fields of the record and `updated_at`. Raises Conflict for a name that is taken."""
        if changes.keys() & {"id", "created_at", "updated_at"}:
            raise TypeError("a thread's id and times cannot be changed this way")
        with self._database.transaction():
            stored = self.require_by_id(thread_id)
            changed = replace(stored, **changes, updated_at=max(at, stored.updated_at))
            if changed.name != stored.name and self._database.one("thread_by_name", name=changed.name) is not None:
                raise Conflict(f"There is a thread named {changed.name} already.", hint="Choose another name.")
            self._database.do("write_thread", **thread_row(changed))
            self._versions.changed(thread_id)
        return changed

    def allow(self, thread_id: str, rule: ToolRule) -> None:
        """Adds a rule: later runs of the thread do not ask for what it allows."""
        with self._database.transaction():
            stored = self.require_by_id(thread_id)
            rules = with_rule(stored.tool_rules, rule)
            if rules != stored.tool_rules:
                self.update(thread_id, at=stored.updated_at, tool_rules=rules)

    def delete(self, thread_id: str) -> None:
        """Deletes the thread with all its rows. Archive its `dump` first: nothing may be lost (law 7)."""
        with self._database.transaction():
            if not self._database.do("delete_thread", id=thread_id):
                raise NotFound(f"There is no thread with the id {thread_id}.")
            self._versions.deleted(thread_id)

    def dump(self, thread_id: str) -> Row:
        """All rows of the thread, ready for JSON. They are archived before the thread is deleted."""
        from clew.store.transfer.codec import COUNTED, DUMPED, nested

        with self._database.transaction():  # so that all tables are read in one consistent state
            thread = self._database.one("thread_by_id", id=thread_id)
            if thread is None:
                raise NotFound(f"There is no thread with the id {thread_id}.")
            rows = {
                table: [nested(table, row) for row in self._database.all(f"dump_{table}", id=thread_id)]
                for table in DUMPED
            }
        for counted in COUNTED:
            del thread[counted]
        return {"schema": sql.latest_version(), "thread": thread, **rows}

    def use_of(self, thread_id: str, *, asked: bool = False) -> str | None:
        """Why the thread cannot be archived; None: it can. `asked`: an open question does not prevent it."""
        row = self._database.one("thread_uses", id=thread_id) or {}
        return next((words for name, words in USES.items() if row.get(name) and not (asked and name == ASKED)), None)

    def unused(self, before: float, kind: str | None = None) -> list[Thread]:
        """The threads that were last used before that time, the oldest first."""
        return each(thread_from, self._database.all("unused_threads", before=before, kind=kind))

    def companions(self, thread_id: str) -> list[Thread]:
        """Threads that are useless without this one: the other thread of a pair."""
        return [self.require_by_id(row["id"]) for row in self._database.all("companions", id=thread_id)]

    def together(self, name_or_id: str) -> list[Thread]:
        """The thread and its companions; both threads for the name or the id of a pair. Raises NotFound."""
        pair = [] if self.find(name_or_id) is not None else self._pair_threads(name_or_id)
        if pair:
            return pair
        thread = self.require(name_or_id)
        return [thread, *self.companions(thread.id)]
