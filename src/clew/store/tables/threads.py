"""Threads in the store."""

from __future__ import annotations

import json
from typing import Any

from clew.core.record import replace
from clew.core.thread import Permissions, Thread
from clew.errors import Conflict, NotFound
from clew.store import sql
from clew.store.database import Row
from clew.store.records import each, first, thread_from, thread_row
from clew.store.versions import Versions

NAME_CHARS = 80  # as long as a thread's name may be, suffix included
NAMES_SEARCHED = 1000  # for a hint
ALL_THREADS = "`clew threads list --kind all` shows all threads."
COUNTED = ("size_chars", "spent_usd")  # of a thread's row: the database adds them up itself


class Threads(Versions):
    def create_thread(self, thread: Thread, *, unique: bool = True) -> Thread:
        """Store it under its name, or that name with -2, -3, … when it is taken (`unique=False`: Conflict then)."""
        with self.transaction():
            named = replace(thread, name=self._free_name(thread.name)) if unique else thread
            if self._one("thread_by_name", name=named.name) is not None:
                raise Conflict(f"There is a thread named {named.name} already.", hint="Choose another name.")
            self._do("insert_thread", **thread_row(named))
            self._do("forget_deleted", id=named.id)  # one that was put away comes back under its id
            self._changed(named.id)
        return named

    def _free_name(self, name: str) -> str:
        number, candidate = 1, name
        while self._one("is_thread_name", name=candidate) or self._one("thread_by_name", name=candidate):
            number += 1
            suffix = f"-{number}"
            candidate = name[: NAME_CHARS - len(suffix)] + suffix
        return candidate

    def thread(self, name_or_id: str) -> Thread | None:
        """By exact name first, then by id."""
        return first(thread_from, self._one("thread_by_name", name=name_or_id)) or self.thread_by_id(name_or_id)

    def thread_by_id(self, thread_id: str) -> Thread | None:
        """Also when another thread has that id for its name."""
        return first(thread_from, self._one("thread_by_id", id=thread_id))

    def require_thread(self, name_or_id: str) -> Thread:
        found = self.thread(name_or_id)
        if found is None:
            raise NotFound(f"There is no thread named {name_or_id}.", hint=self._meant(name_or_id))
        return found

    def require_thread_by_id(self, thread_id: str) -> Thread:
        found = self.thread_by_id(thread_id)
        if found is None:
            raise NotFound(f"There is no thread with the id {thread_id}.", hint=ALL_THREADS)
        return found

    def _meant(self, name: str) -> str:
        import difflib

        pair = [thread.name for thread in self._pair_threads(name)]
        if pair:
            goes_on = f"clew pair --session {name} goes on with it"
            return f"{name} is a pair; its threads are {' and '.join(pair)}. Name one of them; {goes_on}."
        names = [row["name"] for row in self._all("thread_names", limit=NAMES_SEARCHED)]
        close = difflib.get_close_matches(name, names, n=3)
        return f"Did you mean {' or '.join(close)}?" if close else ALL_THREADS

    def _pair_threads(self, name_or_id: str) -> list[Thread]:
        """Of a pair, the instructor's first; empty: there is no such pair."""
        pair = self._one("pair_by_id", id=name_or_id) or self._one("pair_by_name", name=name_or_id)
        if pair is None:
            return []
        return [self.require_thread_by_id(pair[f"{part}_thread_id"]) for part in ("instructor", "worker")]

    def threads(self, *, cwd: str | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        """Those last used come first."""
        if cwd is None:
            rows = self._all("threads_newest", limit=limit, offset=offset)
        else:
            rows = self._all("threads_in", cwd=cwd, limit=limit, offset=offset)
        return each(thread_from, rows)

    def threads_that_may(self, permissions: Permissions, *, limit: int = 2) -> tuple[int, list[str]]:
        """How many have these permissions, and the names of those last used."""
        rows = self._all("threads_that_may", permissions=permissions, limit=limit)
        return (int(rows[0]["n"]) if rows else 0), [str(row["name"]) for row in rows]

    def latest_thread(self, cwd: str, kind: str = "chat") -> Thread | None:
        """The one of that kind that was last used there."""
        return first(thread_from, self._one("latest_thread", cwd=cwd, kind=kind))

    def update_thread(self, thread_id: str, *, at: float, **changes: Any) -> Thread:
        """Change fields of the record (a name that is taken: Conflict); without any, only `updated_at` moves."""
        if changes.keys() & {"id", "created_at", "updated_at"}:
            raise TypeError("a thread's id and times are not changed this way")
        with self.transaction():
            stored = self.require_thread_by_id(thread_id)
            changed = replace(stored, **changes, updated_at=max(at, stored.updated_at))
            if changed.name != stored.name and self._one("thread_by_name", name=changed.name) is not None:
                raise Conflict(f"There is a thread named {changed.name} already.", hint="Choose another name.")
            self._do("write_thread", **thread_row(changed))
            self._changed(thread_id)
        return changed

    def delete_thread(self, thread_id: str) -> None:
        """Everything of it. Archive what `dump_thread` gives first: nothing is lost (law 7)."""
        with self.transaction():
            if not self._do("delete_thread", id=thread_id):
                raise NotFound(f"There is no thread with the id {thread_id}.")
            self._was_deleted(thread_id)

    def dump_thread(self, thread_id: str) -> Row:
        """All rows of the thread, ready for JSON: what is archived before a delete."""
        with self.transaction():  # one moment's view of all tables
            thread = self._one("thread_by_id", id=thread_id)
            if thread is None:
                raise NotFound(f"There is no thread with the id {thread_id}.")
            rows = {name: self._all(f"dump_{name}", id=thread_id) for name in DUMPED}
        for event in rows["events"]:
            event["body"] = json.loads(event["body"])
        for question in rows["questions"]:
            question["input"] = json.loads(question["input"])
        for pin in rows["pins"]:
            pin["runtime"] = json.loads(pin["runtime"])
            pin["pending"] = json.loads(pin["pending"]) if pin["pending"] else None
        for counted in COUNTED:
            del thread[counted]
        return {"schema": len(sql.migrations()), "thread": thread, **rows}


DUMPED = (
    "turns",
    "turn_revisions",
    "runs",
    "attempts",
    "events",
    "questions",
    "pins",
    "pin_absorbed",
    "jobs",
    "job_markers",
    "reviews",
    "review_rounds",
    "hook_keys",
    "hook_jobs",
    "pairs",
    "pair_rounds",  # what a pair remembers of the files stays: it holds in one directory of one machine alone
)
