"""Systems and extras on which Clew does not run: one line says so."""

from __future__ import annotations

import sys

import pytest

from clew.cli.main import entry
from clew.errors import UsageError
from clew.store import open_store


def test_on_windows_one_line_says_that_it_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match=r"^clew: Clew does not work on Windows\. Use it on Linux or macOS, or in WSL"):
        entry()


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clew.store.database.postgres", None)
    monkeypatch.delitem(sys.modules, "clew.store.database.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError) as caught:
        open_store("postgresql://nobody@localhost/none")
    assert caught.value.hint == "Install it: pip install 'clew-threads[postgres]'"
