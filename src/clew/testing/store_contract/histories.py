"""Long histories: they are the same as the tuple of turns, and stay as they were when the thread changes."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.history import Absorbed, LongHistory, Role, Turn, Visibility, visible
from clew.core.ids import TurnId
from clew.core.prompts import turn_chars
from clew.core.record import replace
from clew.store.records import turn_row
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_pin, a_thread, a_turn

THREAD = "thread-1"
OUTLINE = frozenset({"absorbed_as", "absorbed_revision", "transcript_chars"})


class HistoryContract:
    def test_a_long_history_is_the_history(self, store: Store) -> None:
        store.threads.create(a_thread())
        assert not store.turns.long_history(THREAD) and not store.turns.long_history("nothing")
        for number, text in enumerate((*ODD_TEXTS, *map(str, range(60)))):
            store.turns.add(THREAD, _turn(number, text))
        self._is_the_same(store)
        store.turns.edit("turn-1", "edited", 20.0)
        self._is_the_same(store)
        store.turns.add(THREAD, a_turn("inserted"), before="turn-3")
        self._is_the_same(store)
        store.turns.archive(THREAD, "turn-50", inclusive=False, at=30.0, why="truncated")
        self._is_the_same(store)
        store.turns.add(THREAD, a_turn("asked again"))
        self._is_the_same(store)

    def test_each_part_of_a_long_history_is_the_part_of_the_history(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(80):
            store.turns.add(THREAD, _turn(number, f"text {number}"))
        store.turns.archive(THREAD, "turn-70", inclusive=True, at=20.0, why="truncated")
        whole = store.turns.history(THREAD)
        for first, stop in ((0, 70), (0, 1), (3, 7), (0, 69), (40, 70), (69, 70), (70, 70)):
            long, part = _long(store)[first:stop], whole[first:stop]
            assert isinstance(long, LongHistory) and long.chars == sum(map(turn_chars, part))
            for agent in ("claude", "codex", "nobody"):
                assert tuple(visible(long, agent, Visibility.OWN)) == visible(part, agent, Visibility.OWN)
            assert tuple(long) == part

    def test_a_long_history_keeps_the_texts_that_it_was_made_with(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(80):
            store.turns.add(THREAD, _turn(number, f"text {number}"))
        whole, before = store.turns.history(THREAD), [_long(store) for _ in range(3)]
        assert before[0][-1] == whole[-1], "some of it was read before the change"
        store.turns.edit("turn-2", "edited", 20.0)
        store.turns.edit("turn-2", "edited again", 21.0)
        assert tuple(before[0]) == whole
        store.turns.add(THREAD, a_turn("inserted"), before="turn-5")
        store.turns.archive(THREAD, "turn-40", inclusive=True, at=22.0, why="truncated")
        store.turns.add(THREAD, a_turn("asked again"))
        assert tuple(before[1]) == whole
        store.turns.edit("turn-2", whole[2].text, 23.0)
        assert _shown(before[2]) == _shown(whole)
        self._is_the_same(store)

    def test_turns_of_an_older_clew_are_read_at_once_until_their_outline_is_complete(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.turns.add(THREAD, _turn(0, "new"))
        row = {**turn_row(_turn(1, "old")), "thread_id": THREAD, "position": 2}
        row = {name: value for name, value in row.items() if name not in OUTLINE}
        with store.transaction():
            store.database.insert("turns", sorted(row), [row])
        assert store.turns.long_history(THREAD) == (_turn(0, "new"), _turn(1, "old"))
        store.turns.complete_outline(THREAD)
        self._is_the_same(store)

    def test_a_pin_is_the_same_whether_or_not_the_outline_is_known(self, store: Store) -> None:
        store.threads.create(a_thread())
        turns = [replace(_turn(number, text), id=TurnId(f"{number};{text}")) for number, text in enumerate(ODD_TEXTS)]
        for turn in (*turns, *(_turn(number, "plain") for number in range(100, 105))):
            store.turns.add(THREAD, turn)
        whole = [Absorbed.of(turn) for turn in store.turns.history(THREAD)]
        left_out = [Absorbed(known.turn_id, None) for known in whole]
        for number, held in enumerate(
            (
                whole,
                whole[:3],
                [*whole, Absorbed(TurnId("gone"), "digest")],
                [*left_out[:2], *whole[2:]],
                [*whole[:-1], Absorbed(whole[-1].turn_id, "another")],
                whole[::-1],
                whole[1:],
                whole[len(turns) :],
                [],
            )
        ):
            store.pins.save(a_pin(f"pin-{number}", absorbed=tuple(held)))
            for outline in ((), tuple(whole)):
                assert store.pins.of_thread(THREAD, standing=outline)[-1].absorbed == tuple(held)

    def _is_the_same(self, store: Store) -> None:
        long, whole = _long(store), store.turns.history(THREAD)
        assert [*long.outline] == [Absorbed.of(turn) for turn in whole]
        assert long.chars == sum(map(turn_chars, whole))
        assert long[-1] == whole[-1] and tuple(long) == whole


def _turn(number: int, text: str) -> Turn:
    role = Role.ASSISTANT if number % 2 else Role.USER
    agent = {3: "codex", 45: "codex", 61: None}.get(number, "claude")
    return a_turn(f"turn-{number}", text, role, agent=agent, model="opus" if number % 3 else None)


def _long(store: Store) -> LongHistory:
    found = store.turns.long_history(THREAD)
    assert isinstance(found, LongHistory)
    return found


def _shown(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.id, turn.text) for turn in turns]
