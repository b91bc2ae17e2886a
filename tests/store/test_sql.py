"""The SQL files: named queries and migrations; and texts in a form that every database can store."""

import logging
import re
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.record import replace
from clew.store import open_store
from clew.store.database import sql
from clew.store.database.database import logged_when_slow
from clew.store.database.text import pack, unpack
from clew.store.records import flat, run_row
from clew.store.rows.jobs import job_row
from clew.store.rows.pairs import KeptFiles, pair_row
from clew.store.rows.reviews import packed_files
from clew.testing.store_contract import a_run, a_thread, a_turn
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.pairs import a_pair

STORE = Path(sql.__file__).parents[1]


def test_every_query_is_valid_on_the_schema_and_used(tmp_path: Path) -> None:
    code = "".join(file.read_text("utf-8") for file in STORE.rglob("*.py"))
    with open_store(tmp_path / "clew.db") as store:
        connection = store.database.session().connection
        for name, query in sql.queries("named").items():
            parameters = dict.fromkeys(re.findall(r":(\w+)", query), 1)
            connection.execute(f"EXPLAIN {query}", parameters)
            dynamic = name.startswith("dump_") or name in ("runs_with_status", "runs_of_thread_with_status")
            assert f'"{name}"' in code or dynamic, f"nobody asks for {name}"


def test_no_statement_is_for_sqlite_only() -> None:
    files = [*STORE.glob("queries/*.sql"), *STORE.glob("migrations/*.sql")]
    text = "\n".join(line for file in files for line in file.read_text().splitlines() if not line.startswith("--"))
    assert not re.search(
        r"AUTOINCREMENT|INSERT OR|PRAGMA|WITHOUT ROWID|\bGLOB\b|\browid\b|IFNULL|`", text, re.IGNORECASE
    )


def test_parameters_have_the_syntax_of_the_driver() -> None:
    query = "SELECT '100%', x::text, :a FROM t WHERE b = :b_2 AND c=:a"
    assert sql.spell(query, "named") == query
    assert sql.spell(query, "pyformat") == "SELECT '100%%', x::text, %(a)s FROM t WHERE b = %(b_2)s AND c=%(a)s"


def test_comments_and_semicolons_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(
        "-- about the file\n\n-- name: one\n-- why\nSELECT 1;\n\n-- name: two\nSELECT\n  2;\n"
    )
    assert sql.queries("named", tmp_path) == {"one": "SELECT 1", "two": "SELECT\n  2"}
    (tmp_path / "y.sql").write_text("-- name: one\nSELECT 3;\n")
    with pytest.raises(ValueError, match="one"):
        sql.queries("named", tmp_path)


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [int(file.name[:4]) for file in sql.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def schema(path: Path) -> list[tuple[str, ...]]:
    raw = sqlite3.connect(path)
    try:
        return raw.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    finally:
        raw.close()


def test_an_empty_file_is_migrated_and_a_second_open_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    path.touch()
    with open_store(path) as store:
        store.threads.create(a_thread())
    first = schema(path)
    for _ in range(2):
        with open_store(path) as store:
            assert store.threads.find("maze") == a_thread()
    assert schema(path) == first
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT version, name FROM schema_version").fetchall() == [
        (number, file.stem) for number, file in enumerate(sql.migrations(), 1)
    ]
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


def test_a_version_1_file_is_migrated_with_its_rows(tmp_path: Path) -> None:
    """A database with the first schema that was released, with a thread, a turn and two runs."""
    resumed = a_run("run-2", session_resumed=True, cost_usd=0.5, estimate_usd=0.25)
    path = tmp_path / "clew.db"
    path.touch(0o600)
    raw = sqlite3.connect(path)
    for statement in sql.statements(next(STORE.glob("migrations/0001_*.sql"))):
        raw.execute(statement)
    raw.execute("INSERT INTO schema_version VALUES (1, '0001_first')")
    raw.execute("PRAGMA journal_mode = WAL")
    _insert(raw, "threads", flat(a_thread()))
    _insert(raw, "turns", {**flat(a_turn("turn-1")), "thread_id": "thread-1", "position": 1})
    for number, run in enumerate((a_run(reason="first_turn", estimate_usd=0.5), resumed), 1):
        row = run_row(run)
        _insert(raw, "runs", {**row, "position": number})
    raw.commit()
    raw.close()
    for _ in range(2):
        with open_store(path) as store:
            assert store.threads.find("maze") == a_thread()
            assert store.turns.history("thread-1") == (a_turn("turn-1"),)
            assert store.runs.find("run-1") == a_run(reason="first_turn", estimate_usd=0.5)
            assert store.runs.find("run-2") == replace(resumed, estimate_usd=None), "estimates were made too low"
            assert [view.turns for view in store.views.page().items] == [1]
            assert store.database.all("schema_version") == [{"version": len(sql.migrations())}]


def test_the_turns_of_an_older_store_are_found_and_counted(tmp_path: Path) -> None:
    """A store of version 6 with unusual characters, an edited turn and an archived turn."""
    path = tmp_path / "clew.db"
    path.touch(0o600)
    raw = sqlite3.connect(path)
    for number, file in enumerate(sql.migrations()[:6], start=1):
        for statement in sql.statements(file):
            raw.execute(statement)
        raw.execute("INSERT INTO schema_version VALUES (?, ?)", (number, file.stem))
    raw.execute("PRAGMA journal_mode = WAL")
    _insert(raw, "threads", flat(a_thread()))
    for number, text in enumerate(("the first needle", "NUL \0needle \ud83d", "gone needle"), start=1):
        row = {**flat(a_turn(f"turn-{number}", pack(text))), "thread_id": "thread-1", "position": number}
        _insert(raw, "turns", {**row, "archived_at": 20.0 if number == 3 else None})
    _insert(raw, "runs", {**run_row(a_run(cost_usd=0.5)), "position": 1})
    raw.commit()
    raw.close()
    with open_store(path) as store:
        assert [hit.turn_id for hit in store.search.turns("needle")] == ["turn-2", "turn-1"]
        assert len(store.search.turns("needle", archived=True)) == 3
        [listed] = store.search.threads()
        assert (listed.chars, listed.summary.cost_usd) == (
            len("the first needle") + len(pack("NUL \0needle \ud83d")),
            0.5,
        )
        store.turns.edit("turn-1", "nothing", 30.0)
        store.threads.delete("thread-1")
        assert store.search.turns("needle", archived=True) == [] and store.check() == []


def test_contents_of_a_pairs_files_in_an_older_store_are_dropped(tmp_path: Path) -> None:
    """Older stores kept the contents of the files. The pair itself stays."""
    path = tmp_path / "clew.db"
    path.touch(0o600)
    raw = sqlite3.connect(path)
    for number, file in enumerate(sql.migrations()[:8], start=1):
        for statement in sql.statements(file, "named"):
            raw.execute(statement)
        raw.execute("INSERT INTO schema_version VALUES (?, ?)", (number, file.stem))
    raw.execute("PRAGMA journal_mode = WAL")
    for number in (1, 2):
        _insert(raw, "threads", flat(a_thread(f"thread-{number}", f"part-{number}")))
    _insert(raw, "pairs", pair_row(a_pair()))
    _insert(raw, "pair_files", {"pair_id": "pair-1", "changes": "[]", "files": packed_files({".env": b"SECRET"})})
    raw.commit()
    raw.close()
    with open_store(path) as store:
        assert store.pairs.find("build") == a_pair()
        assert store.pairs.files("pair-1") is None
        store.pairs.keep_files("pair-1", KeptFiles(None, "abc", {}))
        assert store.pairs.files("pair-1") == KeptFiles(None, "abc", {})


def test_jobs_of_an_older_store_stay_queued_and_their_runs_are_found(tmp_path: Path) -> None:
    """A store from before priorities, in which two jobs of a hook share a thread and the first had two runs."""
    path = tmp_path / "clew.db"
    path.touch(0o600)
    raw = sqlite3.connect(path)
    for number, file in enumerate((each for each in sql.migrations() if each.stem < "0020"), start=1):
        for statement in sql.statements(file, "named"):
            raw.execute(statement)
        raw.execute("INSERT INTO schema_version VALUES (?, ?)", (number, file.stem))
    raw.execute("PRAGMA journal_mode = WAL")
    _insert(raw, "threads", {**flat(a_thread()), "kind": "hook"})
    for number, prompt in enumerate(("turn-a", "turn-b", "turn-c", "turn-d"), 1):
        _insert(raw, "runs", {**run_row(a_run(f"run-{number}", prompt_turn_id=prompt)), "position": number})
    first = a_job("first", kind="hook", key="k", runs=2, run_id="run-2", prompt_turn_id="turn-a")
    second = a_job("second", kind="hook", key="k", runs=1, run_id="run-3", prompt_turn_id="turn-c")
    for number, job in enumerate((first, second, a_job("plain")), 1):
        _insert(raw, "jobs", {**job_row(job), "number": number})
    raw.commit()
    raw.close()
    with open_store(path) as store:
        assert [store.jobs.find(job.id) for job in (first, second)] == [first, second]
        assert store.jobs.claimable(0.0, 9) == ["first", "plain"]
        store.jobs.create(a_job("urgent", key="k", priority=1))
        assert [run.id for run in store.runs.of_job("first")] == ["run-1", "run-2"]
        assert [run.id for run in store.runs.of_job("second")] == ["run-3"]
        assert store.runs.require("run-4").job_id is None, "a person asked in the thread"


def test_a_slow_migration_is_logged() -> None:
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert "being migrated" in record.getMessage()
            told.set()

    log, listener = logging.getLogger("clew.store"), Listener()
    log.addHandler(listener)
    try:
        with logged_when_slow(0.001):
            assert told.wait(60)
        told.clear()
        with logged_when_slow(3600):
            pass
        assert not told.is_set()
    finally:
        log.removeHandler(listener)


def _insert(raw: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    """Leaves out the columns that the table does not have yet."""
    there = {column[1] for column in raw.execute(f"PRAGMA table_info({table})")}
    row = {name: value for name, value in row.items() if name in there}
    marks = ", ".join(f":{name}" for name in row)
    raw.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)


def test_a_later_migration_runs_once_and_a_failed_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = tmp_path / "clew.db", sql.migrations()
    with open_store(path) as store:
        store.threads.create(a_thread())
    later = tmp_path / "9999_more.sql"
    later.write_text("-- more\nCREATE TABLE more (id TEXT);\n\nALTER TABLE threads ADD COLUMN colour TEXT;\n")
    monkeypatch.setattr(sql, "migrations", lambda: [*known, later])
    for _ in range(2):
        with open_store(path) as store:
            assert store.threads.find("maze") == a_thread()
            assert store.database.all("schema_version") == [{"version": len(known) + 1}]
    later.write_text("CREATE TABLE half (id TEXT);\nNONSENSE;\n")
    monkeypatch.setattr(sql, "migrations", lambda: [*known, later, later])
    with pytest.raises(Exception, match="NONSENSE"):
        open_store(path)
    assert "half" not in dict(schema(path))


def test_a_database_restored_without_its_log_gets_a_new_log(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    open_store(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA journal_mode = DELETE")
    raw.close()
    open_store(path).close()
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


ANY_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\0\x1a0d8\ud800\udfff"), st.characters(categories=["Cs"]))
)


@given(ANY_TEXT, ANY_TEXT)
def test_packed_text_can_be_stored_and_unpacked(text: str, other: str) -> None:
    stored = pack(text)
    assert unpack(stored) == text
    assert "\0" not in stored
    stored.encode("utf-8")
    assert (stored == pack(other)) == (text == other)


def test_ordinary_text_is_stored_unchanged() -> None:
    text = "Grüße \\u0000 🧶\n"
    assert pack(text) is text and unpack(text) is text
