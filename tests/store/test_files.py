"""Only the owner can read any file, whatever the umask; and each OS thread has its own connection."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.store import open_store
from clew.testing.store_contract import a_thread, a_turn


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
def test_files_are_0600_and_folders_0700_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "state" / "clew" / "clew.db"
    with umask(mask), open_store(path) as store:
        store.threads.create(a_thread())
        found = modes(path.parent)
        assert {"clew.db", "clew.db-wal", "clew.db-shm"} <= found.keys()
        assert set(found.values()) <= {0o600, 0o600 & ~mask}
        assert found["clew.db"] == found["clew.db-wal"] == found["clew.db-shm"] == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    open_store(path).close()
    path.chmod(0o644)
    with open_store(path) as store:
        assert modes(tmp_path)["clew.db"] == 0o600
        path.chmod(0o640)
        assert [problem for problem in store.check() if "chmod 600" in problem]


def test_a_folder_in_place_of_the_database_is_refused_and_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(StoreError, match=r"^The database .* cannot be opened \(it is a directory\)\.$"):
        open_store(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_paths_with_special_characters_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a b?mode=ro#x%20.db", "ünï-线.db", "file:x.db"):
        with open_store(tmp_path / name) as store:
            store.key_values.set("name", name)
        assert (tmp_path / name).stat().st_size > 0
    monkeypatch.chdir(tmp_path)
    with open_store(Path("relative.db")) as store:
        monkeypatch.chdir("/")
        store.key_values.set("key", "value")
    assert (tmp_path / "relative.db").exists()


@pytest.mark.rest
def test_each_os_thread_has_its_own_connection_and_all_are_closed(tmp_path: Path) -> None:
    with open_store(tmp_path / "clew.db") as store:
        store.threads.create(a_thread())
        failures: list[BaseException] = []

        def write(number: int) -> None:
            try:
                for n in range(20):
                    store.turns.add("thread-1", a_turn(f"turn-{number}-{n}"))
            except BaseException as error:
                failures.append(error)
                raise

        for _ in range(2):  # when the second group starts, the OS threads of the first have ended
            started = [threading.Thread(target=write, args=(threading.get_ident() + n,)) for n in range(6)]
            for thread in started:
                thread.start()
            for thread in started:
                thread.join()
            assert not failures
            assert len(store.turns.history("thread-1")) == 120
            store.turns.archive("thread-1", store.turns.history("thread-1")[0].id, inclusive=True, at=1.0, why="again")
            store.threads.delete("thread-1")
            store.threads.create(a_thread())


def test_a_transaction_of_one_os_thread_does_not_contain_writes_of_another(tmp_path: Path) -> None:
    with open_store(tmp_path / "clew.db") as store:
        seen: list[str | None] = []
        with store.transaction():
            store.key_values.set("key", "value")
            reader = threading.Thread(target=lambda: seen.append(store.key_values.get("key")))
            reader.start()
            reader.join()
        assert seen == [None] and store.key_values.get("key") == "value"
