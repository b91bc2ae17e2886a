"""Transactions: each is written completely or not at all, also a nested one; and checks of the whole store."""

from __future__ import annotations

from clew.errors import NotFound, StoreError
from clew.store.store import Store
from clew.testing.store_contract.samples import a_thread, a_turn, raises


class TransactionContract:
    def test_a_transaction_is_written_completely_or_not_at_all(self, store: Store) -> None:
        with raises(ZeroDivisionError), store.transaction():
            store.threads.create(a_thread())
            store.turns.add("thread-1", a_turn("turn-1"))
            raise ZeroDivisionError
        assert store.threads.recent() == [] and store.turns.find("turn-1") is None
        with store.transaction():
            store.threads.create(a_thread())
            store.turns.add("thread-1", a_turn("turn-1"))
        assert len(store.turns.history("thread-1")) == 1

    def test_a_failure_in_a_savepoint_undoes_only_the_savepoint(self, store: Store) -> None:
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

    def test_a_second_read_sees_the_writes_since_the_first(self, store: Store) -> None:
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
        """If an operation fails without a savepoint and its error is caught, the whole transaction fails."""
        store.threads.create(a_thread())
        with raises(StoreError), store.transaction():
            with raises(ZeroDivisionError), store.transaction():
                store.turns.add("thread-1", a_turn("turn-1"))
                raise ZeroDivisionError
            store.key_values.set("x", "1")
        with raises(NotFound), store.transaction(), raises(NotFound):
            store.turns.add("nobody", a_turn("turn-1"))
        assert not store.turns.history("thread-1") and store.key_values.get("x") is None

    def test_a_failure_before_a_write_does_not_end_the_transaction(self, store: Store) -> None:
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

    def test_what_is_rolled_back_is_neither_counted_nor_notified(self, store: Store) -> None:
        store.threads.create(a_thread())
        before = store.versions.current()
        with store.transaction():
            with raises(ZeroDivisionError), store.savepoint():
                store.turns.add("thread-1", a_turn("turn-1"))
                raise ZeroDivisionError
            store.key_values.set("x", "1")
        assert store.versions.current() == before and store.views.changes(before).summaries == []
