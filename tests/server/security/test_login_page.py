"""The pages for a browser that is not logged in have the page's colours and the same strict content policy."""

from __future__ import annotations

import re

import pytest

from server.daemons import LocalDaemon


@pytest.mark.parametrize("address", ["/", "/?token=wrong"])
async def test_the_login_page_has_a_style_that_needs_no_token(daemon: LocalDaemon, address: str) -> None:
    del daemon.http.headers["Authorization"]
    page = await daemon.http.get(address)
    assert page.status_code == 401
    assert "style-src 'self'" in page.headers["content-security-policy"]
    assert "<style" not in page.text
    assert " style=" not in page.text
    [sheet] = re.findall(r'<link rel="stylesheet" href="([^"]+)">', page.text)
    style = await daemon.http.get(sheet)
    assert (style.status_code, style.headers["content-type"].split(";")[0]) == (200, "text/css")
    assert "prefers-color-scheme: dark" in style.text
    assert (await daemon.http.post(sheet)).status_code in (401, 405)


async def test_the_page_for_a_wrong_token_does_not_say_to_continue(daemon: LocalDaemon) -> None:
    del daemon.http.headers["Authorization"]
    assert "continue here" in (await daemon.http.get("/")).text
    wrong = (await daemon.http.get("/?token=wrong")).text
    assert "continue here" not in wrong
    assert "That token is not valid" in wrong
    assert 'href="/"' not in wrong
