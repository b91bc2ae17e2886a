"""Commands and mentions over HTTP: what can be typed, what it stands for, and what acts on the thread."""

from __future__ import annotations

from clew.testing.stage import Stage
from server.daemons import LocalDaemon, local_daemon


async def test_a_prompt_is_expanded_only_when_the_user_typed_it(daemon: LocalDaemon, scripted: Stage) -> None:
    (scripted.work / "a.txt").write_text("one\n")
    thread = await daemon.thread("t")
    asked = await daemon.post(f"/api/threads/{thread['id']}/runs", {"prompt": "see @a.txt", "expand": True}, 202)
    assert asked["typed"] == "see @a.txt" and "1\tone" in asked["prompt"]
    known = {"prompt": "see @a.txt", "expand": True, "known": "@a.txt"}
    for body in ({"prompt": "see @a.txt"}, known):
        asked = await daemon.post(f"/api/threads/{thread['id']}/runs", body, 202)
        assert (asked["typed"], asked["prompt"]) == (None, "see @a.txt")
    answer = await daemon.http.post(
        f"/api/threads/{thread['id']}/runs", json={"prompt": "@/etc/passwd", "expand": True}
    )
    assert answer.status_code == 422 and "outside the work directory" in answer.text


async def test_what_can_be_typed_is_listed(daemon: LocalDaemon, scripted: Stage) -> None:
    (scripted.work / "a.txt").write_text("one\n")
    found = await daemon.get(f"/api/commands?cwd={scripted.work}")
    assert [each["name"] for each in found["items"]] == ["clear", "compact"]
    assert await daemon.get(f"/api/files?cwd={scripted.work}&prefix=a") == {"items": ["a.txt"]}
    assert (await daemon.http.get("/api/files?cwd=/no/such/folder")).status_code == 422


async def test_clear_and_compact(daemon: LocalDaemon) -> None:
    thread = await daemon.thread("t")
    assert await daemon.post(f"/api/threads/{thread['id']}/clear", {}, 200) == {"archived": 0}
    done = await daemon.post(f"/api/threads/{thread['id']}/compact", {}, 200)
    assert done == {"session_id": None, "is_compacted": False}


async def test_a_job_is_expanded_when_the_user_typed_it(daemon: LocalDaemon, scripted: Stage) -> None:
    (scripted.work / "a.txt").write_text("one\n")
    body = {"prompt": "see @a.txt", "cwd": str(scripted.work)}
    assert (await daemon.post("/api/jobs", body, 201))["prompt"] == "see @a.txt"
    assert "1\tone" in (await daemon.post("/api/jobs", {**body, "expand": True}, 201))["prompt"]
    for path, more in (("/api/pairs", {"task": "/nosuch"}), ("/api/reviews", {"focus": "/nosuch"})):
        answer = await daemon.http.post(path, json={"cwd": str(scripted.work), "expand": True, **more})
        assert answer.status_code == 422 and "There is no command /nosuch" in answer.text


async def test_with_roots_a_prompt_is_edited_without_reading_a_file_outside_of_them(scripted: Stage) -> None:
    (scripted.work / "secret.txt").write_text("one\n")
    (scripted.work / "inside").mkdir()
    async with local_daemon(scripted) as anywhere:
        thread = await anywhere.thread("t")
        asked = await anywhere.post(f"/api/threads/{thread['id']}/runs", {"prompt": "hello"}, 202)
        await anywhere.ended(asked["id"])
        turn = (await anywhere.turns("t"))[0]["id"]
    async with local_daemon(scripted, roots=[scripted.work / "inside"]) as daemon:
        for path, what in ((f"threads/{thread['id']}/turns/{turn}", "text"), (f"runs/{asked['id']}", "prompt")):
            answer = await daemon.http.patch(f"/api/{path}", json={what: "see @secret.txt", "expand": True})
            assert (answer.status_code, "1\tone" in answer.text) == (403, False)
