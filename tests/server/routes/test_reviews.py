"""Reviews over HTTP: the calls, the rounds, a round whose daemon ends, the roots."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.store import open_store
from clew.testing.model.scripts import Hang, Reply, Request
from clew.testing.stage import MODEL, Stage
from reviews import old_sessions
from reviews.reviewer import Reviewer, answer, finding, git, repository
from reviews.sarif_schema import check_sarif
from server.daemons import LocalDaemon, ServeProcess, local_daemon
from server.live.test_websocket import page_of


@pytest.fixture
def repo(scripted: Stage) -> Path:
    """A repository with a change."""
    made = repository(scripted.work / "repo")
    (made / "a.py").write_text("def a():\n    return 3\n")
    return made


def hanging(request: Request) -> Reply | None:
    return Hang("text", "I have begun") if request.is_main else None


async def started(daemon: LocalDaemon, repo: Path, **more: Any) -> Any:
    return await daemon.post("/api/reviews", {"cwd": str(repo), "model": MODEL, **more})


async def over(daemon: LocalDaemon, begun: Any) -> Any:
    """The round after it has ended, which is a moment after the end of its last run."""
    address = f"/api/reviews/{begun['id']}/rounds/{begun['round']}"
    async with asyncio.timeout(60):
        while (round_ := await daemon.get(address))["status"] == "running":
            await daemon.ended(round_["run_id"])
    return round_


async def reviewed(daemon: LocalDaemon, repo: Path, **more: Any) -> Any:
    return await over(daemon, await started(daemon, repo, **more))


async def test_a_round_continues_after_its_request_and_the_next_one_resumes(daemon: LocalDaemon, repo: Path) -> None:
    reviewer = Reviewer(answer([finding()]), answer(earlier=[{"id": "F1", "state": "fixed", "note": "It is."}]))
    daemon.stage.api.reply = reviewer
    response = await daemon.http.post("/api/reviews", json={"cwd": str(repo / ""), "model": MODEL, "focus": "numbers"})
    begun = response.json()
    assert (response.status_code, begun["status"], begun["round"]) == (202, "running", 1)
    assert response.headers["location"] == f"/api/reviews/{begun['id']}/rounds/1"
    first = await over(daemon, begun)
    assert (first["status"], first["session_resumed"], first["reason"]) == ("done", False, "first_turn")
    assert [each["id"] for each in first["findings"]] == ["F1"]
    assert [each["path"] for each in first["files"]] == ["a.py"]

    (repo / "a.py").write_text("def a():\n    return 2\n")
    unknown = {"message": "/nosuch", "expand": True}
    refused = await daemon.http.post(f"/api/reviews/{first['id']}/rounds", json=unknown)
    assert refused.status_code == 422 and "There is no command /nosuch" in refused.text
    response = await daemon.http.post(f"/api/reviews/{first['id']}/rounds", json={"message": "Mended."})
    assert response.headers["location"] == f"/api/reviews/{first['id']}/rounds/2"
    second = await over(daemon, response.json())
    assert (second["status"], second["session_resumed"], second["reason"]) == ("done", True, None)
    assert second["earlier"] == [{"id": "F1", "state": "fixed", "note": "It is."}]
    assert "Mended." in reviewer.asked[1]

    review = await daemon.get(f"/api/reviews/{first['id']}")
    assert (review["status"], review["round"], review["open"]) == ("done", 2, 0)
    assert (review["cwd"], review["focus"]) == (str(repo), "numbers")
    assert review["rounds"] == [first, second]
    assert review["findings"][0]["state"] == "fixed"
    assert list(review["sessions"]) == [MODEL]


async def test_the_next_round_by_the_id_of_the_review_before(daemon: LocalDaemon, repo: Path) -> None:
    daemon.stage.api.reply = Reviewer()
    first = await reviewed(daemon, repo, base="main", paths=["a.py"])
    (repo / "a.py").write_text("def a():\n    return 4\n")
    second = await over(
        daemon, await daemon.post("/api/reviews", {"previous_review_id": first["id"], "message": "So?"})
    )
    assert (second["id"], second["round"], second["session_resumed"]) == (first["id"], 2, True)
    same = {"cwd": str(repo), "base": "main", "paths": ["a.py"], "scope": "all", "focus": ""}
    third = await daemon.post("/api/reviews", {"previous_review_id": first["id"], "message": "Sure?", **same})
    assert (await over(daemon, third))["round"] == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("cwd", "elsewhere"), ("paths", ["b.py"]), ("base", "HEAD"), ("scope", "staged"), ("focus", "something else")],
)
async def test_the_next_round_cannot_change_what_is_reviewed(
    daemon: LocalDaemon, repo: Path, name: str, value: Any
) -> None:
    daemon.stage.api.reply = Reviewer()
    first = await reviewed(daemon, repo)
    if name == "cwd":
        value = str(repository(repo.with_name(value)))
    body = {"previous_review_id": first["id"], "message": "x", name: value}
    response = await daemon.http.post("/api/reviews", json=body)
    assert response.status_code == 422
    assert response.json()["detail"] == f"Review {first['id']} has another {name}."
    assert (await daemon.get(f"/api/reviews/{first['id']}"))["round"] == 1


async def test_the_diff_of_a_round_and_the_whole_review_are_exported(daemon: LocalDaemon, repo: Path) -> None:
    (repo / "é.py").write_bytes(b"caf\xe9 = 1\n")
    daemon.stage.api.reply = Reviewer(answer([finding("Wrong", detail="# Not a heading")]))
    first = await reviewed(daemon, repo)

    diff = await daemon.http.get(f"/api/reviews/{first['id']}/rounds/1/diff")
    assert (diff.status_code, diff.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert "+    return 3" in diff.text and "+++ b/é.py" in diff.text
    written = await daemon.http.get(f"/api/reviews/{first['id']}/export")
    assert written.headers["content-type"] == "text/markdown; charset=utf-8"
    assert written.text.startswith(f"# Review {first['id']}\n") and "### F1 high: Wrong" in written.text
    assert (await daemon.http.get(f"/api/reviews/{first['id']}/export?format=md")).text == written.text
    as_json = await daemon.get(f"/api/reviews/{first['id']}/export?format=json")
    assert as_json == await daemon.get(f"/api/reviews/{first['id']}")
    sarif = await daemon.http.get(f"/api/reviews/{first['id']}/export?format=sarif")
    assert (sarif.status_code, sarif.headers["content-type"]) == (200, "application/sarif+json")
    assert check_sarif(sarif.json())["results"][0]["properties"]["finding"] == "F1"
    assert (await daemon.http.get(f"/api/reviews/{first['id']}/export?format=pdf")).status_code == 422


async def test_an_export_contains_secrets_only_on_request(daemon: LocalDaemon, repo: Path) -> None:
    """As on the command line. What the page shows of a review is not redacted, because it stays on this machine."""
    key = "ghp_" + "x1Y2z3" * 6
    daemon.stage.api.reply = Reviewer(answer([finding(detail=f"The token {key} is in the code.")]))
    address = f"/api/reviews/{(await reviewed(daemon, repo))['id']}"
    for form in ("md", "json", "sarif"):
        text = (await daemon.http.get(f"{address}/export?format={form}")).text
        assert key not in text and "[redacted: GitHub token] is in the code" in text.replace("\\", "")
        assert key in (await daemon.http.get(f"{address}/export?format={form}&with_secrets=true")).text
    assert key in (await daemon.http.get(address)).text


async def test_reviews_are_listed_by_pages_the_newest_first(daemon: LocalDaemon, repo: Path) -> None:
    daemon.stage.api.reply = Reviewer(answer([finding(), finding("Another")]))
    other = repository(repo.with_name("other"))
    (other / "a.py").write_text("a = 1\n")
    made = [await reviewed(daemon, repo), await reviewed(daemon, other), await reviewed(daemon, repo)]
    ids = [each["id"] for each in reversed(made)]
    assert [id_.rpartition("-")[2] for id_ in ids] == ["003", "002", "001"]

    page = await daemon.get("/api/reviews")
    assert [each["id"] for each in page["items"]] == ids
    assert (page["total"], page["items"][2]["open"], page["items"][2]["status"]) == (3, 2, "done")
    assert page["version"] == (await daemon.get("/api/threads"))["version"]
    part = await daemon.get("/api/reviews?limit=1&offset=1")
    assert ([each["id"] for each in part["items"]], part["total"]) == (ids[1:2], 3)
    of_repo = await daemon.get("/api/reviews", params={"cwd": str(repo)})
    assert ([each["id"] for each in of_repo["items"]], of_repo["total"]) == ([ids[0], ids[2]], 2)
    for odd in ("/nowhere-at-all", "\0", "relative", "/" + "x" * 4000):
        assert (await daemon.get("/api/reviews", params={"cwd": odd}))["items"] == []

    assert (await daemon.get("/api/threads"))["items"] == [], "they are no chats"
    threads = await daemon.get("/api/threads?kind=review")
    assert [each["name"] for each in threads["items"]] == [f"review-{id_}" for id_ in ids]


async def test_one_round_at_a_time(daemon: LocalDaemon, repo: Path) -> None:
    daemon.stage.api.reply = hanging
    begun = await started(daemon, repo)
    await asyncio.to_thread(daemon.stage.api.wait_for_hanging, 1)
    for path, body in (
        (f"/api/reviews/{begun['id']}/rounds", {}),
        ("/api/reviews", {"previous_review_id": begun["id"]}),
    ):
        refused = await daemon.http.post(path, json={**body, "message": "And?"})
        assert (refused.status_code, refused.json()["code"]) == (409, "busy")
        assert refused.json()["run_id"] == begun["run_id"]

    await daemon.post(f"/api/runs/{begun['run_id']}/cancel")
    stopped = await over(daemon, begun)
    assert (stopped["status"], stopped["error"]["code"]) == ("failed", "cancelled")
    daemon.stage.api.reply = Reviewer(answer([finding()]))
    again = await over(daemon, await daemon.post(f"/api/reviews/{begun['id']}/rounds", {"message": "Go on."}))
    assert (again["round"], again["status"]) == (2, "done")


async def test_an_answer_of_the_wrong_form_fails_the_round_with_a_hint_for_the_page(
    daemon: LocalDaemon, repo: Path
) -> None:
    daemon.stage.api.reply = Reviewer("It looks good.", "It does.")
    failed = await reviewed(daemon, repo)
    assert (failed["status"], failed["runs"], failed["error"]["code"]) == ("failed", 2, "failed")
    assert failed["findings"] == [] and failed["summary"] is None
    assert "clew " not in failed["error"]["hint"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"paths": "a.py"}, "paths"),
        ({"paths": [""]}, "paths.0"),
        ({"paths": ["a\0b"]}, "paths.0"),
        ({"paths": ["x" * 4000] * 500}, "paths"),
        ({"scope": "everything"}, "scope"),
        ({"base": "a\nb"}, "base"),
        ({"base": ""}, "base"),
        ({"resume": "no"}, "resume"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"message": "x" * 100_001}, "message"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_an_invalid_value_is_refused_with_its_place(
    daemon: LocalDaemon, repo: Path, body: dict[str, Any], where: str
) -> None:
    response = await daemon.http.post("/api/reviews", json={"cwd": str(repo), **body})
    assert response.status_code == 422
    assert where in [fault["where"] for fault in response.json()["errors"]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"cwd": None}, "cwd is missing."),
        ({"cwd": "/nowhere-at-all"}, "is not a directory"),
        ({"cwd": "/"}, "is not in a git work tree"),
        ({"message": "hello"}, "The first round of a review has no message."),
        ({"base": "nowhere"}, "'nowhere' is not a commit"),
        ({"base": "--output=/tmp/x"}, "is not a commit"),
        ({"paths": ["../.."]}, "is not in the repository"),
        ({"paths": ["b.py"]}, "There is nothing to review"),
        ({"paths": [":(exclude)a.py"]}, "There is no :(exclude)a.py"),
        ({"scope": "staged"}, "There is nothing to review"),
        ({"agent": "nobody"}, "nobody"),
    ],
)
async def test_an_impossible_request_is_refused_with_a_sentence(
    daemon: LocalDaemon, repo: Path, body: dict[str, Any], words: str
) -> None:
    response = await daemon.http.post("/api/reviews", json={"cwd": str(repo), **body})
    assert response.status_code == 422
    assert words in response.json()["detail"]
    assert (await daemon.get("/api/reviews"))["total"] == 0
    assert (await daemon.get("/api/threads?kind=all"))["total"] == 0


@pytest.mark.parametrize(
    "body",
    [
        *({"base": odd} for odd in ("@{u}", "HEAD~99999999999", "a..b", ":/x", "^HEAD", "HEAD:a.py", "é", "x" * 500)),
        *({"paths": [odd]} for odd in ("-x", "--", "x" * 300, "a/" * 1000, "\x1b[31m", "a.py/x", "\n", "é", ".git/x")),
    ],
    ids=str,
)
async def test_an_odd_base_or_path_finds_nothing_and_breaks_nothing(
    daemon: LocalDaemon, repo: Path, body: dict[str, Any]
) -> None:
    response = await daemon.http.post("/api/reviews", json={"cwd": str(repo), **body})
    assert response.status_code == 422
    assert (await daemon.get("/api/reviews"))["total"] == 0


async def test_a_follow_up_with_nothing_to_say_is_refused(daemon: LocalDaemon, repo: Path) -> None:
    daemon.stage.api.reply = Reviewer()
    first = await reviewed(daemon, repo)
    refused = await daemon.http.post(f"/api/reviews/{first['id']}/rounds")
    assert refused.status_code == 422
    assert "Nothing has changed since round 1" in refused.json()["detail"]


@pytest.mark.parametrize("review_id", ["2026-01-01-001", "nonsense", "%00", "x" * 200])
async def test_an_unknown_review_is_not_found(daemon: LocalDaemon, review_id: str) -> None:
    for path in ("", "/rounds/1", "/rounds/1/diff", "/export", "/export?format=json"):
        response = await daemon.http.get(f"/api/reviews/{review_id}{path}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
    response = await daemon.http.post(f"/api/reviews/{review_id}/rounds", json={"message": "x"})
    assert response.status_code == 404
    if "%" not in review_id:
        response = await daemon.http.post("/api/reviews", json={"previous_review_id": review_id})
        assert response.status_code == 404


async def test_an_unknown_round_is_not_found(daemon: LocalDaemon, repo: Path) -> None:
    daemon.stage.api.reply = Reviewer()
    first = await reviewed(daemon, repo)
    for path, status in (("2", 404), ("2/diff", 404), ("0", 422), ("x", 422), ("99999999999999999999", 422)):
        assert (await daemon.http.get(f"/api/reviews/{first['id']}/rounds/{path}")).status_code == status


async def test_reviews_stay_below_the_roots(scripted: Stage, repo: Path) -> None:
    scripted.api.reply = Reviewer()
    (repo / "inside").mkdir()
    allowed = repository(scripted.work / "allowed")
    (allowed / "a.py").write_text("a = 1\n")
    (allowed / "link").symlink_to(repo)
    async with local_daemon(scripted) as anywhere:
        outside = await reviewed(anywhere, repo)
    (repo / "a.py").write_text("a = 5\n")
    async with local_daemon(scripted, roots=[allowed, repo / "inside"]) as daemon:
        for cwd in (repo, allowed / "link", repo / "inside"):  # the last is inside, but its work tree is outside
            refused = await daemon.http.post("/api/reviews", json={"cwd": str(cwd)})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), cwd
        for path, body in (
            (f"/api/reviews/{outside['id']}/rounds", {}),
            ("/api/reviews", {"previous_review_id": outside["id"]}),
        ):
            assert (await daemon.http.post(path, json=body)).status_code == 403
        assert (await reviewed(daemon, allowed))["status"] == "done"
    assert len(scripted.launches) == 2, "nothing was started outside"


async def test_a_page_is_notified_when_a_round_ends(
    scripted: Stage, repo: Path, start_daemon: Callable[..., ServeProcess]
) -> None:
    scripted.api.reply = Reviewer(answer([finding()]))
    daemon = start_daemon(scripted)
    async with page_of(daemon) as page:
        begun = await started(daemon, repo)
        status = "running"
        while status == "running":
            changed = await page.next("changed")
            assert {thread["kind"] for thread in changed["threads"]} == {"review"}
            status = (await daemon.get(f"/api/reviews/{begun['id']}/rounds/1"))["status"]
        assert status == "done"


@pytest.mark.rest
async def test_a_daemon_that_ends_stops_the_round_which_says_so(
    scripted: Stage, repo: Path, start_daemon: Callable[..., ServeProcess]
) -> None:
    scripted.api.reply = hanging
    daemon = start_daemon(scripted)
    begun = await started(daemon, repo)
    await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
    assert daemon.stop() == 0
    with open_store(scripted.clew_home / "clew.db") as store:
        assert [each.status.value for each in store.reviews.rounds(begun["id"])] == ["failed"], (
            "the daemon itself wrote it"
        )

    daemon.restart()
    await daemon.load_contract()
    stopped = await daemon.get(f"/api/reviews/{begun['id']}/rounds/1")
    assert (stopped["status"], stopped["error"]["code"]) == ("failed", "cancelled")
    assert stopped["ended_at"] is not None
    assert (await daemon.get(f"/api/runs/{begun['run_id']}"))["status"] == "cancelled"
    scripted.api.reply = Reviewer(answer([finding()]))
    again = await over(daemon, await daemon.post(f"/api/reviews/{begun['id']}/rounds", {"message": "Once more."}))
    assert (again["round"], again["status"], len(again["findings"])) == (2, "done", 1)


@pytest.mark.rest
async def test_a_round_of_a_killed_daemon_is_ended_by_the_next_request(
    scripted: Stage, repo: Path, start_daemon: Callable[..., ServeProcess]
) -> None:
    scripted.api.reply = hanging
    daemon = start_daemon(scripted)
    begun = await started(daemon, repo)
    await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
    daemon.kill()

    daemon.restart()
    await daemon.load_contract()
    [listed] = (await daemon.get("/api/reviews"))["items"]
    assert listed["status"] == "failed"
    cut_off = await daemon.get(f"/api/reviews/{begun['id']}/rounds/1")
    assert (cut_off["status"], cut_off["error"]["code"]) == ("failed", "failed")
    scripted.api.reply = Reviewer(answer([finding()]))
    again = await over(daemon, await daemon.post(f"/api/reviews/{begun['id']}/rounds", {}))
    assert (again["round"], again["status"], len(again["findings"])) == (2, "done", 1)


async def test_file_names_that_are_not_text_are_escaped_in_json(daemon: LocalDaemon, repo: Path) -> None:
    Path(os.fsdecode(bytes(repo) + b"/odd-\xff\n.py")).write_text("odd = 1\n")
    git(repo, "add", "-A")
    daemon.stage.api.reply = Reviewer(answer([finding(file="odd-\udcff.py")]).replace("\udcff", "\\udcff"))
    first = await reviewed(daemon, repo)
    assert len(first["files"]) == 2
    json.dumps(first).encode()
    for path in ("/rounds/1/diff", "/export"):
        assert (await daemon.http.get(f"/api/reviews/{first['id']}{path}")).status_code == 200


async def test_a_review_of_another_tool_is_imported_whole_or_not_at_all(daemon: LocalDaemon, repo: Path) -> None:
    files = {name: content.decode() for name, content in old_sessions.session_files().items()}
    body = {"cwd": str(repo), "files": files}
    made = await daemon.post("/api/imports/reviews", body, 201)
    shown = await daemon.get(f"/api/reviews/{made['id']}")
    assert (shown["id"], len(shown["rounds"]), len(shown["findings"])) == (
        old_sessions.ID,
        made["rounds"],
        made["findings"],
    )
    assert (await daemon.http.post("/api/imports/reviews", json=body)).status_code == 409
    for wrong in ({"x.json": "{}"}, {"x.json": "not JSON"}, {}):
        assert (await daemon.http.post("/api/imports/reviews", json={**body, "files": wrong})).status_code == 422
    assert (await daemon.get("/api/reviews"))["total"] == 1
    refused = await daemon.http.post("/api/imports/reviews", json=body, headers={"Authorization": ""})
    assert refused.status_code == 401
