"""Exported and imported rows: every kind of thread, unusual texts, both databases."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.history import Role
from clew.core.pins import PinState
from clew.core.runs.events import TextStreamed
from clew.core.runs.run import RunStatus
from clew.engine.engine import Engine
from clew.hosts.transfer.arrival import with_local_values
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import HISTORY, STATE, read_export, unpack
from clew.hosts.transfer.imports import import_thread
from clew.store.store import Store
from clew.store.transfer.codec import from_json
from clew.testing.postgres import PostgresServer
from clew.testing.store_contract.samples import ODD_TEXTS, a_pin, a_run, a_thread, a_turn, absorbed
from transfer.samples import ODD, engine_on, fill, fill_pair


async def travel(content: bytes, engine: Engine, cwd: Path, **options: Any) -> bytes:
    made = await import_thread(engine, read_export(content), cwd=str(cwd), **options)
    return (await export_thread(engine, made.threads[0].name, {})).content


@pytest.fixture(params=["sqlite", "postgres"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The address of another store."""
    if request.param == "sqlite":
        return tmp_path / "elsewhere.db"
    server = request.getfixturevalue("postgres")
    assert isinstance(server, PostgresServer)
    return server.new_store()


@pytest.mark.process
async def test_everything_in_a_thread_is_imported_and_nothing_runs(tmp_path: Path, elsewhere: Path | str) -> None:
    a, b = engine_on(tmp_path / "a.db"), engine_on(elsewhere)
    await a.store.call(fill)
    sent = (await export_thread(a, "maze", {})).content
    arrived = await travel(sent, b, tmp_path)
    c = engine_on(tmp_path / "c.db")
    assert await travel(arrived, c, tmp_path) == arrived, "once at rest, it stays so"

    def look(store: Store) -> None:
        was, now = ({table: rows(of) for table, rows in _TABLES.items()} for of in (unpack(sent), unpack(arrived)))
        assert {table: len(rows) for table, rows in now.items()} == {table: len(rows) for table, rows in was.items()}
        assert now["turns"] == was["turns"]
        assert now["turn_revisions"] == was["turn_revisions"]
        assert now["events"] == was["events"]
        run = store.runs.require("run-1")
        assert (run.status, run.outcome, run.ended_at is not None) == ("interrupted", "killed", True)
        assert not store.questions.open()
        assert [store.jobs.require(job).status for job in ("job-1", "job-2")] == ["cancelled", "failed"]
        assert [store.jobs.require(job).cwd for job in ("job-1", "job-2")] == [str(tmp_path)] * 2
        assert store.reviews.rounds("2026-01-02-001")[0].status == "failed"
        assert store.reviews.round_files("2026-01-02-001", 1) == {"a": b"\0\xff"}
        job = store.hooks.job("job-1")
        assert job is not None and job.reply == "none", "nothing is said to a forge twice"
        assert [pin.state for pin in store.pins.of_thread("thread-1")] == ["retired", "poisoned"]
        assert not store.check()

    await b.store.call(look)
    for engine in (a, b, c):
        await engine.close()


_TABLES = {
    table: (lambda file, table=table, part=part: from_json(file.parts[part])[table])
    for part, tables in (
        (HISTORY, ("turns", "turn_revisions")),
        (STATE, ("runs", "attempts", "events", "questions", "pins", "jobs", "reviews", "review_rounds", "hook_jobs")),
    )
    for table in tables
}


@pytest.mark.process
async def test_copies_in_one_store_have_numbers_and_names_of_their_own(tmp_path: Path) -> None:
    engine = engine_on(tmp_path / "a.db")
    await engine.store.call(fill)
    await engine.store.call(fill_pair)
    sent = (await export_thread(engine, "maze", {})).content
    pair = (await export_thread(engine, "maze-worker", {})).content
    made = await import_thread(engine, read_export(sent), cwd=str(tmp_path))
    assert (made.renewed, made.threads[0].name) == (True, "maze-2")
    both = await import_thread(engine, read_export(pair), cwd=str(tmp_path))
    assert [thread.name for thread in both.threads] == ["maze-worker-2", "maze-instructor-2"]

    def look(store: Store) -> None:
        assert len(store.jobs.newest(limit=10)) == 4
        assert [review.id for review in store.reviews.newest()] == ["2026-01-02-002", "2026-01-02-001"]
        assert len(store.reviews.rounds("2026-01-02-002")) == 1
        [key] = store.hooks.keys()
        assert key.thread_id == "thread-1", "a forge's key stays where it was"
        again = store.pairs.of_thread(both.threads[0].id)
        assert again is not None and store.threads.find(again.name) is None, "a thread's name is no pair's"
        assert {again.instructor_thread_id, again.worker_thread_id} == {thread.id for thread in both.threads}
        assert [round_.result for round_ in store.pairs.rounds(again.id)] == [ODD[2]]
        assert not store.check()

    await engine.store.call(look)
    await engine.close()


@pytest.mark.process
async def test_hook_rows_of_other_threads_are_left_out(tmp_path: Path) -> None:
    """Else a file could catch the next event of a forge."""
    a, b = engine_on(tmp_path / "a.db"), engine_on(tmp_path / "b.db")
    await a.store.call(lambda store: fill(store, "chat"))
    await import_thread(b, read_export((await export_thread(a, "maze", {})).content), cwd=str(tmp_path))
    assert not await b.store.call(lambda store: store.hooks.keys())
    for engine in (a, b):
        await engine.close()


def test_a_pull_keeps_a_hooks_full_prompt_and_does_not_vouch_for_tools() -> None:
    """The events come from the other machine, so nothing proves that their tools ran here."""
    here = {
        "jobs": [{"id": "job-1", "prompt": "ours", "full_prompt": "the whole skill"}],
        "attempts": [{"id": "attempt-1", "pid": 7}],
    }
    came = {
        "jobs": [{"id": "job-1", "prompt": "theirs", "full_prompt": None}],
        "attempts": [{"id": "attempt-1", "pid": None}],
    }
    assert with_local_values(came, here) == {
        "jobs": [{"id": "job-1", "prompt": "theirs", "full_prompt": "the whole skill"}],
        "attempts": [{"id": "attempt-1", "pid": None}],
    }


_numbers = itertools.count()
_TEXTS = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(ODD_TEXTS)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "edit", "cut", "run", "pin"]), _TEXTS, st.integers(0, 10)), max_size=12
)


@pytest.mark.rest
@given(_STEPS)
@settings(max_examples=15, deadline=None)
def test_random_histories_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    folder = tmp_path_factory.mktemp(f"n{next(_numbers)}")

    def script(store: Store) -> None:
        store.threads.create(a_thread())
        for number, (what, text, choice) in enumerate(steps):
            standing = store.turns.history("thread-1")
            turn = standing[choice % len(standing)] if standing else None
            if what == "say":
                store.turns.add("thread-1", a_turn(f"turn-{number}", text, (Role.USER, Role.ASSISTANT)[choice % 2]))
            elif what == "edit" and turn is not None:
                store.turns.edit(turn.id, text, float(number))
            elif what == "cut" and turn is not None:
                store.turns.archive("thread-1", turn.id, inclusive=bool(choice % 2), at=float(number), why=text)
            elif what == "run":
                ended = RunStatus.ANSWERED if choice % 2 else RunStatus.FAILED
                store.runs.create(
                    a_run(f"run-{number}", prompt=text, status=ended, error=text, created_at=float(choice))
                )
                store.events.append(f"run-{number}", [(1, 1.0, TextStreamed(text))])
            elif what == "pin":
                store.pins.save(
                    a_pin(f"pin-{number}", state=PinState.RETIRED, absorbed=absorbed(*(t.id for t in standing)))
                )

    async def there_and_back() -> None:
        a, b = engine_on(folder / "a.db"), engine_on(folder / "b.db")
        await a.store.call(script)
        sent = (await export_thread(a, "maze", {})).content
        assert await travel(sent, b, folder) == sent
        turns = [await each.store.call(lambda store: store.turns.all("thread-1")) for each in (a, b)]
        assert turns[0] == turns[1]
        for engine in (a, b):
            await engine.close()

    asyncio.run(there_and_back())
