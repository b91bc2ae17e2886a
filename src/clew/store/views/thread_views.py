"""What surfaces show: threads as cards, a thread as one moment's view, what changed since."""

from __future__ import annotations

from clew.core.lookup import ALL_ROWS
from clew.core.runs.run import LIVE, Run, RunStatus
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
from clew.store.tables.runs import RunTable
from clew.store.tables.threads import ThreadTable
from clew.store.tables.turns import no_such_turn

ENDED_LOOKED_AT = 50  # that may have been taken back one after the other


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

    def page(
        self,
        *,
        q: str | None = None,
        cwd: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> ThreadPage:
        """Those last used come first; `q` looks in names, directories and what was said."""
        like = None if q is None else pattern_of(q)
        with self._database.reading():
            rows = self._database.all(
                "thread_summaries", id=None, after=-1, q=like, cwd=cwd, kind=kind, limit=limit, offset=offset
            )
            total = self._database.number("count_threads", q=like, cwd=cwd, kind=kind)
            return ThreadPage(self.summaries(rows), total, self._versions.current())

    def summary(self, name_or_id: str) -> ThreadSummary:
        with self._database.reading():
            thread = self._threads.require(name_or_id)
            rows = self._database.all(
                "thread_summaries", id=thread.id, after=-1, q=None, cwd=None, kind=None, limit=1, offset=0
            )
            return self.summaries(rows)[0]

    def changes(self, after: int) -> Changes:
        with self._database.reading():
            rows = self._database.all(
                "thread_summaries", id=None, after=after, q=None, cwd=None, kind=None, limit=ALL_ROWS, offset=0
            )
            deleted = [str(row["id"]) for row in self._database.all("deleted_after", after=after)]
            return Changes(self._versions.current(), self.summaries(rows), deleted)

    def thread(self, name_or_id: str, *, before: int | None = None, limit: int = 100) -> ThreadView:
        """The turns before that position (None: the last ones), and all that is going on."""
        with self._database.reading():
            summary = self.summary(name_or_id)
            thread_id = summary.thread.id
            rows = self._database.all("turns_before", thread_id=thread_id, before=before, limit=limit + 1)
            return ThreadView(
                summary,
                self._turn_views(rows[:limit]),
                len(rows) > limit,
                [self.run(run) for run in self._shown_runs(thread_id)],
                [question for question in self._questions.open(thread_id) if question.is_open],
                self._versions.current(),
            )

    def run(self, run: Run) -> RunView:
        asked = [question for question in self._questions.of_run(run.id) if question.is_open]
        return RunView(run, self._events.last_seq(run.id), self._stderr_tail(run), asked[0] if asked else None)

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
            ),
            rows,
        )

    def _live_runs(self, thread_id: str | None = None) -> dict[str, Run]:
        """By thread: the one that is going on, else the one whose turn it is next. A held one has no turn."""
        found: dict[str, Run] = {}
        for run in sorted(self._runs.newest(thread_id=thread_id, statuses=LIVE, limit=ALL_ROWS), key=_order):
            if not run.asked.held:
                found.setdefault(run.thread_id, run)
        return found

    def _shown_runs(self, thread_id: str) -> list[Run]:
        """Those that are going on or wait; and the newest that ended, when no answer turn shows how.

        One that was taken back before it began is not worth a word.
        """
        live = sorted(self._runs.newest(thread_id=thread_id, statuses=LIVE, limit=ALL_ROWS), key=_order)
        ended = [
            run for run in self._runs.newest(thread_id=thread_id, limit=len(live) + ENDED_LOOKED_AT) if _is_shown(run)
        ]
        return [*(run for run in ended[:1] if run.answer_turn_id is None), *live]

    def _unanswered(self, turn_id: str) -> Run | None:
        """The last run that asked this turn, when it ended without an answer."""
        run = first(run_from, self._database.one("last_run_of_prompt", prompt_turn_id=turn_id))
        return run if run is not None and run.status not in LIVE and run.answer_turn_id is None else None

    def _turn_views(self, rows: list[Row]) -> list[TurnView]:
        """Oldest first."""

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
    """As they have their turns; those that are held come last."""
    return run.status is RunStatus.QUEUED, run.asked.held, not run.asked.sent_now, run.created_at, run.id


def pattern_of(text: str) -> str:
    """The pattern that finds the text anywhere in a lower-case one."""
    escaped = text.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"
