"""Allowed roots: neither a link nor `..` nor a name with the same beginning leads out."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.ids import ThreadId
from clew.core.thread import Thread
from clew.errors import NotFound, UsageError
from clew.server.models.problems import RequestRefused
from clew.server.security.roots import AllowedRoots


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
    roots = AllowedRoots([folder / "allowed"])
    assert roots.resolved(str(folder / "allowed")) == str(folder / "allowed")
    assert roots.resolved(f"{folder}/allowed/within") == str(folder / "allowed" / "inner")


@pytest.mark.parametrize("path", ["allowed/..", "allowed/../secret", "allowed/out", "allowed/out/deep", "allowed-not"])
def test_no_path_leads_out_of_the_roots(folder: Path, path: str) -> None:
    roots = AllowedRoots([folder / "allowed"])
    for look in (roots.resolved, roots.listed):
        with pytest.raises(RequestRefused) as refused:
            look(f"{folder}/{path}")
        assert refused.value.status == 403


def test_nothing_is_revealed_about_what_is_outside(folder: Path) -> None:
    with pytest.raises(RequestRefused):
        AllowedRoots([folder / "allowed"]).resolved(f"{folder}/nowhere")


def test_without_roots_any_directory_is_allowed(folder: Path) -> None:
    assert AllowedRoots().resolved(f"{folder}/allowed/out") == str(folder / "secret")


@pytest.mark.parametrize("path", ["nowhere", "allowed/file", "allowed/loop"])
def test_a_path_that_is_not_a_directory_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError):
        AllowedRoots().resolved(f"{folder}/{path}")
    with pytest.raises((NotFound, UsageError)):
        AllowedRoots().listed(f"{folder}/{path}")


@pytest.mark.parametrize("path", [".", "work", "../x", "~nobody-of-that-name", "/a\0b"])
def test_a_path_must_be_absolute(path: str) -> None:
    with pytest.raises(UsageError):
        AllowedRoots().resolved(path)


def test_listing_shows_allowed_folders(folder: Path) -> None:
    roots = AllowedRoots([folder / "allowed"])
    assert roots.listed(None) == (str(folder / "allowed"), None, ["inner", "within"])
    assert roots.listed(f"{folder}/allowed/inner") == (str(folder / "allowed" / "inner"), str(folder / "allowed"), [])
    path, parent, names = AllowedRoots().listed(f"{folder}/allowed")
    assert (path, parent) == (str(folder / "allowed"), str(folder))
    assert names == ["inner", "out", "within"]


def test_the_root_of_the_file_system_has_no_parent() -> None:
    path, parent, _ = AllowedRoots(["/"]).listed("/")
    assert (path, parent) == ("/", None)


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 2500, "\ud800"])
def test_names_that_no_directory_can_have_are_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError):
        AllowedRoots().resolved(f"{folder}/{path}")
    with pytest.raises((NotFound, UsageError)):
        AllowedRoots().listed(f"{folder}/{path}")


def test_a_directory_that_became_a_link_is_resolved_again(folder: Path) -> None:
    roots = AllowedRoots([folder / "allowed"])
    place = folder / "allowed" / "inner"
    thread = Thread(ThreadId("t"), "t", str(place), "claude", None)
    assert roots.may_run(thread)
    place.rename(folder / "allowed" / "moved")
    place.symlink_to(folder / "secret")
    assert not roots.may_run(thread)
    with pytest.raises(RequestRefused):
        roots.check(str(place))
    assert AllowedRoots().may_run(thread), "without roots any directory is allowed"


def test_the_default_directory_is_one_where_somebody_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project, other = (tmp_path / name for name in ("home", "home/project", "other"))
    for folder in (project, other):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    gone = str(tmp_path / "gone")

    anywhere = AllowedRoots()
    assert anywhere.default_cwd([str(other), str(project)]) == str(other), "where the daemon was started comes first"
    for nobodys in ("/", str(home), gone):
        assert anywhere.default_cwd([nobodys, str(project)]) == str(project)
    assert anywhere.default_cwd(["/"]) == str(home), "a service, before the first thread"
    within = AllowedRoots([project])
    assert within.default_cwd([str(other), gone, str(project)]) == str(project)
    assert within.default_cwd([str(other)]) == str(project), "a daemon that was started outside of its roots"
