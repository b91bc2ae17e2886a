"""What a pair stores about files: enough to notice that somebody changed them, and none of their contents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from clew.core.pairs.pair import PairPart, PairStatus, PairWarned
from clew.errors import AuthFailed
from clew.hosts.pairs.files import MAX_FILES, MAX_HASHED_BYTES, FileScan, scan_files
from clew.hosts.pairs.rows import ResumeOptions
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import STATE, unpack
from clew.store.rows.pairs import KeptFiles
from clew.store.transfer.codec import from_json
from clew.testing.model.scripts import FINAL, Fail
from clew.testing.stage import Stage
from pairs.couple import Couple, begun, carried_out, finished, resumed, start

WAIT_S = 60


def git(folder: Path, *args: str) -> None:
    named = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *args]
    subprocess.run(named, cwd=folder, check=True, capture_output=True)


def tree(folder: Path) -> Path:
    git(folder, "init", "-q")
    for name in ("kept.txt", "mine.txt"):
        (folder / name).write_text("1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


async def scanned(folder: Path, before: KeptFiles | None = None) -> FileScan:
    found = await scan_files(str(folder), os.environ, None, before)
    assert found.files is not None
    return found


def kept(found: FileScan) -> KeptFiles:
    assert found.files is not None
    return found.files


@pytest.mark.process
async def test_only_real_changes_are_reported_whatever_git_did_since(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    (folder / "mine.txt").write_text("2\n")
    for name in ("new.txt", "later.txt", "gone.txt", "other.txt"):
        (folder / name).write_text("new\n")
    (folder / "link").symlink_to("new.txt")
    before = kept(await scanned(folder))
    assert (await scanned(folder, before)).changed == ()
    os.utime(folder / "later.txt", (1, 1))
    git(folder, "add", "mine.txt", "new.txt")
    git(folder, "commit", "-qm", "the same words, committed")
    assert (await scanned(folder, before)).changed == (), "a touch and a commit change no file"
    (folder / "kept.txt").write_text("2\n")
    git(folder, "commit", "-qam", "second")
    (folder / "gone.txt").unlink()
    (folder / "other.txt").write_text("NEW\n")
    (folder / "link").unlink()
    (folder / "link").symlink_to("old.txt")
    (folder / "more.txt").write_text("more\n")
    seen = await scanned(folder, before)
    assert set(seen.changed) == {"kept.txt", "gone.txt", "other.txt", "link", "more.txt"}
    assert (await scanned(folder, seen.files)).changed == ()


@pytest.mark.process
async def test_large_files_are_compared_by_time_and_not_read(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    for number in range(40):
        with (folder / f"large-{number}").open("wb") as file:
            file.truncate(MAX_HASHED_BYTES + 1 if number else 10**12)  # more than can be read in that time
    before = kept(await scanned(folder))
    assert {each.digest for each in before.files.values()} == {None}
    assert (await scanned(folder, before)).changed == ()
    os.utime(folder / "large-7", (1, 1))
    assert (await scanned(folder, before)).changed == ("large-7",)


@pytest.mark.process
async def test_a_tree_with_too_many_changes_is_not_scanned(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    for number in range(4):
        (folder / f"f{number}").touch()
    assert (await scan_files(str(folder), os.environ, None, max_changed=4)).files is not None
    unseen = await scan_files(str(folder), os.environ, None, max_changed=3)
    assert (unseen.files, unseen.skipped_because) == (None, "4 have changed")


@pytest.mark.process
async def test_without_git_all_files_except_hidden_ones_are_compared_by_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "sub" / ".cache").mkdir(parents=True)
    for name in ("kept.txt", "mine.txt", "gone.txt", "sub/deep.txt", ".hidden", "sub/.cache/x"):
        (tmp_path / name).write_text("1\n")
    before = kept(await scanned(tmp_path))
    assert {each.digest for each in before.files.values()} == {None}
    assert (await scanned(tmp_path, before)).changed == ()
    (tmp_path / "mine.txt").write_text("22\n")
    os.utime(tmp_path / "sub" / "deep.txt", (1, 1))
    (tmp_path / "gone.txt").unlink()
    for name in ("new.txt", ".hidden-too", "sub/.cache/y"):
        (tmp_path / name).write_text("new\n")
    assert set((await scanned(tmp_path, before)).changed) == {"mine.txt", "sub/deep.txt", "gone.txt", "new.txt"}
    unseen = await scan_files(str(tmp_path), os.environ, None, max_files=3)
    assert (unseen.files, unseen.skipped_because) == (None, "there are more than 3")


async def test_changes_by_somebody_else_are_reported_without_git_too(scripted: Stage) -> None:
    (scripted.work / "mine.txt").write_text("1\n")
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted)
        (scripted.work / "mine.txt").write_text("another one\n")
        live = await client.pairs.resume(first.pair.id, ResumeOptions(message="Go on."))
        told = {event.code: event.message async for event in live.events() if isinstance(event, PairWarned)}
        await finished(client, live)
        assert told == {"files_changed": "changed by somebody else since: mine.txt"}
        assert "mine.txt" in couple.prompt(PairPart.INSTRUCTOR)


@pytest.mark.rest
async def test_too_many_files_are_reported_once(scripted: Stage) -> None:
    for number in range(MAX_FILES + 1):
        os.close(os.open(scripted.work / f"f{number}", os.O_CREAT))
    Couple(scripted, rounds=2)
    async with scripted.open() as client:
        live = await start(client, scripted)
        told = [event.code async for event in live.events() if isinstance(event, PairWarned)]
        state = await finished(client, live)
        assert (state.status, told) == (PairStatus.FINISHED, ["not_looked"])


async def test_neither_store_nor_export_has_the_content_of_the_files(scripted: Stage) -> None:
    tree(scripted.work)
    (scripted.work / ".env").write_text("PASSWORD=never-to-be-kept-anywhere\n")
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        state = await carried_out(client, scripted, name="two")
        [row] = await client.engine.store.call(lambda store: [store.database.one("pair_files", pair_id=state.pair.id)])
        assert row is not None
        [(size, changed_ns, digest)] = json.loads(row["files"]).values()
        assert (size, type(changed_ns), len(digest)) == (35, int, 64)
        out = await export_thread(client.engine, "pair-two-worker", {})
    state_rows = from_json(unpack(out.content).parts[STATE])
    assert isinstance(state_rows, dict) and len(state_rows["pair_rounds"]) == 2
    assert "pair_files" not in state_rows


async def test_a_changed_file_is_reported_once(scripted: Stage) -> None:
    folder = tree(scripted.work)
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted)
        (folder / "mine.txt").write_text("2\n")
        told = []
        for _ in range(2):
            couple.orders.append(Fail(401, "authentication_error", "invalid x-api-key", FINAL))
            live = await client.pairs.resume(first.pair.id, ResumeOptions(message="Go on."))
            told.append([event.code async for event in live.events() if isinstance(event, PairWarned)])
            await live.finish()
            assert isinstance(live.error, AuthFailed)
        assert told == [["files_changed"], []]
        state = await client.pairs.find(first.pair.id)
        assert state.rounds[-1].changed_files == ("mine.txt",)


async def test_a_stop_during_the_scan_keeps_the_message(scripted: Stage, tmp_path: Path) -> None:
    """A git that hangs simulates a work tree that takes long to scan."""
    folder = tree(scripted.work)
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, name="slow")
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "git").write_text(
            f'#!/bin/sh\ncase "$*" in *ls-files*) echo here > {folder}/.git/at-it; exec sleep 100;; esac\n'
            f'exec {shutil.which("git")} "$@"\n'
        )
        (programs / "git").chmod(0o755)
        path = f"{programs}{os.pathsep}{scripted.environ['PATH']}"
        with begun(scripted, "--session", "slow", "u7z And now the rest.", PATH=path) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert b"pair slow" in line and b"continues in round 3" in line
            process.send_signal(signal.SIGINT)
            assert b"stopping" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 7, err.decode()
        left = await client.pairs.find(first.pair.id)
        assert (left.status, left.rounds[-1].message) == (PairStatus.STOPPED, "u7z And now the rest.")
        saved = json.loads((folder / ".clew" / "sessions" / "current.json").read_text())
        assert "u7z And now the rest." in saved["asking"]
        state = await resumed(client, first.pair)
        assert state.status is PairStatus.FINISHED


async def test_a_pair_that_moves_says_so_and_compares_no_files(scripted: Stage, tmp_path: Path) -> None:
    tree(scripted.work)
    other = tmp_path / "elsewhere"
    other.mkdir()
    tree(other)
    (other / "mine.txt").write_text("another\n")
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted)
        live = await client.pairs.resume(first.pair.id, ResumeOptions(message="Go on.", cwd=str(other)))
        told = {event.code: event.message async for event in live.events() if isinstance(event, PairWarned)}
        await finished(client, live)
        assert list(told) == ["another_directory"]
        assert str(scripted.work) in told["another_directory"] and str(other) in told["another_directory"]
