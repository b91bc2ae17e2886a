"""What every store must do, as tests: for ours on each database, and for yours.

Subclass it in a test module and give it a `store` fixture that yields a new, empty store and closes it afterwards:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            with open_store(tmp_path / "clew.db") as store:
                yield store

Nothing here needs pytest but that fixture: the checks are plain asserts. Concurrency between processes and broken disks
are not in it, because how to bring them about depends on the database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew.core.events import MessageSaid, RunEnded, TextStreamed, ToolStarted
from clew.core.history import Role, Turn, Visibility
from clew.core.ids import AttemptId, PinId, RunId, SessionId, ThreadId, TurnId
from clew.core.pins import Absorbed, HeldBack, IllegalMove, Mark, Pending, Pin, PinState, Runtime
from clew.core.record import replace
from clew.core.run import LIVE, Attempt, IllegalStatus, Owner, Run, RunStatus
from clew.core.thread import Permissions, Thread, Trust
from clew.core.usage import Usage
from clew.errors import NotFound, StoreError, UsageError
from clew.store.store import Store

ODD_TEXTS = (
    "",
    "plain",
    "Grüße, 線, 🧶, e\u0301",
    "NUL \0 in the middle, and at the end \0",
    "lone \ud83d and \udc00, and a pair that is no character: \ud83d\ude00",
    "the escape itself \x1a, what it would make of it \x1a0000, and \x1ad83d",
    "line ends \n \r\n \u2028 \x0b and a quote ' \" \\ \\u0000 %s %(x)s :name ;",
    "\ufeff\ufffe\uffff",
)

OWNER = Owner("host", 4711, 1000.5)
OTHER = Owner("elsewhere", 12, 2000.25)
RUNTIME = Runtime("claude", "/bin/claude", "Claude Code", True, "/home/me/.claude")


def a_thread(id: str = "thread-1", name: str = "maze", **changes: Any) -> Thread:
    return replace(Thread(ThreadId(id), name, "/work", "claude", "opus", created_at=10.0, updated_at=10.0), **changes)


def a_turn(id: str, text: str = "hello", role: Role = Role.USER, **changes: Any) -> Turn:
    return replace(Turn(TurnId(id), role, text, created_at=10.0), **changes)


def a_run(id: str = "run-1", thread_id: str = "thread-1", **changes: Any) -> Run:
    run = Run(RunId(id), ThreadId(thread_id), TurnId("turn-1"), "hello", "claude", None, RunStatus.QUEUED)
    return replace(run, **changes)


def a_pin(id: str = "pin-1", **changes: Any) -> Pin:
    session = SessionId(f"session-of-{id}")
    pin = Pin(PinId(id), ThreadId("thread-1"), "claude", "opus", session, PinState.PROVISIONAL, "/work", RUNTIME)
    return replace(pin, **changes)


def absorbed(*ids: str) -> tuple[Absorbed, ...]:
    return tuple(Absorbed(TurnId(id), f"digest of {id}") for id in ids)


@contextmanager
def raises(kind: type[Exception]) -> Iterator[None]:
    """As pytest's, which whoever ships a store need not have."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


class ThreadContract:
    def test_a_thread_comes_back_as_it_was(self, store: Store) -> None:
        thread = a_thread(
            permissions=Permissions.READ_ONLY, trust=Trust.PROJECT, visibility=Visibility.OWN, kind="pair"
        )
        assert store.create_thread(thread) == thread
        assert store.thread("maze") == store.thread("thread-1") == store.require_thread("maze") == thread

    def test_a_taken_name_gets_a_number(self, store: Store) -> None:
        names = [store.create_thread(a_thread(f"thread-{n}")).name for n in range(3)]
        assert names == ["maze", "maze-2", "maze-3"]
        with raises(UsageError):
            store.create_thread(a_thread("thread-9"), unique=False)
        assert store.thread("thread-9") is None

    def test_a_numbered_name_is_not_longer_than_a_name_may_be(self, store: Store) -> None:
        store.create_thread(a_thread("thread-1", "m" * 80))
        assert store.create_thread(a_thread("thread-2", "m" * 80)).name == "m" * 78 + "-2"

    def test_a_name_goes_before_an_id(self, store: Store) -> None:
        store.create_thread(a_thread("first", "second"))
        store.create_thread(a_thread("second", "third"))
        assert store.require_thread("second").id == "first"

    def test_a_missing_thread_hints_at_a_close_name(self, store: Store) -> None:
        store.create_thread(a_thread(name="labyrinth"))
        for asked, hint in (("labyrint", "labyrinth"), ("zzz", "clew threads list")):
            try:
                store.require_thread(asked)
            except NotFound as error:
                assert hint in (error.hint or "")
            else:
                raise AssertionError("NotFound was not raised")

    def test_the_last_used_come_first(self, store: Store) -> None:
        for number in range(5):
            cwd = "/odd" if number % 2 else "/even"
            store.create_thread(a_thread(f"thread-{number}", f"n{number}", cwd=cwd, updated_at=float(number)))
        assert [thread.name for thread in store.threads()] == ["n4", "n3", "n2", "n1", "n0"]
        assert [thread.name for thread in store.threads(limit=2, offset=1)] == ["n3", "n2"]
        assert [thread.name for thread in store.threads(cwd="/odd")] == ["n3", "n1"]
        latest = store.latest_thread("/even")
        assert latest is not None and latest.name == "n4"
        assert store.latest_thread("/nowhere") is None
        store.add_turn("thread-1", a_turn("turn-1", created_at=100.0))
        assert store.threads(limit=1)[0].name == "n1"

    def test_a_thread_is_updated(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        changed = store.update_thread("thread-1", at=50.0, model="sonnet", permissions=Permissions.ALL)
        assert changed == a_thread(model="sonnet", permissions=Permissions.ALL, updated_at=50.0)
        assert store.thread("maze") == changed
        assert store.update_thread("thread-1", at=5.0).updated_at == 50.0  # the clock stepped back
        with raises(UsageError):
            store.update_thread("thread-1", at=60.0, name="other")
        with raises(NotFound):
            store.update_thread("nobody", at=60.0)

    def test_a_dump_holds_everything_and_a_delete_leaves_nothing(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        store.add_turn("thread-2", a_turn("kept"))
        for number in range(3):
            store.add_turn("thread-1", a_turn(f"turn-{number}", ODD_TEXTS[3]))
        store.edit_turn("turn-0", "edited", 20.0)
        store.archive_turns("thread-1", "turn-1", inclusive=True, at=30.0, why="truncated")
        store.create_run(a_run())
        store.create_attempt(Attempt(AttemptId("a-1"), RunId("run-1"), 1, SessionId("s"), "uuid", False))
        store.append_events("run-1", [(1, 1.0, TextStreamed("hi"))])
        store.save_pin(a_pin(absorbed=absorbed("turn-0"), pending=Pending("uuid", absorbed("turn-1"), None)))
        dump = json.loads(json.dumps(store.dump_thread("thread-1")))
        tables = ("turns", "turn_revisions", "runs", "attempts", "events", "pins", "pin_absorbed")
        assert {name: len(dump[name]) for name in tables} == dict(zip(tables, (3, 1, 1, 1, 1, 1, 1), strict=True))
        assert dump["turn_revisions"][0]["text"] == ODD_TEXTS[3]
        assert [turn["archived_why"] for turn in dump["turns"]] == [None, "truncated", "truncated"]
        assert dump["events"][0]["body"] == {"text": "hi"}

        store.delete_thread("thread-1")
        assert store.thread("thread-1") is None and store.run("run-1") is None and store.turn("turn-0") is None
        assert not store.pins("thread-1") and not store.events("run-1") and not store.attempts("run-1")
        assert len(store.history("thread-2")) == 1
        for operation in (store.delete_thread, store.dump_thread):
            with raises(NotFound):
                operation("thread-1")


class TurnContract:
    def test_turns_come_back_in_order_as_they_were(self, store: Store) -> None:
        store.create_thread(a_thread())
        user = a_turn("turn-b")
        answer = a_turn("turn-a", "hi", Role.ASSISTANT, agent="claude", model="opus", partial=True, message_id="m")
        answer = replace(answer, run_id=RunId("run-1"))
        store.add_turn("thread-1", user)
        store.add_turn("thread-1", answer)
        assert store.history("thread-1") == (user, answer)
        assert store.turn("turn-a") == answer
        assert store.turn("nothing") is None and store.history("nothing") == ()

    def test_a_turn_needs_its_thread_and_an_id_of_its_own(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.add_turn("thread-1", a_turn("turn-1"))
        with raises(NotFound):
            store.add_turn("nobody", a_turn("turn-2"))
        with raises(UsageError):
            store.add_turn("thread-1", a_turn("turn-1", "another"))
        assert store.history("thread-1") == (a_turn("turn-1"),)

    def test_any_text_survives(self, store: Store) -> None:
        store.create_thread(a_thread())
        for number, text in enumerate((*ODD_TEXTS, "x" * 10_000_000 + "\0")):
            store.add_turn("thread-1", a_turn(f"turn-{number}", text))
            stored = store.turn(f"turn-{number}")
            assert stored is not None and stored.text == text
        for number, text in enumerate(ODD_TEXTS):  # names and keys are texts too
            store.save_fact(f"{number}{text}", text)
        assert [store.fact(f"{number}{text}") for number, text in enumerate(ODD_TEXTS)] == list(ODD_TEXTS)

    def test_an_edit_keeps_the_old_text(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.add_turn("thread-1", a_turn("turn-1", "one"))
        store.add_turn("thread-1", a_turn("turn-2", "later"))
        assert store.edit_turn("turn-1", "two", 20.0) == a_turn("turn-1", "two", revision=1)
        assert store.edit_turn("turn-1", "three", 30.0).revision == 2
        assert [(old.revision, old.text, old.replaced_at) for old in store.revisions("turn-1")] == [
            (0, "one", 20.0),
            (1, "two", 30.0),
        ]
        assert [turn.text for turn in store.history("thread-1")] == ["three", "later"]
        assert store.require_thread("thread-1").updated_at == 30.0
        with raises(NotFound):
            store.edit_turn("nothing", "text", 1.0)

    def test_archived_turns_leave_the_history_and_stay(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        for number in range(5):
            store.add_turn("thread-1", a_turn(f"turn-{number}"))
        assert store.archive_turns("thread-1", "turn-2", inclusive=False, at=20.0, why="retried") == 2
        assert store.archive_turns("thread-1", "turn-1", inclusive=True, at=30.0, why="truncated") == 2
        store.add_turn("thread-1", a_turn("turn-9"))
        assert [turn.id for turn in store.history("thread-1")] == ["turn-0", "turn-9"]
        kept = [(stored.turn.id, stored.archived_at, stored.archived_why) for stored in store.all_turns("thread-1")]
        assert kept == [
            ("turn-0", None, None),
            ("turn-1", 30.0, "truncated"),
            ("turn-2", 30.0, "truncated"),
            ("turn-3", 20.0, "retried"),
            ("turn-4", 20.0, "retried"),
            ("turn-9", None, None),
        ]
        assert [stored.archived for stored in store.all_turns("thread-1")] == [False, True, True, True, True, False]
        assert store.turn("turn-3") is not None
        with raises(UsageError):  # what is gone from the history cannot be edited in it
            store.edit_turn("turn-3", "text", 40.0)
        with raises(NotFound):  # another thread's turn
            store.archive_turns("thread-2", "turn-0", inclusive=True, at=40.0, why="truncated")

    def test_only_an_unfinished_answer_is_finished(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.add_turn("thread-1", a_turn("turn-1"))
        store.add_turn("thread-1", a_turn("turn-2", "par", Role.ASSISTANT, partial=True, model="opus"))
        done = store.finish_turn("turn-2", text="partly", partial=False, message_id="m")
        assert done == a_turn("turn-2", "partly", Role.ASSISTANT, message_id="m", model="opus")
        for turn_id in ("turn-1", "turn-2"):
            with raises(UsageError):
                store.finish_turn(turn_id, text="other", partial=False)


class RunContract:
    def test_a_run_comes_back_as_it_was(self, store: Store) -> None:
        store.create_thread(a_thread())
        run = a_run(
            model="opus",
            owner=OWNER,
            session_id="s",
            session_resumed=True,
            reason="no_pin",
            fallback=True,
            usage=Usage(1, 2, 3, 4),
            cost_usd=0.125,
            prompt_chars=5,
            transcript_chars=6,
            estimate_usd=0.5,
            created_at=1.0,
            started_at=2.0,
        )
        store.create_run(run)
        assert store.run("run-1") == store.require_run("run-1") == run
        assert store.run("nothing") is None
        with raises(NotFound):
            store.require_run("nothing")
        with raises(NotFound):
            store.create_run(a_run("run-2", "nobody"))

    def test_a_run_is_updated_and_ends_once(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        store.update_run("run-1", status=RunStatus.RUNNING, owner=OWNER, started_at=2.0)
        ended = store.update_run(
            "run-1",
            status=RunStatus.ANSWERED,
            usage=Usage(1, 2, 3, 4),
            outcome="success",
            ended_at=3.0,
            error=ODD_TEXTS[4],
        )
        assert store.run("run-1") == ended
        assert (ended.status, ended.owner, ended.started_at, ended.usage) == ("answered", OWNER, 2.0, Usage(1, 2, 3, 4))
        with raises(IllegalStatus):
            store.update_run("run-1", status=RunStatus.FAILED, outcome="failed")
        assert store.run("run-1") == ended
        with raises(NotFound):
            store.update_run("nothing", status=RunStatus.FAILED)
        with raises(TypeError):
            store.update_run("run-1", thread_id="other")

    def test_runs_are_found_by_thread_and_status_newest_first(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        for number in range(6):  # all at the same instant: the order of creation decides
            store.create_run(a_run(f"run-{number}"))
        store.create_run(a_run("run-other", "thread-2", created_at=5.0))
        store.update_run("run-1", status=RunStatus.RUNNING)
        store.update_run("run-2", status=RunStatus.CANCELLED)
        assert [run.id for run in store.runs(limit=2)] == ["run-other", "run-5"]
        assert [run.id for run in store.runs(thread_id="thread-1", limit=3)] == ["run-5", "run-4", "run-3"]
        assert [run.id for run in store.runs(statuses=[RunStatus.CANCELLED])] == ["run-2"]
        live = [run.id for run in store.runs(thread_id="thread-1", statuses=LIVE)]
        assert live == ["run-5", "run-4", "run-3", "run-1", "run-0"]
        assert [run.id for run in store.runs(statuses=LIVE, limit=2)] == ["run-other", "run-5"]

    def test_a_cancel_reaches_a_live_run_only(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        assert not store.cancel_requested("run-1")
        assert store.request_cancel("run-1", 5.0) and store.request_cancel("run-1", 6.0)
        assert store.cancel_requested("run-1") and store.require_run("run-1").cancel_requested
        store.update_run("run-1", status=RunStatus.RUNNING)
        assert store.cancel_requested("run-1")  # an update that knows nothing of it does not undo it
        store.update_run("run-1", status=RunStatus.CANCELLED)
        assert not store.request_cancel("run-1", 7.0) and not store.request_cancel("nothing", 7.0)

    def test_attempts_come_back_in_order(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        first = Attempt(AttemptId("z"), RunId("run-1"), 1, SessionId("s-1"), "uuid-1", True, started_at=1.0)
        second = Attempt(AttemptId("a"), RunId("run-1"), 2, SessionId("s-2"), "uuid-2", False, started_at=2.0)
        store.create_attempt(first)
        store.create_attempt(second)
        ended = store.update_attempt("z", pid=7, pid_started=1.5, outcome="rejected", exit_status=-9, stderr_tail="\0")
        assert store.attempts("run-1") == [ended, second]
        assert ended == replace(first, pid=7, pid_started=1.5, outcome="rejected", exit_status=-9, stderr_tail="\0")
        with raises(NotFound):
            store.update_attempt("nothing", pid=1)

    def test_stats_add_up(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        resumed: dict[str, Any] = {
            "session_resumed": True,
            "outcome": "success",
            "usage": Usage(1, 2, 30, 4),
            "cost_usd": 0.25,
        }
        store.create_run(a_run("run-1", **resumed, estimate_usd=1.0, created_at=1.0))
        store.create_run(a_run("run-2", **resumed, created_at=2.0))
        store.create_run(a_run("run-3", reason="no_pin", outcome="success", fallback=True, created_at=3.0))
        store.create_run(a_run("run-4", "thread-2", reason="no_pin", outcome="failed", created_at=4.0))
        rows = {(row.session_resumed, row.reason, row.outcome): row for row in store.stats()}
        assert {key: row.runs for key, row in rows.items()} == {
            (True, None, "success"): 2,
            (False, "no_pin", "success"): 1,
            (False, "no_pin", "failed"): 1,
        }
        both = rows[(True, None, "success")]
        assert (both.usage, both.cost_usd) == (Usage(2, 4, 60, 8), 0.5)
        assert (both.estimated_runs, both.estimated_cost_usd, both.estimate_usd) == (1, 0.25, 1.0)
        assert rows[(False, "no_pin", "success")].fallbacks == 1
        assert [row.outcome for row in store.stats(thread_id="thread-2")] == ["failed"]
        assert sum(row.runs for row in store.stats(since=2.0)) == 3
        assert store.stats(thread_id="nobody") == []


class EventContract:
    def test_events_come_back_as_they_were(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        given = [
            (1, 1.5, TextStreamed(ODD_TEXTS[4])),
            (2, 2.5, ToolStarted("t", "Bash", {"command": "ls \0", "n": [1, {"deep": None}]})),
            (4, 3.5, MessageSaid("\0", "m")),
            (5, 4.5, RunEnded("answered", "success", Usage(1, 2, 3, 4), 0.5)),
        ]
        store.append_events("run-1", given)
        assert [(stored.seq, stored.at, stored.event) for stored in store.events("run-1")] == given
        assert [stored.kind for stored in store.events("run-1", after_seq=2)] == ["message_said", "run_ended"]
        assert store.last_seq("run-1") == 5 and store.last_seq("nothing") == 0 and store.events("nothing") == []

    def test_an_event_sent_twice_is_stored_once(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        store.append_events("run-1", [(1, 1.0, TextStreamed("a")), (2, 2.0, TextStreamed("b"))])
        store.append_events("run-1", [(2, 9.0, TextStreamed("again")), (3, 3.0, TextStreamed("c"))])
        store.append_events("run-1", [])
        assert [stored.body["text"] for stored in store.events("run-1")] == ["a", "b", "c"]
        with raises(NotFound):
            store.append_events("nothing", [(1, 1.0, TextStreamed("a"))])


class PinContract:
    def test_a_pin_comes_back_as_it_was(self, store: Store) -> None:
        store.create_thread(a_thread())
        pin = a_pin(
            absorbed=(*absorbed("t-1", "t-2"), Absorbed(TurnId("t-3"), None)),
            pending=Pending("uuid", absorbed("t-4"), "standing to be"),
            held_back=HeldBack(TurnId("t-3"), 7, "d"),
            standing="standing",
            mark=Mark(12345678901, "entry"),
            resume_count=3,
            failures=1,
            cost_total_usd=0.75,
            created_at=1.0,
            used_at=2.0,
        )
        store.save_pin(pin)
        assert store.pins("thread-1") == (pin,)
        assert store.pin_by_session(pin.session_id) == pin and store.pin_by_session("nothing") is None
        settled = replace(a_pin(state=PinState.GOOD, mark=Mark(0, None)), created_at=1.0)
        store.save_pin(settled)
        assert store.pins("thread-1") == (settled,)
        with raises(NotFound):
            store.save_pin(a_pin("pin-2", thread_id="nobody"))

    def test_pins_are_oldest_first_in_the_order_they_were_saved(self, store: Store) -> None:
        store.create_thread(a_thread())
        for id in ("pin-b", "pin-a", "pin-c"):
            store.save_pin(a_pin(id))
        store.save_pin(a_pin("pin-b", state=PinState.RETIRED))
        assert [pin.id for pin in store.pins("thread-1")] == ["pin-b", "pin-a", "pin-c"]
        assert [pin.id for pin in store.pins("thread-1", retired=False)] == ["pin-a", "pin-c"]

    def test_what_was_absorbed_grows_shrinks_and_changes(self, store: Store) -> None:
        store.create_thread(a_thread())
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
            store.save_pin(a_pin(absorbed=held))
            assert store.pins("thread-1")[0].absorbed == held
        assert store.check() == []

    def test_a_pin_moves_by_the_table_whoever_writes(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.save_pin(a_pin())
        store.save_pin(a_pin(state=PinState.POISONED, absorbed=absorbed("1")))
        with raises(IllegalMove):
            store.save_pin(a_pin(state=PinState.GOOD, absorbed=absorbed("1", "2")))
        assert store.pins("thread-1") == (a_pin(state=PinState.POISONED, absorbed=absorbed("1")),)


class LeaseContract:
    def test_a_lease_is_held_by_one(self, store: Store) -> None:
        held = store.acquire_lease("key", token="t-1", owner=OWNER, run_id="run-1", now=100.0, ttl_s=10.0)
        assert held is not None and held == store.lease("key")
        assert (held.owner, held.run_id, held.acquired_at, held.expires_at) == (OWNER, "run-1", 100.0, 110.0)
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is None
        assert store.lease("key") == held
        assert store.acquire_lease("key", token="t-1", owner=OWNER, run_id="run-1", now=101.0, ttl_s=10.0) is not None
        assert store.release_lease("t-1") and not store.release_lease("t-1")
        assert store.lease("key") is None
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is not None

    def test_an_expired_lease_is_lost_once_another_takes_it(self, store: Store) -> None:
        store.acquire_lease("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=10.0)
        assert store.renew_lease("t-1", 111.0, 10.0)  # late, but nobody took it
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=120.0, ttl_s=10.0) is None
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=121.0, ttl_s=10.0) is not None
        assert not store.renew_lease("t-1", 122.0, 10.0) and not store.release_lease("t-1")
        lease = store.lease("key")
        assert lease is not None and (lease.token, lease.owner) == ("t-2", OTHER)

    def test_a_dead_holders_lease_is_taken_only_while_it_is_still_his(self, store: Store) -> None:
        store.acquire_lease("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=99.0)
        terms: dict[str, Any] = {"owner": OTHER, "run_id": None, "now": 101.0, "ttl_s": 10.0}
        taken = store.take_lease("key", old_token="t-1", token="t-2", **terms)
        assert taken is not None and store.lease("key") == taken and taken.token == "t-2"
        assert store.take_lease("key", old_token="t-1", token="t-3", **terms) is None
        assert not store.renew_lease("t-1", 102.0, 10.0) and store.renew_lease("t-2", 102.0, 10.0)
        with raises(UsageError):  # one token, one lease
            store.acquire_lease("other", token="t-2", **terms)

    def test_slots_are_counted(self, store: Store) -> None:
        terms: dict[str, Any] = {"owner": OWNER, "run_id": None, "ttl_s": 10.0}
        store.acquire_lease("agents", token="no slot", now=100.0, **terms)
        store.acquire_lease("agents-of-others/0", token="not ours", now=100.0, **terms)
        got = [store.acquire_slot("agents", 2, token=f"t-{n}", now=100.0 + n, **terms) for n in range(3)]
        assert [lease and lease.key for lease in got] == ["agents/0", "agents/1", None]
        again = store.acquire_slot("agents", 2, token="t-1", now=102.0, **terms)
        assert again is not None and again.key == "agents/1"
        assert [lease.key for lease in store.leases("agents/")] == ["agents/0", "agents/1"]
        freed = store.acquire_slot("agents", 2, token="t-9", now=110.0, **terms)
        assert freed is not None and freed.key == "agents/0"
        assert len(store.leases()) == 4


class FactContract:
    def test_a_probe_is_known_while_the_stamp_is_the_same(self, store: Store) -> None:
        assert store.probe("/bin/claude", "v1") is None
        store.save_probe("/bin/claude", "v1", "one", 1.0)
        store.save_probe("/bin/codex", "v1", "other", 1.0)
        assert store.probe("/bin/claude", "v1") == "one" and store.probe("/bin/claude", "v2") is None
        store.save_probe("/bin/claude", "v2", "two", 2.0)
        assert store.probe("/bin/claude", "v2") == "two" and store.probe("/bin/claude", "v1") is None

    def test_a_fact_is_replaced(self, store: Store) -> None:
        assert store.fact("default_model/claude") is None
        store.save_fact("default_model/claude", "opus")
        store.save_fact("default_model/claude", "sonnet")
        assert store.fact("default_model/claude") == "sonnet"


class TransactionContract:
    def test_all_or_nothing(self, store: Store) -> None:
        with raises(ZeroDivisionError), store.transaction():
            store.create_thread(a_thread())
            store.add_turn("thread-1", a_turn("turn-1"))
            raise ZeroDivisionError
        assert store.threads() == [] and store.turn("turn-1") is None
        with store.transaction():
            store.create_thread(a_thread())
            store.add_turn("thread-1", a_turn("turn-1"))
        assert len(store.history("thread-1")) == 1

    def test_an_operation_that_fails_undoes_itself_and_no_more(self, store: Store) -> None:
        with store.transaction():
            store.create_thread(a_thread())
            with raises(NotFound):
                store.add_turn("nobody", a_turn("turn-1"))
            with raises(ZeroDivisionError), store.transaction():
                store.add_turn("thread-1", a_turn("turn-2"))
                raise ZeroDivisionError
            store.add_turn("thread-1", a_turn("turn-3"))
        assert [turn.id for turn in store.history("thread-1")] == ["turn-3"]

    def test_a_closed_store_says_so(self, store: Store) -> None:
        store.close()
        store.close()
        with raises(StoreError):
            store.threads()

    def test_a_sound_store_has_no_problems(self, store: Store) -> None:
        assert store.check() == []


class StoreContract(
    ThreadContract,
    TurnContract,
    RunContract,
    EventContract,
    PinContract,
    LeaseContract,
    FactContract,
    TransactionContract,
):
    """All of it."""
