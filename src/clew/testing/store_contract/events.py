"""Events: each as it was, in order, once."""

from __future__ import annotations

from clew.core.costs.usage import Usage
from clew.core.runs.events import MessageSaid, RunEnded, TextStreamed, ToolStarted
from clew.errors import NotFound
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_run, a_thread, raises


class EventContract:
    def test_events_come_back_as_they_were(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        given = [
            (1, 1.5, TextStreamed(ODD_TEXTS[4])),
            (2, 2.5, ToolStarted("t", "Bash", {"command": "ls \0", "n": [1, {"deep": None}]})),
            (4, 3.5, MessageSaid("\0", "m")),
            (5, 4.5, RunEnded("answered", "success", Usage(1, 2, 3, 4), 0.5)),
        ]
        store.events.append("run-1", given)
        assert [(stored.seq, stored.at, stored.event) for stored in store.events.of_run("run-1")] == given
        assert [stored.kind for stored in store.events.of_run("run-1", after_seq=2)] == ["message_said", "run_ended"]
        assert (
            store.events.last_seq("run-1") == 5
            and store.events.last_seq("nothing") == 0
            and store.events.of_run("nothing") == []
        )

    def test_nothing_comes_after_the_end_of_a_run(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.events.append("run-1", [(1, 1.0, RunEnded("answered", "success"))])
        store.events.append("run-1", [(2, 2.0, ToolStarted("t", "Bash", {})), (3, 2.0, TextStreamed("late"))])
        assert [stored.kind for stored in store.events.of_run("run-1")] == ["run_ended"]

    def test_an_event_sent_twice_is_stored_once(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.events.append("run-1", [(1, 1.0, TextStreamed("a")), (2, 2.0, TextStreamed("b"))])
        store.events.append("run-1", [(2, 9.0, TextStreamed("again")), (3, 3.0, TextStreamed("c"))])
        store.events.append("run-1", [])
        assert [stored.body["text"] for stored in store.events.of_run("run-1")] == ["a", "b", "c"]
        with raises(NotFound):
            store.events.append("nothing", [(1, 1.0, TextStreamed("a"))])
