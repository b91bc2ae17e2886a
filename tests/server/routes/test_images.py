"""Images over HTTP: sent with a prompt, named by turns and runs, and served by their digest."""

from __future__ import annotations

import base64

import pytest

from clew.testing.stage import Stage
from pictures import png
from server.daemons import LocalDaemon


def sent(content: bytes, name: str = "shot.png") -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(content).decode()}


async def test_an_image_is_sent_named_and_served(daemon: LocalDaemon, scripted: Stage) -> None:
    thread = await daemon.thread("t")
    body = {"prompt": "what is this?", "images": [sent(png(1)), sent(png(2), "../\x1b[2J.png")]}
    told = await daemon.post(f"/api/threads/{thread['id']}/explain", body, 200)
    assert len(told["images"]) == 2
    run = await daemon.post("/api/threads/t/runs", body)
    assert [image["name"] for image in run["images"]] == ["shot.png", "\ufffd[2J.png"]
    await daemon.ended(run["id"])
    assert scripted.api.main_requests[-1].images == 2

    turn = (await daemon.turns("t"))[0]
    assert turn["images"] == run["images"]
    first = turn["images"][0]
    assert (first["media_type"], first["size_bytes"]) == ("image/png", len(png(1)))
    answer = await daemon.http.get(f"/api/threads/t/images/{first['digest']}")
    assert (answer.status_code, answer.content) == (200, png(1))
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_only_images_of_the_thread_are_served_and_only_with_the_token(daemon: LocalDaemon) -> None:
    for name, seed in (("t", 1), ("other", 2)):
        await daemon.thread(name)
        run = await daemon.post(f"/api/threads/{name}/runs", {"prompt": "look", "images": [sent(png(seed))]})
        await daemon.ended(run["id"])
    [foreign] = (await daemon.turns("other"))[0]["images"]
    for digest in (foreign["digest"], "0" * 64, "..%2F..%2Fclew.db", "x"):
        assert (await daemon.http.get(f"/api/threads/t/images/{digest}")).status_code == 404, digest
    path = f"/api/threads/other/images/{foreign['digest']}"
    assert (await daemon.http.get(path)).status_code == 200
    assert (await daemon.http.get(path, headers={"Authorization": "Bearer wrong"})).status_code == 401


@pytest.mark.parametrize(
    ("images", "status"),
    [
        ([{"data": "no base64!"}], 422),
        ([{"data": ""}], 422),
        ([{"name": "a.png"}], 422),
        ([{"data": "AAAA", "path": "/etc/passwd"}], 422),
        (["/etc/passwd"], 422),
        ([sent(b"I am not an image")], 422),
        ([sent(png(1))] * 21, 422),
        ([sent(png(1) + bytes(5 * 1024 * 1024))], 422),
        ([sent(png(1) + bytes(5_000_000))] * 2, 413),
    ],
)
async def test_what_is_not_an_image_is_refused_and_nothing_is_stored(
    daemon: LocalDaemon, scripted: Stage, images: object, status: int
) -> None:
    await daemon.thread("t")
    answer = await daemon.http.post("/api/threads/t/runs", json={"prompt": "look", "images": images})
    assert answer.status_code == status, answer.text
    assert await daemon.get("/api/runs") == {"items": []}
    assert not (scripted.clew_home / "images").exists()
