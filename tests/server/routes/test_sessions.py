"""The agents' own sessions over HTTP: listed and adopted, and with roots only those below them."""

from __future__ import annotations

from typing import Any

import pytest

from clew.testing.stage import Stage
from server.daemons import LocalDaemon, local_daemon
from server.operations import events_of
from transfer.session_files import planted


async def adopted(daemon: LocalDaemon, body: Any) -> Any:
    """The result of the operation."""
    started = await daemon.post("/api/sessions/adopt", body)
    await events_of(daemon, started["id"])
    return (await daemon.get(f"/api/operations/{started['id']}"))["result"]


async def test_sessions_are_listed_and_adopted(daemon: LocalDaemon, scripted: Stage) -> None:
    shop = scripted.folder / "shop"
    ids = planted(scripted, shop, scripted.work, shop)
    listed = await daemon.get("/api/sessions?limit=2")
    assert ([each["id"] for each in listed["items"]], listed["more"]) == (ids[:2], True)
    of_shop = await daemon.get("/api/sessions", params={"agent": "claude", "project": str(shop)})
    assert ([each["id"] for each in of_shop["items"]], of_shop["more"]) == ([ids[0], ids[2]], False)
    tried = await adopted(daemon, {"all": True, "project": str(shop), "dry_run": True})
    assert [each["adopted"] for each in tried["items"]] == [True, True]
    assert (await daemon.get("/api/threads"))["total"] == 0
    done = await adopted(daemon, {"ids": [ids[1], "nothing-like-it"]})
    assert [(each["id"], each["thread"], each["turns"]) for each in done["items"]] == [(ids[1], "question-1", 2)]
    assert [error["code"] for error in done["errors"]] == ["not_found"]
    assert [turn["text"] for turn in await daemon.turns("question-1")] == ["question 1", "an answer"]
    rest = await adopted(daemon, {"all": True})
    assert {each["thread"]: each["why"] for each in rest["items"]} == {
        "question-0": None, "question-1": "question-1 has it already", "question-2": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"ids": ["0a0a"], "all": True}, 422),
        ({"ids": []}, 422),
        ({"ids": ["0a0a0a0a"]}, 404),
        ({"ids": [""]}, 422),
        ({"all": True, "agent": "nobody"}, 422),
        ({"all": True, "project": "/no/such/place"}, 422),
        ({"ids": ["0a0a"], "project": "/"}, 422),
        ({"everything": True}, 422),
    ],
)
async def test_an_invalid_adoption_is_refused(daemon: LocalDaemon, body: Any, status: int) -> None:
    response = await daemon.http.post("/api/sessions/adopt", json=body)
    assert response.status_code == status, response.text
    assert (await daemon.get("/api/operations"))["items"] == []


async def test_an_invalid_list_is_refused(daemon: LocalDaemon) -> None:
    for query in ("agent=nobody", "project=relative", "project=/no/such/place", "limit=0"):
        assert (await daemon.http.get(f"/api/sessions?{query}")).status_code == 422, query


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/sessions"), ("POST", "/api/sessions/adopt")])
async def test_each_call_is_refused_without_the_token(daemon: LocalDaemon, method: str, path: str) -> None:
    response = await daemon.http.request(method, path, json={"all": True}, headers={"Authorization": "Bearer wrong"})
    assert response.status_code == 401


async def test_with_roots_only_sessions_below_them_are_listed_and_adopted(scripted: Stage) -> None:
    inside, outside = scripted.folder / "inside", scripted.folder / "outside"
    link = scripted.folder / "inside" / "link"
    ids = planted(scripted, inside, outside, inside)
    link.symlink_to(outside)
    planted_link = planted(scripted, inside, outside, inside, link)[3]
    async with local_daemon(scripted, roots=[inside]) as daemon:
        listed = await daemon.get("/api/sessions")
        assert [each["id"] for each in listed["items"]] == [ids[0], ids[2]]
        for hidden in (ids[1], planted_link):
            response = await daemon.http.post("/api/sessions/adopt", json={"ids": [hidden]})
            assert response.status_code == 404
        for body in ({"all": True, "project": str(outside)}, {"all": True, "project": str(link)}):
            assert (await daemon.http.post("/api/sessions/adopt", json=body)).status_code == 403
        assert (await daemon.http.get("/api/sessions", params={"project": str(outside)})).status_code == 403
        done = await adopted(daemon, {"all": True})
        assert [each["id"] for each in done["items"]] == [ids[0], ids[2]]
        assert {each["cwd"] for each in (await daemon.get("/api/threads"))["items"]} == {str(inside)}
