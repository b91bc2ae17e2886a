"""The table of events. The writer numbers the events of its run, so that storing one twice does no harm."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.runs.events import Event, RunEnded, ToolStarted, to_body
from clew.store.database.database import Database
from clew.store.database.versions import Versions
from clew.store.records import StoredEvent, dumps, each, event_from
from clew.store.tables.questions import QuestionTable
from clew.store.tables.table import Table

LAST_SEQ = 2**53  # larger than the number of any event
MAX_EVENTS = 500  # read at once, however small they are


class EventTable(Table):
    def __init__(self, database: Database, versions: Versions, questions: QuestionTable) -> None:
        super().__init__(database, versions)
        self._questions = questions

    def append(self, run_id: str, events: Sequence[tuple[int, float, Event]]) -> None:
        """Stores events as (seq, at, event), all or none. An event whose seq is stored already is ignored.

        Events after the end of the run are ignored: they come from a process that was suspended while another one ended
        the run. Figures that depend on events (open questions, the number of tools) change in the same transaction.
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

    def next(self, run_id: str, after_seq: int, *, max_chars: int) -> list[StoredEvent]:
        """The next events, up to `max_chars` characters in total; an event that is larger comes alone."""
        last, chars = after_seq, 0
        for row in self._database.all("event_sizes", run_id=run_id, after_seq=after_seq, limit=MAX_EVENTS):
            chars += int(row["size"])
            if chars > max_chars and last > after_seq:
                break
            last = int(row["seq"])
        return self.of_run(run_id, after_seq, last) if last > after_seq else []

    def steps(self, run_id: str) -> list[StoredEvent]:
        """The events without those that later ones repeat: pieces of text, and intermediate token counts."""
        return each(event_from, self._database.all("steps", run_id=run_id))

    def last_activity_at(self, run_id: str) -> float | None:
        """The time of the last event before the end of the run."""
        last = self._database.one("last_activity", run_id=run_id)
        return float(last["at"]) if last is not None else None

    def last_seq(self, run_id: str) -> int:
        """The number of the last event; 0 if there is none."""
        last = self._database.one("last_event", run_id=run_id)
        return int(last["seq"]) if last is not None else 0
