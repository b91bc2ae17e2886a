"""Locks on PostgreSQL: a transaction never waits for one that changes another thread."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.core.hooks.hook import Forge, HookEvent
from clew.core.pins import PinState
from clew.core.record import replace
from clew.core.runs.events import TextStreamed
from clew.errors import StoreError
from clew.store import Store, open_store
from clew.store.database import locks, sql
from clew.testing.postgres import PostgresServer
from clew.testing.store_contract import OTHER, OWNER, a_pin, a_run, a_thread, a_turn
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.reviews import a_review

WRITERS = 6
ROUNDS = 12
IDLE_S = 20
KINDS = locks.PREFIXES.keys() | locks.LOOKED_UP.keys()


def test_every_query_that_writes_names_its_locks() -> None:
    declared = locks.declared()
    writing = {name for name, query in sql.queries("named").items() if re.match("INSERT|UPDATE|DELETE", query)}
    assert writing - declared.keys() == set()
    for name, needed in locks.by_query().items():
        query = sql.queries("named")[name]
        for kind, parameter in needed:
            assert kind in KINDS, name
            assert re.search(rf":{parameter}\b", query), f"{name} has no {parameter}"


def test_every_lock_can_be_taken(postgres: PostgresServer) -> None:
    with open_store(postgres.new_store()) as store, store.transaction():
        for kind in KINDS:
            store.database._hold(store.database.session(), kind, "x")


def at_once(store: Store, work: Callable[[int], None], writers: int = WRITERS) -> None:
    """Runs each function on its own connection, all at the same time."""
    start = threading.Barrier(writers)

    def begin(me: int) -> None:
        start.wait()
        work(me)

    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(begin, me) for me in range(writers)]:
            done.result(timeout=100)


@pytest.mark.rest
def test_concurrent_writers_get_different_names_numbers_and_positions(postgres: PostgresServer) -> None:
    with open_store(postgres.new_store()) as store:
        store.threads.create(a_thread("shared", "shared"))
        store.runs.create(a_run("run", "shared"))
        seen: list[str] = []
        over = threading.Event()

        def watch() -> None:
            """Reads changes as a page does: only those after the last version that it has seen."""
            version = 0
            while True:
                last = over.is_set()
                changes = store.views.changes(version)
                assert changes.version >= version
                seen.extend(view.thread.id for view in changes.summaries)
                version = changes.version
                if last:
                    return

        def write(me: int) -> None:
            for n in range(ROUNDS):
                thread = store.threads.create(a_thread(f"thread-{me}-{n}", "maze"))
                store.turns.add("shared", a_turn(f"turn-{me}-{n}"))
                store.runs.create(a_run(f"run-{me}-{n}", "shared"))
                store.jobs.create(a_job(f"job-{me}-{n}", thread_id=thread.id))
                store.reviews.create(a_review(thread_id=thread.id), "2026-01-01")
                event = HookEvent(Forge.GITHUB, f"delivery-{n}", "issue.opened", "o/r", n, "someone")
                store.hooks.add_event(f"hook-{me}-{n}", event, 1.0)
                with store.transaction():
                    store.key_values.set("count", str(int(store.key_values.get("count") or 0) + 1))
                    last = store.events.last_seq("run")
                    store.events.append("run", [(last + 1, 1.0, TextStreamed("x"))])

        with ThreadPoolExecutor(1) as watcher:
            watching = watcher.submit(watch)
            try:
                at_once(store, write)
            finally:
                over.set()
            watching.result(timeout=60)
        total = WRITERS * ROUNDS
        numbers = {"maze", *(f"maze-{number}" for number in range(2, total + 1))}
        assert {thread.name for thread in store.threads.recent(limit=1000)} == {"shared", *numbers}
        assert len(store.turns.history("shared")) == total
        assert len(store.runs.newest(thread_id="shared", limit=1000)) == total + 1
        assert [stored.seq for stored in store.events.of_run("run")] == list(range(1, total + 1))
        assert store.key_values.get("count") == str(total)
        rows = [row["number"] for row in store.database.all("jobs_newest", key=None, limit=1000)]
        assert sorted(rows) == list(range(1, total + 1))
        assert len({review.id for review in store.reviews.newest(limit=1000)}) == total
        told = store.hooks.events(state="received", limit=1000)
        assert len(told) == ROUNDS, "each delivery once, whoever hears of it first"
        assert set(seen) == {thread.id for thread in store.threads.recent(limit=1000)}, "no change was missed"


def test_only_one_of_many_processes_gets_a_lease_a_slot_or_a_session(postgres: PostgresServer) -> None:
    with open_store(postgres.new_store()) as store:
        for me in range(WRITERS):
            store.threads.create(a_thread(f"thread-{me}", f"t-{me}"))
        leases, slots, owners = [], [], []

        def take(me: int) -> None:
            terms = {"owner": (OWNER, OTHER)[me % 2], "run_id": None, "now": 100.0, "ttl_s": 10.0}
            leases.append(store.leases.acquire("thread/x", token=f"lease-{me}", **terms))
            slots.append(store.leases.acquire_slot("slots", 3, token=f"slot-{me}", **terms))
            with store.transaction():
                if store.pins.of_session("session") is None:
                    pin = a_pin(f"pin-{me}", thread_id=f"thread-{me}")
                    store.pins.save(replace(pin, session_id="session", state=PinState.GOOD))
                    owners.append(me)

        at_once(store, take)
        assert len([lease for lease in leases if lease]) == len(owners) == 1
        assert {lease.key for lease in slots if lease} == {"slots/0", "slots/1", "slots/2"}


def test_a_pin_that_was_retired_in_the_meantime_stays_retired(postgres: PostgresServer) -> None:
    """Two transactions of different threads: one changes the owner of the session, the other saves a pin."""
    with open_store(postgres.new_store()) as store, ThreadPoolExecutor(1) as pool:
        store.threads.create(a_thread("thread-1", "one"))
        pin = replace(a_pin("pin-1", thread_id="thread-1"), session_id="session", state=PinState.GOOD)
        store.pins.save(pin)
        with store.transaction():
            store.pins.give_up_session("session")
            saving = pool.submit(store.pins.save, replace(pin, failures=1))
            assert not saving.done()
        with pytest.raises(Exception, match="retired"):
            saving.result(timeout=60)
        assert store.pins.of_thread("thread-1")[0].state is PinState.RETIRED


def test_an_urgent_job_is_added_while_the_job_before_it_is_being_changed(postgres: PostgresServer) -> None:
    """To wait for that change in the last step of a transaction would end in a deadlock."""
    with open_store(postgres.new_store()) as store, ThreadPoolExecutor(1) as pool:
        for name in ("one", "two", "three"):
            store.threads.create(a_thread(name, name))
        store.jobs.create(a_job("first", key="k", thread_id="one", priority=90))
        store.jobs.create(a_job("other", thread_id="two"))
        with store.transaction():
            store.jobs.update("first", tries=2)
            urgent = a_job("urgent", key="k", thread_id="three", priority=1)
            pool.submit(store.jobs.create, urgent).result(timeout=20)
        store.jobs.repair_queue(0, 500)
        assert store.jobs.claimable(0.0, 9) == ["first", "other"], "the next heartbeat lends the priority"


@pytest.mark.rest
def test_transactions_that_conflict_can_be_retried(postgres: PostgresServer) -> None:
    with open_store(postgres.new_store()) as store:
        for name in ("a", "b"):
            store.threads.create(a_thread(name, name))
        met = threading.Barrier(2)
        errors: list[StoreError] = []

        def write(me: int) -> None:
            first, second = ("a", "b") if me else ("b", "a")
            try:
                with store.transaction():
                    store.turns.add(first, a_turn(f"turn-{me}-1"))
                    met.wait(timeout=60)
                    store.turns.add(second, a_turn(f"turn-{me}-2"))
            except StoreError as error:
                errors.append(error)

        at_once(store, write, 2)
        [error] = errors
        assert (error.kind, error.passing, error.in_doubt) == ("locked", True, False)
        assert {len(store.turns.history("a")), len(store.turns.history("b"))} == {1}, "all of one, nothing of the other"


FREEZE = """
import os, signal, sys
from clew.errors import StoreError
from clew.store import open_store
from clew.testing.store_contract import a_turn
with open_store(sys.argv[1]) as store:
    try:
        with store.transaction():
            store.turns.add("a", a_turn("half"))
            os.kill(os.getpid(), signal.SIGSTOP)
            store.turns.add("a", a_turn("other half"))
    except StoreError as error:
        print(error.kind, error.passing, error.in_doubt, error.message, sep="|", flush=True)
    store.turns.add("a", a_turn("again"))
"""


@contextmanager
def frozen(code: str, where: str) -> Iterator[subprocess.Popen[str]]:
    """A client process that stopped itself (SIGSTOP) inside a transaction."""
    process = subprocess.Popen([sys.executable, "-c", code, where], stdout=subprocess.PIPE, text=True)
    try:
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.rest
def test_a_stopped_client_blocks_only_its_own_thread_and_not_for_ever(postgres: PostgresServer) -> None:
    url = f"{postgres.new_store()}&options=-c%20idle_in_transaction_session_timeout%3D{IDLE_S}s"
    with open_store(url) as store, ThreadPoolExecutor(1) as pool:
        for name in ("a", "b"):
            store.threads.create(a_thread(name, name))
        with frozen(FREEZE, url) as client:
            blocked = pool.submit(store.turns.add, "a", a_turn("waits"))
            store.turns.add("b", a_turn("at once"))
            store.threads.create(a_thread("c", "c"))
            store.key_values.set("x", "1")
            terms = {"owner": OWNER, "run_id": None, "now": 100.0, "ttl_s": 10.0}
            assert store.leases.acquire_slot("slots", 1, token="t", **terms) is not None
            assert [view.thread.id for view in store.views.changes(0).summaries if view.thread.id != "a"], (
                "the counter moved"
            )
            assert not blocked.done(), "the frozen one still has its thread, and nobody else waited"
            while not (named := store.obstacles()):
                assert not blocked.done()
                time.sleep(0.1)
            [(what, hint)] = named
            assert re.match(
                rf"clew pid {client.pid} on .+ has been idle in transaction for \d+ s and holds \d+ lock", what
            )
            assert "SELECT pg_terminate_backend(" in hint
            blocked.result(timeout=60)
            assert [turn.id for turn in store.turns.history("a")] == ["waits"]
            client.send_signal(signal.SIGCONT)
            said, _ = client.communicate(timeout=60)
            assert client.returncode == 0
            kind, passing, in_doubt, message = said.strip().split("|")
            assert (kind, passing, in_doubt) == ("unreachable", "True", "False")
            assert "terminating connection due to idle-in-transaction timeout" in message
        assert [turn.id for turn in store.turns.history("a")] == ["waits", "again"], "nothing half-written"
        assert store.obstacles() == []


STOP = FREEZE.replace("sys.argv[1]", "Path(sys.argv[1])").replace("import os", "from pathlib import Path\nimport os")


@pytest.mark.process
def test_a_stopped_writer_on_sqlite_is_named(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.threads.create(a_thread("a", "a"))
        store.database.session().connection.execute("PRAGMA busy_timeout = 50")
        assert store.obstacles() == []
        with frozen(STOP, str(path)) as client:
            with pytest.raises(StoreError) as caught:
                store.key_values.set("x", "1")
            error = caught.value
            assert error.kind == "locked"
            assert error.message.startswith(f"The database {path} is held by process {client.pid} (")
            assert error.message.endswith("), which is stopped.")
            assert f"kill -CONT {client.pid}" in (error.hint or "")
            [(what, hint)] = store.obstacles()
            assert what.startswith(f"No process can write to the database: it is held by process {client.pid} (")
            assert hint == error.hint
            client.send_signal(signal.SIGCONT)
            client.communicate(timeout=60)
        store.key_values.set("x", "1")
        assert store.obstacles() == []
