"""Several processes at once, and one that dies in the middle: no write is lost, and nothing is partial."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.store import open_store
from clew.testing.store_contract import a_thread, a_turn

pytestmark = pytest.mark.rest

PROCESSES = 8
ROUNDS = 15

PREAMBLE = """
import sys
from pathlib import Path
from clew.core.runs.events import TextStreamed
from clew.core.runs.run import Owner
from clew.store import open_store
from clew.testing.store_contract import a_run, a_thread, a_turn
path, me, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
import clew.store.database.sqlite
print("ready", flush=True)
sys.stdin.readline()
"""

OPEN = """
with open_store(path) as store:
    store.key_values.set(f"opened by {me}", "yes")
"""

# Each process increases one shared value, in two steps under a lease: if two ever held it, an update would be lost.
WRITE = """
with open_store(path) as store:
    owner = Owner("host", me, 0.0)
    store.runs.create(a_run(f"run-{me}", "shared"))
    for n in range(rounds):
        store.threads.create(a_thread(f"thread-{me}-{n}", "maze"))
        store.turns.add("shared", a_turn(f"turn-{me}-{n}"))
        store.events.append(f"run-{me}", [(2 * n + i, 1.0, TextStreamed("x" * 200)) for i in (1, 2)])
        terms = {"owner": owner, "run_id": None, "now": 1.0, "ttl_s": 60.0}
        while store.leases.acquire("counter", token=f"counter-{me}", **terms) is None:
            pass
        store.key_values.set("count", str(int(store.key_values.get("count") or 0) + 1))
        assert store.leases.renew(f"counter-{me}", 2.0, 60.0) and store.leases.release(f"counter-{me}")
        if store.leases.acquire_slot("slots", 3, token=f"slot-{me}", **terms) is not None:
            assert len(store.leases.under("slots/")) <= 3
            assert store.leases.release(f"slot-{me}")
"""

DIE = """
store = open_store(path)
store.turns.add("shared", a_turn("before"))
with store.transaction():
    for n in range(2000):  # more than the cache holds, so that some of it reaches the files
        store.turns.add("shared", a_turn(f"turn-{n}", "x" * 4000))
    print("inside", flush=True)
    sys.stdin.readline()
"""

# Writes turns of 4,000 characters, and ends as a command does.
END = """
store = open_store(path)
for n in range({count}):
    store.turns.add("shared", a_turn(f"turn-{{n}}", "x" * 4000))
store.close(process_ends=True)
import os
os._exit(0)
"""


@contextmanager
def workers(code: str, path: Path, count: int = PROCESSES) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have imported everything and wait for a line on stdin. They end with the block."""
    command = [sys.executable, "-W", "error", "-c", PREAMBLE + code, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, str(number), str(ROUNDS)], **pipes) for number in range(count)]
    try:
        for worker in started:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        yield started
    finally:
        for worker in started:
            worker.kill()
            worker.communicate()


def go(started: list[subprocess.Popen[str]]) -> None:
    for worker in started:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()


def finish(started: list[subprocess.Popen[str]]) -> None:
    for worker in started:
        _, errors = worker.communicate(timeout=100)
        assert (worker.returncode, errors) == (0, "")


@pytest.mark.parametrize("attempt", range(3))
def test_the_first_open_by_eight_processes_at_once(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "new" / "home" / "clew.db"
    with workers(OPEN, path) as started:
        go(started)
        finish(started)
    with open_store(path) as store:
        assert all(store.key_values.get(f"opened by {number}") == "yes" for number in range(PROCESSES))
        assert store.check() == []


def test_eight_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.threads.create(a_thread("shared", "shared"))
        with workers(WRITE, path) as started:
            go(started)
            finish(started)
        total = PROCESSES * ROUNDS
        names = {thread.name for thread in store.threads.recent(limit=10_000)}
        assert names == {"shared", "maze", *(f"maze-{number}" for number in range(2, total + 1))}
        assert len(store.turns.history("shared")) == total
        for number in range(PROCESSES):
            assert [stored.seq for stored in store.events.of_run(f"run-{number}")] == list(range(1, 2 * ROUNDS + 1))
        assert store.key_values.get("count") == str(total)
        assert store.leases.under() == []
        assert store.check() == []


def test_a_writer_killed_inside_a_transaction_leaves_nothing_partial(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.threads.create(a_thread("shared", "shared"))
    with workers(DIE, path, count=1) as [worker]:
        go([worker])
        assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    with open_store(path) as store:
        assert [turn.id for turn in store.turns.history("shared")] == ["before"]
        store.turns.add("shared", a_turn("after"))
        assert store.check() == []


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as writer, open_store(path) as reader:
        writer.threads.create(a_thread("shared", "shared"))
        with writer.transaction():
            writer.turns.add("shared", a_turn("unseen"))
            assert reader.turns.history("shared") == ()
        assert len(reader.turns.history("shared")) == 1


@pytest.mark.parametrize(("count", "is_left"), [(5, True), (300, False)])
def test_a_process_that_ends_leaves_a_small_log_to_the_next_one(tmp_path: Path, count: int, is_left: bool) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.threads.create(a_thread("shared", "shared"))
    with workers(END.format(count=count), path, count=1) as started:
        go(started)
        finish(started)
    assert path.with_name("clew.db-wal").exists() == is_left
    with open_store(path) as store:
        assert len(store.turns.history("shared")) == count
        assert store.check() == []
    assert not path.with_name("clew.db-wal").exists(), "a process that continues copies it"
