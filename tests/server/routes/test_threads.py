"""Threads over HTTP: created, found, changed, shown, deleted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.core.explanation import Explanation
from clew.testing.stage import MODEL, Stage
from server.daemons import LocalDaemon


async def test_a_new_thread_is_answered_with_its_address(daemon: LocalDaemon, scripted: Stage) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await daemon.http.post(
        "/api/threads",
        json={
            "name": "fix-login",
            "cwd": str(scripted.work),
            "model": MODEL,
            "permissions": "edits",
            "visibility": "own",
            "instructions": "Be brief.",
        },
    )
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"/api/threads/{made['id']}"
    assert made["name"] == "fix-login"
    assert made["cwd"] == str(scripted.work.resolve())
    assert (made["agent"], made["model"]) == ("claude", MODEL)
    assert (made["permissions"], made["trust"], made["visibility"]) == ("edits", "user", "own")
    assert made["instructions"] == "Be brief."
    assert (made["turns"], made["cost_usd"], made["live"], made["questions"], made["last_text"]) == (0, 0, None, 0, "")
    assert datetime.fromisoformat(made["created_at"]) >= before
    assert made["created_at"].endswith("Z")
    assert await daemon.get(f"/api/threads/{made['id']}") == made
    assert await daemon.get("/api/threads/fix-login") == made


async def test_without_a_name_it_is_named_after_the_prompt(daemon: LocalDaemon, scripted: Stage) -> None:
    body = {"cwd": str(scripted.work), "prompt": "Why does the login fail?"}
    first = await daemon.post("/api/threads", body, 201)
    second = await daemon.post("/api/threads", body, 201)
    assert (first["name"], second["name"]) == ("why-does-the-login", "why-does-the-login-2")
    assert first["turns"] == 0, "the prompt is not asked"


async def test_a_name_that_is_taken_is_a_conflict(daemon: LocalDaemon) -> None:
    first = await daemon.thread("t")
    answer = await daemon.http.post("/api/threads", json={"name": "t", "cwd": first["cwd"]})
    assert answer.status_code == 409
    assert (await daemon.get("/api/threads"))["total"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cwd": "relative"},
        {"cwd": "/no/such/place"},
        {"cwd": "/", "name": "no spaces"},
        {"cwd": "/", "name": ""},
        {"cwd": "/", "agent": "nobody"},
        {"cwd": "/", "permissions": "yolo"},
        {"cwd": "/", "visibility": 1},
        {"cwd": "/", "unknown": True},
        {"cwd": "/", "instructions": "half a character: \ud800"},
        {"cwd": ["/"]},
        [],
        "x",
        None,
    ],
)
async def test_an_invalid_thread_is_refused(daemon: LocalDaemon, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await daemon.http.post("/api/threads", content=json.dumps(body), headers=headers)
    assert answer.status_code == 422
    assert answer.json()["code"] == "usage"
    assert (await daemon.get("/api/threads"))["total"] == 0


async def test_a_validation_error_names_each_place_and_no_value(daemon: LocalDaemon) -> None:
    answer = await daemon.http.post("/api/threads", json={"cwd": 7, "permissions": "secret-value"})
    problem = answer.json()
    assert {fault["where"] for fault in problem["errors"]} == {"cwd", "permissions"}
    assert "secret-value" not in answer.text


async def test_threads_are_listed_searched_and_paged(daemon: LocalDaemon, scripted: Stage, tmp_path: Path) -> None:
    other = tmp_path / "another-place"
    other.mkdir()
    for name in ("alpha", "beta", "gamma"):
        await daemon.thread(name)
    await daemon.thread("delta", cwd=str(other))
    await daemon.ask("beta", "a word about Zebras")
    found = await daemon.get("/api/threads")
    assert found["total"] == 4
    assert found["items"][0]["name"] == "beta", "the last used first"
    assert found["items"][0]["last_text"] == "ack: a word about Zebras"
    assert found["items"][0]["cost_usd"] > 0

    async def names(**query: object) -> list[str]:
        return [item["name"] for item in (await daemon.get("/api/threads", params=query))["items"]]

    assert await names(q="zebra") == ["beta"]
    assert await names(q="ANOTHER-pl") == ["delta"]
    assert await names(q="amm") == ["gamma"]
    assert await names(q="100%") == []
    assert await names(cwd=str(other)) == ["delta"]
    assert len(await names(limit=3)) == 3
    assert len(await names(limit=3, offset=3)) == 1
    for query in ({"limit": 0}, {"limit": 10_000}, {"offset": -1}, {"limit": "x"}):
        assert (await daemon.http.get("/api/threads", params=query)).status_code == 422


async def test_a_thread_is_changed(daemon: LocalDaemon, scripted: Stage) -> None:
    made = await daemon.thread("t")
    elsewhere = scripted.folder / "elsewhere"
    elsewhere.mkdir()
    changed = await daemon.patch(
        "/api/threads/t",
        {
            "name": "u",
            "cwd": str(elsewhere),
            "model": "claude-opus-4-1",
            "permissions": "read-only",
            "trust": "project",
            "visibility": "own",
            "instructions": "Be kind.",
        },
    )
    assert changed["id"] == made["id"]
    assert (changed["name"], changed["cwd"], changed["model"]) == ("u", str(elsewhere.resolve()), "claude-opus-4-1")
    assert (changed["permissions"], changed["trust"], changed["visibility"]) == ("read-only", "project", "own")
    assert changed["instructions"] == "Be kind."
    assert changed["version"] > made["version"]
    assert (await daemon.patch("/api/threads/u", {"instructions": ""}))["instructions"] is None
    assert await daemon.patch("/api/threads/u", {}) == await daemon.get("/api/threads/u")


async def test_a_change_to_a_taken_name_an_unknown_agent_or_nothing_is_refused(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    await daemon.thread("u")
    assert (await daemon.http.patch("/api/threads/t", json={"name": "u"})).status_code in (409, 422)
    assert (await daemon.http.patch("/api/threads/t", json={"agent": "nobody"})).status_code == 422
    missing = str(daemon.stage.folder / "missing")
    assert (await daemon.http.patch("/api/threads/t", json={"cwd": missing})).status_code == 422
    assert (await daemon.http.patch("/api/threads/none", json={"name": "x"})).status_code == 404


async def test_a_thread_is_deleted_into_an_archive(daemon: LocalDaemon) -> None:
    made = await daemon.thread("t")
    await daemon.ask("t", "hello")
    tried = (await daemon.http.delete("/api/threads/t", params={"dry_run": True})).json()
    assert tried == {"name": "t", "others": [], "turns": 2, "archived_turns": 0, "archive": None}
    gone = (await daemon.http.delete("/api/threads/t")).json()
    assert (gone["name"], gone["turns"]) == ("t", 2)
    assert "hello" in Path(gone["archive"]).read_text()
    assert (await daemon.http.get(f"/api/threads/{made['id']}")).status_code == 404
    assert (await daemon.http.delete("/api/threads/t")).status_code == 404


async def test_a_view_has_turns_with_their_runs(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    first = await daemon.ask("t", "first question")
    second = await daemon.ask("t", "second question")
    view = await daemon.get("/api/threads/t/view")
    assert [turn["text"] for turn in view["turns"]] == [
        "first question",
        "ack: first question",
        "second question",
        "ack: second question",
    ]
    assert [turn["role"] for turn in view["turns"]] == ["user", "assistant"] * 2
    asked, answered = view["turns"][2:]
    assert asked["run"] is None
    assert answered["run"]["id"] == answered["run_id"] == second["id"]
    assert (answered["run"]["session_resumed"], answered["run"]["reason"]) == (True, None)
    assert (view["turns"][1]["run"]["session_resumed"], view["turns"][1]["run"]["reason"]) == (False, "first_turn")
    assert answered["run"]["usage"] == second["usage"]
    assert first["answer_turn_id"] == view["turns"][1]["id"]
    assert (view["more"], view["runs"], view["questions"]) == (False, [], [])
    assert view["thread"] == await daemon.get("/api/threads/t")
    assert view["version"] >= view["thread"]["version"]


@pytest.mark.rest
async def test_a_long_view_comes_in_pages(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    for number in range(4):
        await daemon.ask("t", f"question {number}")
    last = await daemon.get("/api/threads/t/view", params={"limit": 3})
    assert [turn["text"] for turn in last["turns"]] == ["ack: question 2", "question 3", "ack: question 3"]
    assert last["more"]
    before = await daemon.get("/api/threads/t/view", params={"limit": 100, "before": last["turns"][0]["position"]})
    assert [turn["text"] for turn in before["turns"]][-1] == "question 2"
    assert len(before["turns"]) == 5
    assert not before["more"]


async def test_turns_are_edited_and_truncated(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "first question")
    await daemon.ask("t", "second question")
    first, _, second, _ = await daemon.turns("t")
    edited = await daemon.patch(f"/api/threads/t/turns/{first['id']}", {"text": "put better"})
    assert (edited["id"], edited["text"], edited["revision"]) == (first["id"], "put better", 1)
    assert len(await daemon.turns("t")) == 4
    assert await daemon.post("/api/threads/t/truncate", {"turn": second["id"]}, 200) == {"archived": 2}
    assert [turn["text"] for turn in await daemon.turns("t")] == ["put better", "ack: first question"]
    gone = await daemon.http.patch(f"/api/threads/t/turns/{second['id']}", json={"text": "x"})
    assert gone.status_code == 404
    assert (await daemon.http.post("/api/threads/t/truncate", json={"turn": second["id"]})).status_code == 404
    blank = await daemon.http.patch(f"/api/threads/t/turns/{first['id']}", json={"text": "  "})
    assert blank.status_code == 422


@pytest.mark.rest
async def test_a_thread_is_forked_at_a_turn_or_a_round(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    for number in (1, 2, 3):
        await daemon.ask("t", f"question {number}")
    made = await daemon.post("/api/threads/t/fork", {"turn": (await daemon.turns("t"))[2]["id"]}, 201)
    assert (made["name"], made["turns"], made["kind"], made["cost_usd"]) == ("t-fork", 4, "chat", 0)
    original = (await daemon.get("/api/threads/t"))["id"]
    assert made["origin"] == {"how": "fork", "of": [{"id": original, "name": "t"}], "round": 2}
    assert (await daemon.get(f"/api/threads/{made['id']}/session"))["resumes"]
    await daemon.ask("t-fork", "another question")
    assert [turn["text"] for turn in await daemon.turns("t-fork")][3:] == [
        "ack: question 2",
        "another question",
        "ack: another question",
    ]
    assert len(await daemon.turns("t")) == 6
    named = await daemon.post("/api/threads/t/fork", {"round": 1, "name": "other"}, 201)
    assert (named["name"], named["turns"]) == ("other", 2)
    for body, status in (
        ({"name": "other"}, 409),
        ({"round": 4}, 422),
        ({"round": 1, "turn": "x"}, 422),
        ({"turn": "none"}, 404),
        ({"round": 0}, 422),
    ):
        assert (await daemon.http.post("/api/threads/t/fork", json=body)).status_code == status, body
    assert (await daemon.http.post("/api/threads/none/fork", json={})).status_code == 404
    assert (await daemon.get("/api/threads"))["total"] == 3


async def test_the_preview_says_whether_the_next_turn_resumes(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    new = await daemon.get("/api/threads/t/session")
    assert (new["resumes"], new["reason"], new["after_change"]) == (False, "first_turn", None)
    await daemon.ask("t", "first question")
    held = await daemon.get("/api/threads/t/session")
    assert (held["resumes"], held["reason"]) == (True, None)
    first = (await daemon.turns("t"))[0]
    changed = await daemon.get("/api/threads/t/session", params={"turn": first["id"]})
    assert set(changed["after_change"]) == {"edit", "truncate", "retry"}
    assert all(changed["after_change"].values())
    await daemon.patch(f"/api/threads/t/turns/{first['id']}", {"text": "put better"})
    broken = await daemon.get("/api/threads/t/session")
    assert (broken["resumes"], broken["reason"]) == (False, "history_changed")
    assert broken["words"]
    assert (await daemon.http.get("/api/threads/t/session", params={"turn": "none"})).status_code == 404


async def test_the_preview_says_to_which_turn_a_change_rewinds_the_session(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    for prompt in ("first question", "second question"):
        await daemon.ask("t", prompt)
    second = (await daemon.turns("t"))[2]
    after = (await daemon.get("/api/threads/t/session", params={"turn": second["id"]}))["after_change"]
    assert "The session rewinds to turn 2: the next turn continues from there" in after["edit"]
    assert "The session rewinds to turn 2: the next turn continues from there." in after["truncate"]
    assert after["retry"].startswith("Asks this again. A copy of the session continues from turn 2. The 1 turn after ")
    await daemon.patch(f"/api/threads/t/turns/{second['id']}", {"text": "put better"})
    told = await daemon.get("/api/threads/t/session", params={"prompt": "third question"})
    assert (told["resumes"], told["reason"], told["rewound_to"]) == (True, "history_changed", 2)
    assert (told["copies"], told["turns_sent"]) == (True, 2)
    assert told["words"].startswith("Rewinds to turn 2: ")
    run = await daemon.ask("t", "third question")
    assert (run["session_resumed"], run["reason"], run["rewound_to"]) == (True, "history_changed", 2)
    assert daemon.stage.prompt == told["prompt"]
    stats = await daemon.get("/api/stats")
    assert (stats["resumed"], stats["rewound"], stats["fresh"]) == (2, 1, {"first_turn": 1})
    assert stats["by_turn"][-1]["rewound_to"] == 2


async def test_a_prompt_is_explained_and_then_sent_as_explained(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "first question")
    version = (await daemon.get("/api/threads"))["version"]
    short = await daemon.get("/api/threads/t/session", params={"prompt": "second question"})
    assert (short["prompt"], short["resumes"], short["waits_for"]) == ("second question", True, None)
    assert short["session_id"]
    assert short["expected"]["cost_usd"] < short["with_transcript"]["cost_usd"]
    without = await daemon.get("/api/threads/t/session")
    assert (without["prompt"], without["after_change"]) == (None, None)
    assert without["expected"]["new_tokens"] <= short["expected"]["new_tokens"]
    fresh = await daemon.get("/api/threads/t/session", params={"prompt": "second question", "fresh": "true"})
    assert (fresh["reason"], fresh["with_transcript"]) == ("forced_fresh", None)
    switched = await daemon.get("/api/threads/t/session", params={"prompt": "x", "model": "claude-opus-4-1"})
    assert (switched["reason"], switched["model"]) == ("no_pin", "claude-opus-4-1")

    body = {"prompt": "second question\n" * 10_000, "instructions": "Be brief.", "force_fresh_session": True}
    told = await daemon.post("/api/threads/t/explain", body, 200)
    assert (await daemon.get("/api/threads"))["version"] == version, "nothing was stored"
    assert len(scripted.launches) == 1, "nothing was run"
    assert set(told) == set(Explanation._fields) == set(short) - {"after_change"}
    await daemon.ask("t", **body)
    assert told["prompt"] == scripted.prompt


@pytest.mark.parametrize(
    ("query", "status"),
    [({"prompt": " "}, 422), ({"agent": "nobody"}, 422), ({"model": "-x"}, 422), ({"fresh": "perhaps"}, 422)],
)
async def test_a_prompt_that_cannot_be_asked_is_not_explained(
    daemon: LocalDaemon, query: dict[str, str], status: int
) -> None:
    await daemon.thread("t")
    answer = await daemon.http.get("/api/threads/t/session", params={"prompt": "one", **query})
    assert answer.status_code == status
    assert (await daemon.http.post("/api/threads/none/explain", json={"prompt": "one"})).status_code == 404
    assert (await daemon.http.post("/api/threads/t/explain", json={"prompt": " "})).status_code == 422
    assert (await daemon.http.post("/api/threads/t/explain", json={"prompt": "x", "other": 1})).status_code == 422


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 2_000, "a\0b", "\ud800"])
async def test_an_impossible_directory_is_refused(daemon: LocalDaemon, scripted: Stage, path: str) -> None:
    body = json.dumps({"cwd": f"{scripted.work}/{path}"})
    made = await daemon.http.post("/api/threads", content=body, headers={"Content-Type": "application/json"})
    assert (made.status_code, made.json()["code"]) == (422, "usage")
    if path.isascii():
        listed = await daemon.http.get("/api/dirs", params={"path": f"{scripted.work}/{path}"})
        assert listed.status_code in (404, 422)


@pytest.mark.parametrize("word", ["a\0b", "a\nb", "\x1b[31m", "\u202e", "\ud800"])
async def test_a_value_for_the_command_line_must_be_printable(daemon: LocalDaemon, word: str) -> None:
    thread = await daemon.thread("t")
    calls = [
        ("POST", "/api/threads", {"cwd": thread["cwd"], "model": word}),
        ("POST", "/api/threads", {"cwd": thread["cwd"], "agent": word}),
        ("POST", "/api/threads", {"cwd": thread["cwd"], "name": word}),
        ("PATCH", "/api/threads/t", {"model": word}),
        ("POST", "/api/threads/t/runs", {"prompt": "hello", "model": word}),
        ("POST", "/api/threads/t/runs", {"prompt": "hello", "agent": word}),
    ]
    for method, path, body in calls:
        headers = {"Content-Type": "application/json"}
        answer = await daemon.http.request(method, path, content=json.dumps(body), headers=headers)
        assert answer.status_code == 422, (method, path, body)
        assert word not in answer.text
