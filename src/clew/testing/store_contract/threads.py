"""Threads and their turns: names, order, texts, edits, archiving and deletion."""

from __future__ import annotations

import json

from clew.core.history import Role, Visibility
from clew.core.ids import AttemptId, RunId, SessionId, ThreadId
from clew.core.pins import Pending
from clew.core.record import replace
from clew.core.runs.events import TextStreamed
from clew.core.runs.run import Attempt
from clew.core.thread import Origin, OriginKind, Permissions, SourceThread, Trust
from clew.errors import NotFound, UsageError
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_pin, a_run, a_thread, a_turn, absorbed, raises


class ThreadContract:
    def test_a_thread_is_read_back_unchanged(self, store: Store) -> None:
        thread = a_thread(
            permissions=Permissions.READ_ONLY,
            trust=Trust.PROJECT,
            visibility=Visibility.OWN,
            kind="pair",
            origin=Origin(
                OriginKind.FORK, (SourceThread(ThreadId("thread-0"), ODD_TEXTS[4]), SourceThread(ThreadId("x"), "y")), 3
            ),
        )
        assert store.threads.create(thread) == thread
        assert store.threads.find("maze") == store.threads.find("thread-1") == store.threads.require("maze") == thread

    def test_a_name_that_is_another_threads_id(self, store: Store) -> None:
        store.threads.create(a_thread("thread-1", "maze"))
        odd = store.threads.create(a_thread("thread-2", "thread-1"))
        assert store.threads.find("thread-1") == odd, "whoever types it means the name"
        assert store.threads.require_by_id("thread-1").name == "maze"
        with raises(NotFound):
            store.threads.require_by_id("maze")

    def test_a_taken_name_gets_a_number(self, store: Store) -> None:
        names = [store.threads.create(a_thread(f"thread-{n}")).name for n in range(3)]
        assert names == ["maze", "maze-2", "maze-3"]
        with raises(UsageError):
            store.threads.create(a_thread("thread-9"), unique=False)
        assert store.threads.find("thread-9") is None

    def test_a_numbered_name_is_not_longer_than_a_name_may_be(self, store: Store) -> None:
        store.threads.create(a_thread("thread-1", "m" * 80))
        assert store.threads.create(a_thread("thread-2", "m" * 80)).name == "m" * 78 + "-2"

    def test_a_name_takes_precedence_over_an_id(self, store: Store) -> None:
        store.threads.create(a_thread("first", "second"))
        store.threads.create(a_thread("second", "third"))
        assert store.threads.require("second").id == "first"

    def test_the_error_for_a_missing_thread_suggests_a_similar_name(self, store: Store) -> None:
        store.threads.create(a_thread(name="labyrinth"))
        for asked, hint in (("labyrint", "labyrinth"), ("zzz", "clew threads list")):
            try:
                store.threads.require(asked)
            except NotFound as error:
                assert hint in (error.hint or "")
            else:
                raise AssertionError("NotFound was not raised")

    def test_threads_are_counted_by_their_permissions(self, store: Store) -> None:
        assert store.threads.with_permissions(Permissions.ALL) == (0, [])
        for number in range(4):
            permissions = Permissions.ALL if number else Permissions.EDITS
            store.threads.create(
                a_thread(f"thread-{number}", f"n{number}", permissions=permissions, updated_at=float(number))
            )
        assert store.threads.with_permissions(Permissions.ALL) == (3, ["n3", "n2"])

    def test_the_last_used_come_first(self, store: Store) -> None:
        for number in range(5):
            cwd = "/odd" if number % 2 else "/even"
            store.threads.create(a_thread(f"thread-{number}", f"n{number}", cwd=cwd, updated_at=float(number)))
        assert [thread.name for thread in store.threads.recent()] == ["n4", "n3", "n2", "n1", "n0"]
        assert [thread.name for thread in store.threads.recent(limit=2, offset=1)] == ["n3", "n2"]
        assert [thread.name for thread in store.threads.recent(cwd="/odd")] == ["n3", "n1"]
        latest = store.threads.latest("/even")
        assert latest is not None and latest.name == "n4"
        assert store.threads.latest("/nowhere") is None
        store.threads.create(a_thread("job", "job", cwd="/even", kind="job", updated_at=50.0))
        assert store.threads.latest("/even") == latest, "a job's thread is not talked in"
        store.turns.add("thread-1", a_turn("turn-1", created_at=100.0))
        assert store.threads.recent(limit=1)[0].name == "n1"

    def test_a_thread_is_updated(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        origin = Origin(OriginKind.MERGE, (SourceThread(ThreadId("thread-2"), "other"),))
        changed = store.threads.update("thread-1", at=50.0, model="sonnet", permissions=Permissions.ALL, origin=origin)
        assert changed == a_thread(model="sonnet", permissions=Permissions.ALL, origin=origin, updated_at=50.0)
        assert store.threads.find("maze") == changed
        assert store.threads.update("thread-1", at=5.0).updated_at == 50.0  # the clock was set back
        with raises(UsageError):
            store.threads.update("thread-1", at=60.0, name="other")
        with raises(NotFound):
            store.threads.update("nobody", at=60.0)

    def test_a_dump_holds_everything_and_a_delete_leaves_nothing(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        store.turns.add("thread-2", a_turn("kept"))
        for number in range(3):
            store.turns.add("thread-1", a_turn(f"turn-{number}", ODD_TEXTS[3]))
        store.turns.edit("turn-0", "edited", 20.0)
        store.turns.archive("thread-1", "turn-1", inclusive=True, at=30.0, why="truncated")
        store.runs.create(a_run())
        store.runs.create_attempt(Attempt(AttemptId("a-1"), RunId("run-1"), 1, SessionId("s"), "uuid", False))
        store.events.append("run-1", [(1, 1.0, TextStreamed("hi"))])
        store.pins.save(a_pin(absorbed=absorbed("turn-0"), pending=Pending("uuid", absorbed("turn-1"), None)))
        dump = json.loads(json.dumps(store.threads.dump("thread-1")))
        tables = ("turns", "turn_revisions", "runs", "attempts", "events", "pins", "pin_absorbed")
        assert {name: len(dump[name]) for name in tables} == dict(zip(tables, (3, 1, 1, 1, 1, 1, 1), strict=True))
        assert dump["turn_revisions"][0]["text"] == ODD_TEXTS[3]
        assert [turn["archived_why"] for turn in dump["turns"]] == [None, "truncated", "truncated"]
        assert dump["events"][0]["body"] == {"text": "hi"}

        store.threads.delete("thread-1")
        assert (
            store.threads.find("thread-1") is None
            and store.runs.find("run-1") is None
            and store.turns.find("turn-0") is None
        )
        assert (
            not store.pins.of_thread("thread-1")
            and not store.events.of_run("run-1")
            and not store.runs.attempts("run-1")
        )
        assert len(store.turns.history("thread-2")) == 1
        for operation in (store.threads.delete, store.threads.dump):
            with raises(NotFound):
                operation("thread-1")


class TurnContract:
    def test_turns_are_read_back_in_order_and_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        user = replace(a_turn("turn-b"), typed="what was typed")
        answer = a_turn("turn-a", "hi", Role.ASSISTANT, agent="claude", model="opus", partial=True, message_id="m")
        answer = replace(answer, run_id=RunId("run-1"), outside=True)
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

    def test_a_turn_can_be_inserted_before_another(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        for id in ("c", "d", "g", "h"):
            store.turns.add("thread-1", a_turn(id))
        store.turns.archive("thread-1", "h", inclusive=True, at=20.0, why="truncated")
        for id, following in (("a", "c"), ("b", "c"), ("e", "g"), ("f", "g"), ("i", None)):
            store.turns.add("thread-1", a_turn(id), before=following)
        assert "".join(turn.id for turn in store.turns.history("thread-1")) == "abcdefgi"
        assert "".join(stored.turn.id for stored in store.turns.all("thread-1")) == "abcdefghi"
        with raises(NotFound):
            store.turns.add("thread-2", a_turn("j"), before="c")
        assert store.turns.history("thread-2") == ()

    def test_any_text_is_stored_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number, text in enumerate((*ODD_TEXTS, "x" * 10_000_000 + "\0")):
            store.turns.add("thread-1", a_turn(f"turn-{number}", text))
            stored = store.turns.find(f"turn-{number}")
            assert stored is not None and stored.text == text
        for number, text in enumerate(ODD_TEXTS):  # names and keys may contain any text too
            store.key_values.set(f"{number}{text}", text)
        assert [store.key_values.get(f"{number}{text}") for number, text in enumerate(ODD_TEXTS)] == list(ODD_TEXTS)

    def test_an_edit_keeps_the_old_text(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.turns.add("thread-1", a_turn("turn-1", "one"))
        store.turns.add("thread-1", a_turn("turn-2", "later"))
        assert store.turns.edit("turn-1", "two", 20.0) == a_turn("turn-1", "two", revision=1)
        assert store.turns.edit("turn-1", "three", 30.0, "typed").revision == 2
        assert [turn.typed for turn in store.turns.history("thread-1")] == ["typed", None]
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
        with raises(UsageError):  # an archived turn cannot be edited
            store.turns.edit("turn-3", "text", 40.0)
        with raises(NotFound):  # the turn belongs to another thread
            store.turns.archive("thread-2", "turn-0", inclusive=True, at=40.0, why="truncated")
