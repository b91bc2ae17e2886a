"""Pins: their fields, the owner of a session, and the changes of state that are allowed."""

from __future__ import annotations

from clew.core.history import Absorbed
from clew.core.ids import TurnId
from clew.core.pins import IllegalMove, Mark, PartlyAbsorbed, Pending, PinState
from clew.core.record import replace
from clew.errors import NotFound
from clew.store.store import Store
from clew.testing.store_contract.samples import a_pin, a_thread, absorbed, raises


class PinContract:
    def test_a_pin_is_read_back_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        pin = a_pin(
            absorbed=(*absorbed("t-1", "t-2"), Absorbed(TurnId("t-3"), None)),
            pending=Pending("uuid", absorbed("t-4"), "standing to be"),
            partly_absorbed=PartlyAbsorbed(TurnId("t-3"), 7, "d"),
            standing="standing",
            mark=Mark(12345678901, "entry"),
            resume_count=3,
            failures=1,
            cost_total_usd=0.75,
            summarised=2,
            created_at=1.0,
            used_at=2.0,
        )
        store.pins.save(pin)
        assert store.pins.of_thread("thread-1") == (pin,)
        assert store.pins.of_thread("thread-1", absorbed=False) == (replace(pin, absorbed=()),)
        assert store.pins.of_session(pin.session_id) == pin and store.pins.of_session("nothing") is None
        settled = replace(a_pin(state=PinState.GOOD, mark=Mark(0, None)), created_at=1.0)
        store.pins.save(settled)
        assert store.pins.of_thread("thread-1") == (settled,)
        with raises(NotFound):
            store.pins.save(a_pin("pin-2", thread_id="nobody"))

    def test_a_borrowed_session_still_belongs_to_its_own_thread(self, store: Store) -> None:
        store.threads.create(a_thread())
        own, borrowed = a_pin(state=PinState.GOOD), a_pin("pin-2", session_id="session-of-pin-1", borrowed_at="message")
        store.pins.save(own)
        store.pins.save(borrowed)
        assert store.pins.of_thread("thread-1") == (own, borrowed)
        assert store.pins.of_session(own.session_id) == own
        store.pins.save(replace(borrowed, borrowed_at="earlier"))
        assert store.pins.of_thread("thread-1")[1].borrowed_at == "earlier"

    def test_a_session_stays_with_its_owner_after_others_gave_it_up(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "copy"))
        own = a_pin(state=PinState.GOOD, created_at=1.0)
        given_up = a_pin(
            "pin-2", thread_id="thread-2", session_id=own.session_id, state=PinState.RETIRED, created_at=2.0
        )
        store.pins.save(own)
        store.pins.save(given_up)
        assert store.pins.of_session(own.session_id) == own
        store.pins.save(replace(own, state=PinState.RETIRED))
        assert store.pins.of_session(own.session_id) is None
        assert store.pins.of_session(own.session_id, retired=True) == given_up

    def test_a_session_that_is_given_up_has_no_owner_and_may_still_be_copied(self, store: Store) -> None:
        store.threads.create(a_thread())
        given_up = [a_pin(f"pin-{n}", session_id="s", state=state) for n, state in enumerate(PinState)]
        kept = [a_pin("borrows", session_id="s", borrowed_at="message"), a_pin("another", session_id="t")]
        for pin in (*given_up, *kept):
            store.pins.save(pin)
        store.pins.give_up_session("s")
        states = {pin.id: pin.state for pin in store.pins.of_thread("thread-1")}
        poisoned = given_up[list(PinState).index(PinState.POISONED)]
        assert [states[pin.id] for pin in kept] == [pin.state for pin in kept]
        assert {id for id in states if states[id] is PinState.RETIRED} == {pin.id for pin in given_up} - {poisoned.id}
        assert store.pins.of_session("s") == poisoned

    def test_pins_are_listed_in_the_order_in_which_they_were_saved(self, store: Store) -> None:
        store.threads.create(a_thread())
        for id in ("pin-b", "pin-a", "pin-c"):
            store.pins.save(a_pin(id))
        store.pins.save(a_pin("pin-b", state=PinState.RETIRED))
        assert [pin.id for pin in store.pins.of_thread("thread-1")] == ["pin-b", "pin-a", "pin-c"]
        assert [pin.id for pin in store.pins.of_thread("thread-1", retired=False)] == ["pin-a", "pin-c"]

    def test_what_was_absorbed_grows_shrinks_and_changes(self, store: Store) -> None:
        store.threads.create(a_thread())
        changed = (*absorbed("1", "2"), Absorbed(TurnId("3"), None))
        lists = (
            absorbed(),
            absorbed("1", "2"),
            absorbed("1", "2", "3"),
            changed,
            absorbed("2", "1"),
            absorbed("2"),
            (),
        )
        for held in lists:
            store.pins.save(a_pin(absorbed=held))
            assert store.pins.of_thread("thread-1")[0].absorbed == held
        assert store.check() == []

    def test_a_pin_changes_its_state_only_as_the_table_allows(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.pins.save(a_pin())
        store.pins.save(a_pin(state=PinState.POISONED, absorbed=absorbed("1")))
        with raises(IllegalMove):
            store.pins.save(a_pin(state=PinState.GOOD, absorbed=absorbed("1", "2")))
        assert store.pins.of_thread("thread-1") == (a_pin(state=PinState.POISONED, absorbed=absorbed("1")),)
