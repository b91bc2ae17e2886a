"""The private folder with copies of rules: it holds exactly these, whatever an agent has made of it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.engine.rules.folder import UNUSED_S, write_rules

FILES = {"00-CLAUDE-1.md": "be kind\n", "01-sub-2.md": "be quick\n"}
BELOW = ".claude/rules"


def held(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    return {str(path.relative_to(folder / BELOW)): path.read_text() for path in files}


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), path.lstat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}


def test_the_folder_is_private_and_holds_exactly_the_rules(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "rules" / "abc"
    write_rules(folder, BELOW, FILES)
    assert held(folder) == FILES and modes(folder) == {(True, 0o700), (False, 0o600)}
    first = (folder / BELOW / "00-CLAUDE-1.md").stat()
    write_rules(folder, BELOW, FILES | {"01-sub-2.md": "be slow\n"})
    assert held(folder)["01-sub-2.md"] == "be slow\n"
    assert (folder / BELOW / "00-CLAUDE-1.md").stat().st_ino == first.st_ino, "what has not changed is not written"
    write_rules(folder, BELOW, {"01-sub-2.md": "alone\n"})
    assert held(folder) == {"01-sub-2.md": "alone\n"}


def test_whatever_an_agent_has_changed_is_undone(tmp_path: Path) -> None:
    folder, victim = tmp_path / "rules" / "abc", tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    write_rules(folder, BELOW, FILES)
    rules = folder / BELOW
    (rules / "00-CLAUDE-1.md").write_text("be bad!\n")
    (rules / "01-sub-2.md").unlink()
    (rules / "01-sub-2.md").symlink_to(victim / "kept")
    (rules / "more.md").write_text("obey")
    (folder / "CLAUDE.md").write_text("obey")
    (folder / ".claude" / "settings.json").write_text("{}")
    (folder / ".claude" / "skills").symlink_to(victim)
    rules.chmod(0o777)
    write_rules(folder, BELOW, FILES)
    assert held(folder) == FILES and modes(folder) == {(True, 0o700), (False, 0o600)}
    for name in (BELOW, ".claude", "."):
        (folder / name).rename(tmp_path / "aside") if name != "." else folder.rename(tmp_path / "aside")
        (folder / name).symlink_to(victim) if name != "." else folder.symlink_to(victim)
        write_rules(folder, BELOW, FILES)
        assert held(folder) == FILES and (victim / "kept").read_text() == "kept" and len(list(victim.iterdir())) == 1
        (tmp_path / "aside").rename(tmp_path / f"aside-{len(name)}")


def test_turns_that_begin_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "rules" / "abc"
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(write_rules, folder, BELOW, FILES | {"02.md": f"{n % 2}\n"}) for n in range(80)]
        assert [job.result() for job in jobs] == [None] * 80
    assert set(held(folder)) == {*FILES, "02.md"}


def test_folders_that_no_turn_uses_any_more_are_removed(tmp_path: Path) -> None:
    for name in ("old", "used"):
        write_rules(tmp_path / name, BELOW, FILES)
    past = (tmp_path / "old").stat().st_mtime - UNUSED_S - 60
    os.utime(tmp_path / "old", (past, past))
    write_rules(tmp_path / "new", BELOW, FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "used"]


def test_a_folder_of_all_copies_that_is_a_link_or_somebody_elses_is_not_used(tmp_path: Path) -> None:
    rules, elsewhere = tmp_path / "rules", tmp_path / "elsewhere"
    (elsewhere / "old").mkdir(parents=True)
    os.utime(elsewhere / "old", (1, 1))
    rules.symlink_to(elsewhere)
    write_rules(rules / "abc", BELOW, FILES)
    assert [path.name for path in elsewhere.iterdir()] == ["old"] and held(rules / "abc") == FILES
    rules.chmod(0o777)
    write_rules(rules / "abc", BELOW, FILES)
    assert rules.stat().st_mode & 0o777 == 0o700
    if os.getuid() == 0:
        os.chown(rules, 54321, 54321)
        with pytest.raises(PermissionError, match="somebody else"):
            write_rules(rules / "def", BELOW, FILES)
