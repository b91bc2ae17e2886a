"""The search over HTTP."""

from __future__ import annotations

from server.daemons import LocalDaemon


async def test_turns_are_found_by_their_words(daemon: LocalDaemon) -> None:
    first, second = await daemon.thread("login"), await daemon.thread("other")
    await daemon.ask(first["id"], "Why does the login fail?")
    await daemon.ask(second["id"], "The login page is slow.")
    found = await daemon.get("/api/search?q=LOGIN&limit=1")
    assert (found["items"][0]["thread"], found["more"]) == ("other", True)
    rest = await daemon.get("/api/search?q=login+fail&limit=10")
    [hit] = [each for each in rest["items"] if each["role"] == "user"]
    [start, end] = hit["hits"][0]
    assert (hit["thread"], hit["snippet"][start:end], rest["more"]) == ("login", "login", False)
    assert (await daemon.get("/api/search?q=login&kind=job"))["items"] == []
    assert (await daemon.get(f"/api/search?q=login&project={daemon.stage.work}/below"))["items"] == []


async def test_a_search_without_words_or_token_is_refused(daemon: LocalDaemon) -> None:
    assert (await daemon.http.get("/api/search?q=%20")).status_code == 422
    assert (await daemon.http.get("/api/search")).status_code == 422
    assert (await daemon.http.get("/api/search?q=a", headers={"Authorization": ""})).status_code == 401
