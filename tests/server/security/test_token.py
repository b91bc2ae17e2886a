"""The token's file: complete, private, kept, and one for all daemons that start at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.server.security.token import TOKEN_FILE, Credentials, OneTimeCode, load_token, new_token
from server.daemons import mode


def test_token_is_made_once_and_kept(tmp_path: Path) -> None:
    first = load_token(tmp_path / "home")
    assert load_token(tmp_path / "home") == first
    assert len(first.token) >= 43, "256 bits"


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    load_token(tmp_path / "home")
    assert mode(tmp_path / "home" / TOKEN_FILE) == 0o600
    assert mode(tmp_path / "home") == 0o700


def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    load_token(tmp_path)
    (tmp_path / TOKEN_FILE).chmod(0o644)
    load_token(tmp_path)
    assert mode(tmp_path / TOKEN_FILE) == 0o600


def test_a_new_token_replaces_the_old_one_and_its_cookie(tmp_path: Path) -> None:
    old = load_token(tmp_path)
    new = new_token(tmp_path)
    assert load_token(tmp_path) == new
    assert not new.is_token(old.token)
    assert not new.is_cookie(old.cookie)
    assert not new.is_page_key(old.page_key)
    assert mode(tmp_path / TOKEN_FILE) == 0o600


@pytest.mark.parametrize("content", ["", "short", "a b" * 30, "x" * 500, "ä" * 50])
def test_an_invalid_token_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / TOKEN_FILE).write_text(content, "utf-8")
    if content.isascii():
        made = load_token(tmp_path)
        assert made.token != content.strip()
        assert load_token(tmp_path) == made
    else:
        with pytest.raises(StoreError, match="token"):
            load_token(tmp_path)


def test_daemons_that_start_at_once_have_the_same_token(tmp_path: Path) -> None:
    together = threading.Barrier(8)
    found: list[str] = []

    def start() -> None:
        together.wait()
        found.append(load_token(tmp_path).token)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE], "nothing is left beside it"


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as refused:
        load_token(tmp_path / "file" / "home")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("how", ["dangling link", "folder", "link in a circle"])
def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path, how: str) -> None:
    path = tmp_path / TOKEN_FILE
    if how == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere" if how == "dangling link" else path)
    with pytest.raises(StoreError, match="token file") as refused:
        load_token(tmp_path)
    assert "\n" not in refused.value.message
    assert refused.value.exit_code == 9


def test_a_one_time_code_works_once_and_expires() -> None:
    one_time_code = OneTimeCode(expires_at=60.0)
    assert not one_time_code.take("another", 1.0)
    assert one_time_code.take(one_time_code.code, 1.0)
    assert not one_time_code.take(one_time_code.code, 2.0)
    late = OneTimeCode(expires_at=60.0)
    assert not late.take(late.code, 61.0)


def test_cookie_and_key_differ_from_the_token_which_is_not_in_the_repr() -> None:
    credentials = Credentials("t" * 43)
    assert credentials.cookie != credentials.token
    assert not credentials.is_token(credentials.cookie)
    assert not credentials.is_cookie(credentials.token)
    assert len({credentials.page_key, credentials.cookie, credentials.token}) == 3
    assert not credentials.is_page_key(credentials.cookie)
    assert credentials.token not in repr(credentials)
    assert not credentials.is_token("\udc80")
