"""What a browser sees before it is let in: in the page's colours, under the same strict policy."""

from __future__ import annotations

import re

import pytest

from server.house import House


@pytest.mark.parametrize("address", ["/", "/?token=wrong"])
async def test_a_stranger_s_page_has_a_style_that_strangers_may_load(house: House, address: str) -> None:
    del house.http.headers["Authorization"]
    page = await house.http.get(address)
    assert page.status_code == 401
    assert "style-src 'self'" in page.headers["content-security-policy"]
    assert "<style" not in page.text
    assert " style=" not in page.text
    [sheet] = re.findall(r'<link rel="stylesheet" href="([^"]+)">', page.text)
    style = await house.http.get(sheet)
    assert (style.status_code, style.headers["content-type"].split(";")[0]) == (200, "text/css")
    assert "prefers-color-scheme: dark" in style.text
    assert (await house.http.post(sheet)).status_code in (401, 405)


async def test_who_brings_a_wrong_token_is_not_told_to_go_on(house: House) -> None:
    del house.http.headers["Authorization"]
    assert "go on here" in (await house.http.get("/")).text
    wrong = (await house.http.get("/?token=wrong")).text
    assert "go on here" not in wrong
    assert "That token is not valid" in wrong
    assert 'href="/"' not in wrong
