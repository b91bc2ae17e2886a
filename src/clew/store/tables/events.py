"""Events of a run in the store: numbered by their writer, so that sending one twice does no harm."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.runs.events import Event, RunEnded, ToolStarted, to_body
from clew.store.database.database import Database
from clew.store.database.versions import Versions
from clew.store.records import StoredEvent, dumps, each, event_from
from clew.store.tables.questions import QuestionTable
from clew.store.tables.table import Table

LAST_SEQ = 2**53  # beyond every event's
MOST_EVENTS = 500  # that are read at once, however small


class EventTable(Table):
    def __init__(self, database: Database, versions: Versions, questions: QuestionTable) -> None:
        super().__init__(database, versions)
        self._questions = questions

    def append(self, run_id: str, events: Sequence[tuple[int, float, Event]]) -> None:
        """Store (seq, at, event) each; all or none. One whose seq is there already is left as it is.

        Nothing comes after a run's end: whoever still has something to say has slept through it. What is read off the
        events (open questions, the number of tools) moves in the same transaction.
        """
        rows = [
            {"run_id": run_id, "seq": seq, "at": at, "kind": event.kind, "body": dumps(to_body(event))}
            for seq, at, event in events
        ]
        if not rows:
            return
        with self._database.transaction():
            last = self._database.one("last_event", run_id=run_id)
            if last is not None and last["kind"] == RunEnded.kind:
                return
            known = int(last["seq"]) if last is not None else 0
            new = [item for item in events if item[0] > known]
            self._database.do_many("append_event", rows)
            tools = sum(isinstance(event, ToolStarted) for _, _, event in new)
            if tools:
                self._database.do("count_tools", id=run_id, tools=tools)
            if self._questions.follow(run_id, new):
                row = self._database.one("run_by_id", id=run_id)
                self._versions.changed(str(row["thread_id"]) if row else "")

    def of_run(self, run_id: str, after_seq: int = 0, last_seq: int = LAST_SEQ) -> list[StoredEvent]:
        found = self._database.all("events_after", run_id=run_id, after_seq=after_seq, last_seq=last_seq)
        return each(event_from, found)

    def next(self, run_id: str, after_seq: int, *, most_chars: int) -> list[StoredEvent]:
        """The first of those, so many that they are not much to hold; one that is larger comes alone."""
        last, chars = after_seq, 0
        for row in self._database.all("event_sizes", run_id=run_id, after_seq=after_seq, most=MOST_EVENTS):
            chars += int(row["size"])
            if chars > most_chars and last > after_seq:
                break
            last = int(row["seq"])
        return self.of_run(run_id, after_seq, last) if last > after_seq else []

    def steps(self, run_id: str) -> list[StoredEvent]:
        """All but what later ones repeat: the pieces of text, and tokens in between."""
        return each(event_from, self._database.all("steps", run_id=run_id))

    def heard_at(self, run_id: str) -> float | None:
        """When the last event came that is not the run's end."""
        last = self._database.one("last_heard", run_id=run_id)
        return float(last["at"]) if last is not None else None

    def last_seq(self, run_id: str) -> int:
        """0 when there is none."""
        last = self._database.one("last_event", run_id=run_id)
        return int(last["seq"]) if last is not None else 0
