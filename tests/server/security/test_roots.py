"""Allowed roots: neither a link nor `..` nor a name that begins alike leads out."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.ids import ThreadId
from clew.core.thread import Thread
from clew.errors import NotFound, UsageError
from clew.server.problems import Refusal
from clew.server.roots import Roots


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    real = tmp_path.resolve()
    for name in ("allowed/inner", "allowed/.hidden", "allowed-not", "secret/deep"):
        (real / name).mkdir(parents=True)
    (real / "allowed" / "file").write_text("")
    (real / "allowed" / "out").symlink_to(real / "secret")
    (real / "allowed" / "within").symlink_to(real / "allowed" / "inner")
    (real / "allowed" / "loop").symlink_to(real / "allowed" / "loop")
    return real


def test_a_directory_below_a_root_is_given_by_its_real_path(folder: Path) -> None:
    roots = Roots([folder / "allowed"])
    assert roots.resolved(str(folder / "allowed")) == str(folder / "allowed")
    assert roots.resolved(f"{folder}/allowed/within") == str(folder / "allowed" / "inner")


@pytest.mark.parametrize("path", ["allowed/..", "allowed/../secret", "allowed/out", "allowed/out/deep", "allowed-not"])
def test_nothing_leads_out(folder: Path, path: str) -> None:
    roots = Roots([folder / "allowed"])
    for look in (roots.resolved, roots.listed):
        with pytest.raises(Refusal) as refused:
            look(f"{folder}/{path}")
        assert refused.value.status == 403


def test_what_is_outside_is_not_even_said_to_be_missing(folder: Path) -> None:
    with pytest.raises(Refusal):
        Roots([folder / "allowed"]).resolved(f"{folder}/nowhere")


def test_without_roots_any_directory_will_do(folder: Path) -> None:
    assert Roots().resolved(f"{folder}/allowed/out") == str(folder / "secret")


@pytest.mark.parametrize("path", ["nowhere", "allowed/file", "allowed/loop"])
def test_what_is_no_directory_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError):
        Roots().resolved(f"{folder}/{path}")
    with pytest.raises((NotFound, UsageError)):
        Roots().listed(f"{folder}/{path}")


@pytest.mark.parametrize("path", [".", "work", "../x", "~nobody-of-that-name", "/a\0b"])
def test_a_path_must_say_where_it_begins(path: str) -> None:
    with pytest.raises(UsageError):
        Roots().resolved(path)


def test_listing_shows_folders_that_may_be_worked_in(folder: Path) -> None:
    roots = Roots([folder / "allowed"])
    assert roots.listed(None) == (str(folder / "allowed"), None, ["inner", "within"])
    assert roots.listed(f"{folder}/allowed/inner") == (str(folder / "allowed" / "inner"), str(folder / "allowed"), [])
    path, parent, names = Roots().listed(f"{folder}/allowed")
    assert (path, parent) == (str(folder / "allowed"), str(folder))
    assert names == ["inner", "out", "within"]


def test_the_whole_file_system_has_nothing_above_it() -> None:
    path, parent, _ = Roots(["/"]).listed("/")
    assert (path, parent) == ("/", None)


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 2500, "\ud800"])
def test_names_that_no_directory_can_have_are_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError):
        Roots().resolved(f"{folder}/{path}")
    with pytest.raises((NotFound, UsageError)):
        Roots().listed(f"{folder}/{path}")


def test_a_directory_that_became_a_link_is_where_it_leads(folder: Path) -> None:
    roots = Roots([folder / "allowed"])
    place = folder / "allowed" / "inner"
    thread = Thread(ThreadId("t"), "t", str(place), "claude", None)
    assert roots.may_run(thread)
    place.rename(folder / "allowed" / "moved")
    place.symlink_to(folder / "secret")
    assert not roots.may_run(thread)
    with pytest.raises(Refusal):
        roots.check(str(place))
    assert Roots().may_run(thread), "without roots anywhere will do"


def test_a_new_thread_begins_where_work_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project, other = (tmp_path / name for name in ("home", "home/project", "other"))
    for folder in (project, other):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    gone = str(tmp_path / "gone")

    anywhere = Roots()
    assert anywhere.begin_in([str(other), str(project)]) == str(other), "where the daemon was started comes first"
    for nobodys in ("/", str(home), gone):
        assert anywhere.begin_in([nobodys, str(project)]) == str(project)
    assert anywhere.begin_in(["/"]) == str(home), "a service, before the first thread"
    within = Roots([project])
    assert within.begin_in([str(other), gone, str(project)]) == str(project)
    assert within.begin_in([str(other)]) == str(project), "a daemon that was started outside of its roots"
