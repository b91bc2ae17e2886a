"""Events of a run in the store: numbered by their writer, so that sending one twice does no harm."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.events import Event, to_body
from clew.store.database import Database
from clew.store.records import StoredEvent, dumps, each, event_from


class Events(Database):
    def append_events(self, run_id: str, events: Sequence[tuple[int, float, Event]]) -> None:
        """Store (seq, at, event) each; all or none. One whose seq is there already is left as it is."""
        rows = [
            {"run_id": run_id, "seq": seq, "at": at, "kind": event.kind, "body": dumps(to_body(event))}
            for seq, at, event in events
        ]
        if rows:
            self._do_many("append_event", rows)

    def events(self, run_id: str, after_seq: int = 0) -> list[StoredEvent]:
        return each(event_from, self._all("events_after", run_id=run_id, after_seq=after_seq))

    def last_seq(self, run_id: str) -> int:
        """0 when there is none."""
        row = self._one("last_seq", run_id=run_id)
        return int(row["seq"]) if row else 0
