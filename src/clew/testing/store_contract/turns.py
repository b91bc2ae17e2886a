"""Turns: their order, their texts, what is edited and what is archived."""

from __future__ import annotations

from clew.core.history import Role
from clew.core.ids import RunId
from clew.core.record import replace
from clew.errors import NotFound, UsageError
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_thread, a_turn, raises


class TurnContract:
    def test_turns_come_back_in_order_as_they_were(self, store: Store) -> None:
        store.threads.create(a_thread())
        user = a_turn("turn-b")
        answer = a_turn("turn-a", "hi", Role.ASSISTANT, agent="claude", model="opus", partial=True, message_id="m")
        answer = replace(answer, run_id=RunId("run-1"))
        store.turns.add("thread-1", user)
        store.turns.add("thread-1", answer)
        assert store.turns.history("thread-1") == (user, answer)
        assert store.turns.find("turn-a") == answer
        assert store.turns.find("nothing") is None and store.turns.history("nothing") == ()

    def test_a_turn_needs_its_thread_and_an_id_of_its_own(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.turns.add("thread-1", a_turn("turn-1"))
        with raises(NotFound):
            store.turns.add("nobody", a_turn("turn-2"))
        with raises(UsageError):
            store.turns.add("thread-1", a_turn("turn-1", "another"))
        assert store.turns.history("thread-1") == (a_turn("turn-1"),)

    def test_any_text_survives(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number, text in enumerate((*ODD_TEXTS, "x" * 10_000_000 + "\0")):
            store.turns.add("thread-1", a_turn(f"turn-{number}", text))
            stored = store.turns.find(f"turn-{number}")
            assert stored is not None and stored.text == text
        for number, text in enumerate(ODD_TEXTS):  # names and keys are texts too
            store.key_values.set(f"{number}{text}", text)
        assert [store.key_values.get(f"{number}{text}") for number, text in enumerate(ODD_TEXTS)] == list(ODD_TEXTS)

    def test_an_edit_keeps_the_old_text(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.turns.add("thread-1", a_turn("turn-1", "one"))
        store.turns.add("thread-1", a_turn("turn-2", "later"))
        assert store.turns.edit("turn-1", "two", 20.0) == a_turn("turn-1", "two", revision=1)
        assert store.turns.edit("turn-1", "three", 30.0).revision == 2
        assert [(old.revision, old.text, old.replaced_at) for old in store.turns.revisions("turn-1")] == [
            (0, "one", 20.0),
            (1, "two", 30.0),
        ]
        assert [turn.text for turn in store.turns.history("thread-1")] == ["three", "later"]
        assert store.threads.require("thread-1").updated_at == 30.0
        with raises(NotFound):
            store.turns.edit("nothing", "text", 1.0)

    def test_archived_turns_leave_the_history_and_stay(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        for number in range(5):
            store.turns.add("thread-1", a_turn(f"turn-{number}"))
        assert store.turns.archive("thread-1", "turn-2", inclusive=False, at=20.0, why="retried") == 2
        assert store.turns.archive("thread-1", "turn-1", inclusive=True, at=30.0, why="truncated") == 2
        store.turns.add("thread-1", a_turn("turn-9"))
        assert [turn.id for turn in store.turns.history("thread-1")] == ["turn-0", "turn-9"]
        kept = [(stored.turn.id, stored.archived_at, stored.archived_why) for stored in store.turns.all("thread-1")]
        assert kept == [
            ("turn-0", None, None),
            ("turn-1", 30.0, "truncated"),
            ("turn-2", 30.0, "truncated"),
            ("turn-3", 20.0, "retried"),
            ("turn-4", 20.0, "retried"),
            ("turn-9", None, None),
        ]
        assert [stored.archived for stored in store.turns.all("thread-1")] == [False, True, True, True, True, False]
        assert store.turns.find("turn-3") is not None
        with raises(UsageError):  # what is gone from the history cannot be edited in it
            store.turns.edit("turn-3", "text", 40.0)
        with raises(NotFound):  # another thread's turn
            store.turns.archive("thread-2", "turn-0", inclusive=True, at=40.0, why="truncated")
