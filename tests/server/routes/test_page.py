"""The page's files: for browsers that are logged in, with the right caching, and no other files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.testing.stage import Stage
from server.daemons import TOKEN, LocalDaemon, local_daemon


@pytest.fixture
async def site(scripted: Stage) -> AsyncIterator[LocalDaemon]:
    static = scripted.folder / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>page</title>")
    (static / "assets" / "app-3F9A0C12.js").write_text("//")
    (static / "icon.svg").write_text("<svg/>")
    (scripted.folder / "secret.txt").write_text("secret")
    (static / "link.txt").symlink_to(scripted.folder / "secret.txt")
    async with local_daemon(scripted, static) as daemon:
        yield daemon


async def test_the_page_and_its_files(site: LocalDaemon) -> None:
    index = await site.http.get("/")
    assert "<title>page</title>" in index.text
    assert index.headers["cache-control"] == "no-store"
    script = await site.http.get("/assets/app-3F9A0C12.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    assert (await site.http.get("/icon.svg")).headers["cache-control"] == "no-store"
    for path in ("/threads/t", "/savings"):
        assert (await site.http.get(path)).text == index.text, "the page's own addresses"


async def test_a_browser_that_is_not_logged_in_gets_no_file(site: LocalDaemon) -> None:
    del site.http.headers["Authorization"]
    for path in ("/assets/app-3F9A0C12.js", "/icon.svg", "/savings", "/index.html"):
        assert (await site.http.get(path)).status_code == 401
    entered = await site.http.get(f"/?token={TOKEN}")
    assert entered.status_code == 303
    assert (await site.http.get("/icon.svg")).status_code == 200


async def test_a_link_on_another_site_logs_in_too(site: LocalDaemon) -> None:
    """A browser does not send a strict cookie with a redirect that another site caused: so there is no redirect."""
    del site.http.headers["Authorization"]
    entered = await site.http.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"})
    assert entered.status_code == 200
    assert 'http-equiv="refresh"' in entered.text
    assert (await site.http.get("/icon.svg")).status_code == 200


@pytest.mark.parametrize("before", ["/", "/assets/"])
async def test_a_name_that_no_file_can_have_is_not_found(site: LocalDaemon, before: str) -> None:
    assert "<title>page</title>" in (await site.http.get(before + "x" * 300)).text
    assert (await site.http.get(before + "x" * 300 + ".js")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/assets/none.js",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/assets/../../secret.txt",
        "/link.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/a%00.js",
        "/api/index.html",
        "/api",
    ],
)
async def test_no_other_file_is_served(site: LocalDaemon, path: str) -> None:
    answer = await site.http.get(path)
    assert "secret" not in answer.text
    assert "root:" not in answer.text
    assert answer.status_code == 404 or "<title>page</title>" in answer.text


async def test_a_page_that_is_not_built_says_so(scripted: Stage) -> None:
    async with local_daemon(scripted, Path(scripted.folder, "nothing")) as daemon:
        answer = await daemon.http.get("/")
        assert answer.status_code == 503
        assert "make web" in answer.text
