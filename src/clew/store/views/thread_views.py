"""What surfaces show: pages of threads, one thread in one consistent state, changes after a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from clew.core.lookup import ALL_ROWS
from clew.core.record import check_keywords
from clew.core.runs.run import LIVE, Run, RunBelonging, RunStatus
from clew.store.database.database import Database, Row
from clew.store.database.versions import Versions
from clew.store.records import (
    Changes,
    RunView,
    ThreadPage,
    ThreadSummary,
    ThreadView,
    TurnView,
    each,
    first,
    run_from,
    thread_from,
    turn_from,
)
from clew.store.tables.events import EventTable
from clew.store.tables.questions import QuestionTable
from clew.store.tables.runs import RunTable, no_such_run
from clew.store.tables.threads import ThreadTable
from clew.store.tables.turns import no_such_turn

ENDED_LOOKED_AT = 50  # ended runs that are read, because the newest may be runs that were cancelled before they started

FAILURES = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED})


class PageFilters(TypedDict, total=False):
    """Which threads are listed, and which page of them."""

    q: str | None  # a text in the name, the directory or a turn
    cwd: str | None  # the work directory
    kind: str | None  # "chat", or the kind of another host's threads; None: all
    limit: int  # default: 50
    offset: int


class ThreadViews:
    def __init__(
        self,
        database: Database,
        versions: Versions,
        threads: ThreadTable,
        runs: RunTable,
        events: EventTable,
        questions: QuestionTable,
    ) -> None:
        self._database, self._versions = database, versions
        self._threads, self._runs, self._events, self._questions = threads, runs, events, questions

    def page(self, **filters: Unpack[PageFilters]) -> ThreadPage:
        """The last used threads first."""
        check_keywords(PageFilters, filters)
        where = {"q": pattern_of(filters.get("q")), "cwd": filters.get("cwd"), "kind": filters.get("kind")}
        limit, offset = filters.get("limit", 50), filters.get("offset", 0)
        with self._database.reading():
            found = self._find(**where, limit=limit, offset=offset)
            return ThreadPage(found, self._database.number("count_threads", **where), self._versions.current())

    def summary(self, name_or_id: str) -> ThreadSummary:
        with self._database.reading():
            return self._find(id=self._threads.require(name_or_id).id)[0]

    def changes(self, after: int) -> Changes:
        with self._database.reading():
            deleted = [str(row["id"]) for row in self._database.all("deleted_after", after=after)]
            return Changes(self._versions.current(), self._find(after=after), deleted)

    def _find(self, **where: Any) -> list[ThreadSummary]:
        everything = {"id": None, "after": -1, "q": None, "cwd": None, "kind": None, "limit": ALL_ROWS, "offset": 0}
        return self.summaries(self._database.all("thread_summaries", **(everything | where)))

    def thread(self, name_or_id: str, *, before: int | None = None, limit: int = 100) -> ThreadView:
        """The turns before that position (None: the last turns), and the active runs and open questions."""
        with self._database.reading():
            summary = self.summary(name_or_id)
            thread_id = summary.thread.id
            rows = self._database.all("turns_before", thread_id=thread_id, before=before, limit=limit + 1)
            return ThreadView(
                summary,
                self._turn_views(rows[:limit]),
                len(rows) > limit,
                self.runs(self._shown_runs(thread_id)),
                [question for question in self._questions.open(thread_id) if question.is_open],
                self._versions.current(),
            )

    def run(self, run: Run) -> RunView:
        found = self.runs([run])
        if not found:
            raise no_such_run(run.id)
        return found[0]

    def runs(self, runs: Sequence[Run]) -> list[RunView]:
        """The views of the runs, without those that have been deleted since they were read."""
        belongings = self._runs.belongings(runs)
        return [self._run_view(run, belongings[run.id]) for run in runs if run.id in belongings]

    def _run_view(self, run: Run, belonging: RunBelonging) -> RunView:
        asked = [question for question in self._questions.of_run(run.id) if question.is_open]
        question = asked[0] if asked else None
        return RunView(run, self._events.last_seq(run.id), self._stderr_tail(run), question, belonging)

    def _stderr_tail(self, run: Run) -> str:
        if run.status not in (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED):
            return ""
        attempts = self._runs.attempts(run.id)
        return attempts[-1].stderr_tail if attempts else ""

    def turn(self, thread_id: str, turn_id: str) -> TurnView:
        with self._database.reading():
            place = self._database.one("place_of_turn", id=turn_id, thread_id=thread_id)
            if place is None or place["archived_at"] is not None:
                raise no_such_turn(turn_id)
            rows = self._database.all("turns_before", thread_id=thread_id, before=place["position"] + 1, limit=1)
            return self._turn_views(rows)[0]

    def summaries(self, rows: list[Row]) -> list[ThreadSummary]:
        live = self._live_runs() if len(rows) != 1 else self._live_runs(rows[0]["id"])
        return each(
            lambda row: ThreadSummary(
                thread_from(row),
                row["version"],
                row["turn_count"],
                row["total_usd"],
                row["question_count"],
                row["last_text"] or "",
                live.get(row["id"]),
                row["opened_at"],
                self._first_failure(row) if row["id"] not in live else None,
            ),
            rows,
        )

    def _first_failure(self, row: Row) -> Run | None:
        """The last run, if it failed and the thread has no answer at all."""
        if not (row["turn_count"] and row["unanswered"]):
            return None
        newest = self._runs.newest(thread_id=row["id"], limit=ENDED_LOOKED_AT)
        ended = next((run for run in newest if _is_shown(run)), None)
        return ended if ended is not None and ended.status in FAILURES else None

    def _live_runs(self, thread_id: str | None = None) -> dict[str, Run]:
        """By thread: the active run, else the next queued one. Held runs are not started, so they do not count."""
        found: dict[str, Run] = {}
        for run in sorted(self._runs.newest(thread_id=thread_id, statuses=LIVE, limit=ALL_ROWS), key=_order):
            if not run.asked.held:
                found.setdefault(run.thread_id, run)
        return found

    def _shown_runs(self, thread_id: str) -> list[Run]:
        """The active and queued runs; and the newest ended run, if it gave no answer turn that would show its result.

        A run that was cancelled before it started is not shown.
        """
        live = sorted(self._runs.newest(thread_id=thread_id, statuses=LIVE, limit=ALL_ROWS), key=_order)
        ended = [
            run for run in self._runs.newest(thread_id=thread_id, limit=len(live) + ENDED_LOOKED_AT) if _is_shown(run)
        ]
        return [*(run for run in ended[:1] if run.answer_turn_id is None), *live]

    def _unanswered(self, turn_id: str) -> Run | None:
        """The last run of this prompt, if it ended without an answer."""
        run = first(run_from, self._database.one("last_run_of_prompt", prompt_turn_id=turn_id))
        return run if run is not None and run.status not in LIVE and run.answer_turn_id is None else None

    def _turn_views(self, rows: list[Row]) -> list[TurnView]:
        """The views of the turns, the oldest first."""

        def view(row: Row) -> TurnView:
            if row["role"] == "user":
                run, tools = self._unanswered(row["id"]), 0
            else:
                run = self._runs.find(row["run_id"]) if row["run_id"] is not None else None
                tools = row["tools"] if run is not None else 0
            tail = self._stderr_tail(run) if run is not None else ""
            return TurnView(turn_from(row), row["position"], run, tools, tail)

        return each(view, reversed(rows))


def _is_shown(run: Run) -> bool:
    return run.status not in LIVE and not (run.status is RunStatus.CANCELLED and run.started_at is None)


def _order(run: Run) -> tuple[bool, bool, bool, float, str]:
    """The order in which the runs start; held runs come last."""
    return run.status is RunStatus.QUEUED, run.asked.held, not run.asked.sent_now, run.created_at, run.id


def pattern_of(text: str | None) -> str | None:
    """The LIKE pattern that finds the text anywhere in a lower-case text. None, for no text, means no filter."""
    if text is None:
        return None
    escaped = text.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"
