"""Transactions: all or nothing, also inside another; and the store as a whole."""

from __future__ import annotations

from clew.errors import NotFound, StoreError
from clew.store.store import Store
from clew.testing.store_contract.samples import a_thread, a_turn, raises


class TransactionContract:
    def test_all_or_nothing(self, store: Store) -> None:
        with raises(ZeroDivisionError), store.transaction():
            store.threads.create(a_thread())
            store.turns.add("thread-1", a_turn("turn-1"))
            raise ZeroDivisionError
        assert store.threads.recent() == [] and store.turns.find("turn-1") is None
        with store.transaction():
            store.threads.create(a_thread())
            store.turns.add("thread-1", a_turn("turn-1"))
        assert len(store.turns.history("thread-1")) == 1

    def test_what_fails_in_a_savepoint_is_undone_and_no_more(self, store: Store) -> None:
        with store.transaction():
            store.threads.create(a_thread())
            with raises(NotFound), store.savepoint():
                store.turns.add("nobody", a_turn("turn-1"))
            with raises(ZeroDivisionError), store.savepoint():
                store.turns.add("thread-1", a_turn("turn-2"))
                with store.savepoint():
                    store.turns.add("thread-1", a_turn("turn-4"))
                raise ZeroDivisionError
            with store.savepoint(), raises(ZeroDivisionError), store.savepoint(), store.transaction():
                store.turns.add("thread-1", a_turn("turn-5"))
                raise ZeroDivisionError
            store.turns.add("thread-1", a_turn("turn-3"))
        assert [turn.id for turn in store.turns.history("thread-1")] == ["turn-3"]
        with raises(ZeroDivisionError), store.savepoint():
            store.turns.add("thread-1", a_turn("turn-6"))
            raise ZeroDivisionError
        assert len(store.turns.history("thread-1")) == 1

    def test_what_is_read_again_is_as_it_is_by_now(self, store: Store) -> None:
        store.key_values.set("x", "1")
        with store.transaction():
            assert (store.key_values.get("x"), store.key_values.get("x")) == ("1", "1")
            store.key_values.set("x", "2")
            assert store.key_values.get("x") == "2"
            with raises(ZeroDivisionError), store.savepoint():
                store.key_values.set("x", "3")
                assert store.key_values.get("x") == "3"
                raise ZeroDivisionError
            assert store.key_values.get("x") == "2"
        assert store.key_values.get("x") == "2"
        store.key_values.set("x", "4")
        with store.transaction():
            assert store.key_values.get("x") == "4"

    def test_half_an_operation_is_never_stored(self, store: Store) -> None:
        """Whoever catches its error, and says nothing of a savepoint, loses the whole transaction."""
        store.threads.create(a_thread())
        with raises(StoreError), store.transaction():
            with raises(ZeroDivisionError), store.transaction():
                store.turns.add("thread-1", a_turn("turn-1"))
                raise ZeroDivisionError
            store.key_values.set("x", "1")
        with raises(NotFound), store.transaction(), raises(NotFound):
            store.turns.add("nobody", a_turn("turn-1"))
        assert not store.turns.history("thread-1") and store.key_values.get("x") is None

    def test_what_fails_before_it_writes_does_no_harm(self, store: Store) -> None:
        with store.transaction():
            with raises(NotFound):
                store.threads.update("nobody", at=1.0, name="x")
            store.threads.create(a_thread())
        assert len(store.threads.recent()) == 1

    def test_a_closed_store_says_so(self, store: Store) -> None:
        store.close()
        store.close()
        with raises(StoreError):
            store.threads.recent()

    def test_a_sound_store_has_no_problems(self, store: Store) -> None:
        assert store.check() == [] and store.obstacles() == []
        assert store.lost() is None
        store.ping()

    def test_what_is_undone_is_neither_counted_nor_told(self, store: Store) -> None:
        store.threads.create(a_thread())
        before = store.versions.current()
        with store.transaction():
            with raises(ZeroDivisionError), store.savepoint():
                store.turns.add("thread-1", a_turn("turn-1"))
                raise ZeroDivisionError
            store.key_values.set("x", "1")
        assert store.versions.current() == before and store.views.changes(before).summaries == []
