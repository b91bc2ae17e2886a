"""A store that is read-only, full, damaged, too new or deleted gives a StoreError with its kind and a hint."""

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.store import Store, open_store
from clew.testing.store_contract import a_thread, a_turn

NOBODY = 65534


def kind_of_open(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert caught.value.hint and str(path) in caught.value.message and "\n" not in caught.value.message
    return caught.value.kind


def filled(path: Path, turns: int = 50) -> Path:
    with open_store(path) as store:
        store.threads.create(a_thread())
        for number in range(turns):
            store.turns.add("thread-1", a_turn(f"turn-{number}", "x" * 5000))
    return path


def test_garbage_instead_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    path.write_bytes(b"this is no database, " * 1000)
    before = path.read_bytes()
    assert kind_of_open(path) == "corrupt"
    assert path.read_bytes() == before


def test_garbage_in_the_middle_of_the_database(tmp_path: Path) -> None:
    path = filled(tmp_path / "clew.db", turns=400)  # large enough that the damaged middle is not the schema
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 2, len(content) * 3 // 4)
    content[middle] = b"\xff" * len(content[middle])
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught, open_store(path) as store:
        store.turns.history("thread-1")
    assert caught.value.kind == "corrupt" and caught.value.hint
    with open_store(path) as store:
        assert store.check() != []


def test_a_database_that_was_cut_short(tmp_path: Path) -> None:
    path = filled(tmp_path / "clew.db")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError) as caught, open_store(path) as store:
        store.turns.history("thread-1")
    assert caught.value.kind == "corrupt"


def test_a_stored_text_that_is_not_text(tmp_path: Path) -> None:
    path = filled(tmp_path / "clew.db", turns=1)
    raw = sqlite3.connect(path)
    raw.execute("UPDATE turns SET text = CAST(x'ff00fe' AS TEXT)")
    raw.execute("UPDATE threads SET permissions = 'nonsense'")
    raw.commit()
    raw.close()
    with open_store(path) as store:
        for damaged in (lambda: store.turns.history("thread-1"), lambda: store.threads.find("thread-1")):
            with pytest.raises(StoreError) as caught:
                damaged()
            assert caught.value.kind == "corrupt"


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE threads (something TEXT)")
    raw.close()
    assert kind_of_open(path) == "corrupt"
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("threads",)]  # rolled back
    raw.close()


def test_a_folder_where_the_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "clew.db").mkdir()
    assert kind_of_open(tmp_path / "clew.db") == "unreachable"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert kind_of_open(tmp_path / "home" / "clew.db") == "unreachable"


def test_a_deleted_database_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        path.unlink()
        caught: list[StoreError] = []

        def use() -> None:
            try:
                store.threads.recent()
            except StoreError as error:
                caught.append(error)

        other = threading.Thread(target=use)  # it needs its own connection
        other.start()
        other.join()
        assert [error.kind for error in caught] == ["unreachable"]
        assert not path.exists()


@pytest.mark.parametrize("instead", [None, "another"])
@pytest.mark.parametrize("which", ["clew.db*", "clew.db", "clew.db-wal", "clew.db-shm"])
def test_nothing_is_written_into_a_database_whose_files_were_replaced(
    tmp_path: Path, which: str, instead: str | None
) -> None:
    """Nor into the files that replaced it: only a person can decide which ones are right."""
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.key_values.set("before", "1")
        taken = {file.name: file.stat().st_ino for file in tmp_path.glob(which)}
        for name in taken:
            (tmp_path / name).rename(tmp_path / f"old-{name}")
        if instead is not None:
            if not path.exists():
                (tmp_path / "other").mkdir()
                filled(tmp_path / "other" / "clew.db", turns=1)
                (tmp_path / "other" / "clew.db").rename(path)
            elif which == "clew.db-wal":
                (tmp_path / "clew.db-wal").touch()
            else:
                open_store(path).close()
        sizes = {name: (tmp_path / f"old-{name}").stat().st_size for name in taken}
        for _ in range(2):  # a lost store stays lost: Clew cannot know that the files are right again
            with pytest.raises(StoreError) as caught:
                store.key_values.set("after", "1")
            assert (
                caught.value.kind == "lost"
                and "was deleted, replaced or cut short under this process" in caught.value.message
            )
            with pytest.raises(StoreError):
                store.key_values.get("before")
        copy = store.rescue()
    assert {name: (tmp_path / f"old-{name}").stat().st_size for name in taken} == sizes
    with open_store(copy) as rescued:
        assert (rescued.key_values.get("before"), rescued.key_values.get("after")) == ("1", None)


LOSE = """
import sys
from pathlib import Path
from clew.errors import StoreError
from clew.store import open_store
with open_store(Path(sys.argv[1])) as store:
    store.key_values.set("unseen", "1")
    print("stored", flush=True)
    sys.stdin.readline()
    try:
        store.key_values.set("after", "1")
    except StoreError as error:
        print(error.kind, flush=True)
"""


@pytest.mark.process
def test_the_log_of_a_deleted_database_does_not_overwrite_later_writes(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.key_values.set("before", "1")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LOSE, str(path)], **pipes) as loser:
        assert loser.stdout is not None and loser.stdout.readline() == "stored\n"
        Path(f"{path}-wal").unlink()
        Path(f"{path}-shm").unlink()
        with open_store(path) as other:
            for number in range(50):
                other.threads.create(a_thread(f"thread-{number}", f"t-{number}"))
        said, _ = loser.communicate("\n", timeout=60)
        assert (said, loser.returncode) == ("lost\n", 0)
    with open_store(path) as store:
        assert (store.key_values.get("before"), store.key_values.get("unseen"), len(store.threads.recent())) == (
            "1",
            None,
            50,
        )
        assert store.check() == []


def test_the_files_of_a_store_in_use_stay_the_same(tmp_path: Path) -> None:
    """Other processes open and close the store, and its files are not lost."""
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        for number in range(3):
            with open_store(path) as other:
                other.key_values.set("theirs", str(number))
            store.key_values.set("ours", str(number))
        assert store.lost() is None and store.key_values.get("theirs") == "2"


def test_a_newer_schema(tmp_path: Path) -> None:
    path = filled(tmp_path / "clew.db", turns=1)
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO schema_version (version, name) VALUES (999, 'from the future')")
    raw.commit()
    raw.close()
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert caught.value.kind == "too_new" and "Update Clew" in (caught.value.hint or "")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can enter, unlike the one of pytest."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="clew-store-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(code: str, path: Path) -> str:
    """Runs the code as an ordinary user, because file modes do not stop root."""
    preamble = f"""
import os, sys, clew.store.database.sqlite, difflib, fcntl, resource
from pathlib import Path
from clew.errors import ClewError
from clew.store import open_store
from clew.testing.store_contract import a_thread
path = Path(sys.argv[1])
if os.getuid() == 0:
    os.setgid({NOBODY}), os.setuid({NOBODY})
"""
    command = [sys.executable, "-W", "error", "-c", preamble + code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SAY_KIND = """
try:
    with open_store(path) as store:
        store.threads.create(a_thread())
    print("fine")
except ClewError as error:
    print(error.kind, bool(error.hint))
"""


@pytest.mark.process
def test_a_read_only_file(open_folder: Path) -> None:
    home = open_folder / "home"
    path = filled(home / "clew.db", turns=1)
    home.chmod(0o777)
    path.chmod(0o444)
    assert as_nobody(SAY_KIND, path) == "read_only True"


@pytest.mark.process
def test_a_read_only_folder(open_folder: Path) -> None:
    home = open_folder / "home"
    path = filled(home / "clew.db", turns=1)
    path.chmod(0o666 if os.getuid() == 0 else 0o600)
    home.chmod(0o555)
    try:
        assert as_nobody(SAY_KIND, path) == "read_only True"
        assert as_nobody(SAY_KIND, home / "new.db") == "read_only True"
        assert as_nobody(SAY_KIND, home / "new" / "clew.db") == "read_only True"
    finally:
        home.chmod(0o755)


def test_a_connection_that_may_only_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "clew.db") as store:
        store.database.session().connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError) as caught:
            store.threads.create(a_thread())
        assert caught.value.kind == "read_only" and store.threads.recent() == []
        store.database.session().connection.execute("PRAGMA query_only = OFF")
        store.threads.create(a_thread())


def limit_pages(store: Store, more: int | None) -> None:
    connection = store.database.session().connection
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {used + more if more is not None else 1_000_000_000}")


def test_a_full_disk_undoes_the_operation_and_leaves_the_store_usable(tmp_path: Path) -> None:
    with open_store(filled(tmp_path / "clew.db")) as store:
        limit_pages(store, 20)
        with pytest.raises(StoreError) as caught:
            store.turns.add("thread-1", a_turn("too-long", "x" * 1_000_000))
        assert caught.value.kind == "full" and caught.value.hint
        store.turns.add("thread-1", a_turn("short"))
        limit_pages(store, None)
        store.turns.add("thread-1", a_turn("too-long", "x" * 1_000_000))
        assert len(store.turns.history("thread-1")) == 52 and store.check() == []


def test_a_transaction_that_hit_a_full_disk_cannot_be_half_committed(tmp_path: Path) -> None:
    with open_store(filled(tmp_path / "clew.db")) as store:
        limit_pages(store, 20)
        with pytest.raises(StoreError) as caught, store.transaction():
            store.turns.add("thread-1", a_turn("first"))
            store.turns.add("thread-1", a_turn("too-long", "x" * 1_000_000))
        assert caught.value.kind == "full" and store.turns.find("first") is None
        limit_pages(store, None)
        connection = store.database.session().connection
        with pytest.raises(StoreError), store.transaction():
            store.turns.add("thread-1", a_turn("first"))
            connection.execute("ROLLBACK")  # SQLite itself does this after some failures …
            with pytest.raises(StoreError):
                store.turns.add("thread-1", a_turn("second"))
            with pytest.raises(StoreError):  # … and a caller that caught the error continues
                store.turns.add("thread-1", a_turn("third"))
        assert len(store.turns.history("thread-1")) == 50
        store.turns.add("thread-1", a_turn("first"))


FILL = """
from clew.testing.store_contract import a_turn
with open_store(path) as store:
    store.turns.add("thread-1", a_turn("short"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100_000, hard))
    try:
        store.turns.add("thread-1", a_turn("long", "x" * 10_000_000))
    except ClewError as error:
        print(error.kind, bool(error.hint), store.turns.find("long"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.turns.add("thread-1", a_turn("long", "x" * 10_000_000))
    print(len(store.turns.history("thread-1")), store.check())
"""


@pytest.mark.rest
def test_a_file_that_cannot_grow(open_folder: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = filled(open_folder / "clew.db")
    if os.getuid() == 0:
        for owned in (open_folder, path):
            os.chown(owned, NOBODY, NOBODY)
        Path(f"{path}.lock").unlink()
    assert as_nobody(FILL, path).splitlines() == ["full True None", "52 []"]


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_truncated_file_is_noticed_before_the_next_write(tmp_path: Path, suffix: str) -> None:
    path = filled(tmp_path / "clew.db")
    with open_store(path) as store:
        store.key_values.set("before", "1")
        os.truncate(f"{path}{suffix}", 0)
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                store.key_values.set("after", "2")
            assert caught.value.kind == "lost" and f"(clew.db{suffix} was cut short)" in caught.value.message


@pytest.mark.parametrize("command", ["PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"])
def test_a_file_that_sqlite_itself_truncates_is_not_lost(tmp_path: Path, command: str) -> None:
    path = filled(tmp_path / "clew.db")
    with open_store(path) as store:
        store.turns.add("thread-1", a_turn("last"))
        store.turns.archive("thread-1", "turn-1", inclusive=True, at=1.0, why="x")
        other = sqlite3.connect(path, isolation_level=None)
        other.executescript(f"DROP TABLE turn_words; CREATE TABLE turn_words (x); {command}")
        other.close()
        assert Path(f"{path}-wal").stat().st_size == 0
        store.key_values.set("after", "2")
        assert store.lost() is None and store.key_values.get("after") == "2"


def test_a_new_database_does_not_empty_the_log_of_one_that_was_deleted(tmp_path: Path) -> None:
    """A process that has the deleted database open can still copy everything that it had stored."""
    path = tmp_path / "clew.db"
    with open_store(path) as store:
        store.key_values.set("kept", "1")
        path.unlink()
        with open_store(path) as other:
            assert other.key_values.get("kept") is None
        [left] = tmp_path.glob("clew.db-wal.left-*")
        assert left.stat().st_size > 0
        with pytest.raises(StoreError):
            store.key_values.set("after", "2")
        copy = store.rescue()
    with open_store(copy) as rescued:
        assert (rescued.key_values.get("kept"), rescued.key_values.get("after")) == ("1", None)
