"""The built page, and the files that its build needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clew import web

HERE = Path(web.__file__).parent


@pytest.mark.parametrize("name", ["package.json", "package-lock.json", ".npmrc"])
def test_no_file_names_a_host(name: str) -> None:
    text = (HERE / name).read_text()
    assert text.strip()
    assert "://" not in text
    assert '"resolved"' not in text


@pytest.mark.process  # needs npm before it: `make unit` does not build the page
def test_the_index_has_no_inline_script_or_style_and_names_its_assets_by_content() -> None:
    index = (web.STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", index)
    assert not re.search(r"<style|\sstyle=|\son\w+=", index)
    named = re.findall(r'(?:src|href)="/(assets/[^"]+)"', index)
    assert len(named) == 2
    for name in named:
        assert re.search(r"-[A-Z0-9]{8}\.(js|css)$", name)
        assert (web.STATIC / name).is_file()
