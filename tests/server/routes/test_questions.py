"""Questions of agents over HTTP: asked, answered, resumed; and a question that outlives the daemon."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from clew.testing.stage import Stage
from server.daemons import ServeProcess

FORM = (
    '!tool AskUserQuestion {"questions": [{"question": "Which database?", "header": "DB", "multiSelect": false,'
    ' "options": [{"label": "Postgres", "description": "a"}, {"label": "SQLite", "description": "b"}]}]}'
)
TOUCH = '!tool Bash {"command": "touch made"}'


async def asked(daemon: ServeProcess, thread: str, prompt: str) -> tuple[str, Any]:
    """A run that waits for an answer, and its question."""
    run = await daemon.post(f"/api/threads/{thread}/runs", {"prompt": prompt})
    await daemon.until(run["id"], "question_asked")
    view = await daemon.get(f"/api/threads/{thread}/view")
    [question] = view["questions"]
    assert view["thread"]["live"] == {"run_id": run["id"], "status": "waiting"}
    assert view["thread"]["questions"] == 1
    waiting = await daemon.get(f"/api/runs/{run['id']}")
    assert (waiting["status"], waiting["question"]) == ("waiting", question)
    assert (question["state"], question["live"], question["run_id"]) == ("open", True, run["id"])
    return run["id"], question


@pytest.mark.rest
async def test_a_form_is_answered_and_the_run_continues_in_its_session(
    stage: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(stage)
    await daemon.thread("t")
    first = await daemon.ask("t", "first question")
    run_id, question = await asked(daemon, "t", FORM)
    assert question["is_form"]
    assert question["tool"] == "AskUserQuestion"
    assert question["input"]["questions"][0]["question"] == "Which database?"
    given = {"question_id": question["id"], "allow": True, "answers": {"Which database?": "Postgres"}}
    answered = await daemon.post(f"/api/runs/{run_id}/tool-result", given)
    assert (answered["id"], answered["state"], answered["allowed"]) == (question["id"], "answered", True)
    assert answered["follow_up_run_id"] is None
    run = await daemon.ended(run_id)
    assert (run["status"], run["session_resumed"], run["question"]) == ("answered", True, None)
    assert stage.launches[-1].resumes == first["session_id"]
    assert "Postgres" in (await daemon.turns("t"))[-1]["text"], "the model was told"
    again = await daemon.http.post(f"/api/runs/{run_id}/tool-result", json=given)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    after = await daemon.ask("t", "last question")
    assert after["session_resumed"]


@pytest.mark.parametrize("allow", [True, False])
async def test_a_permission_is_given_or_declined(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], allow: bool
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t", permissions="ask")
    run_id, question = await asked(daemon, "t", TOUCH)
    assert not question["is_form"]
    assert question["input"] == {"command": "touch made"}
    given = {"question_id": question["id"], "allow": allow, "message": "Leave it."}
    await daemon.post(f"/api/runs/{run_id}/tool-result", given)
    assert (await daemon.ended(run_id))["status"] == "answered"
    assert (scripted.work / "made").exists() is allow
    if not allow:
        assert "Leave it." in (await daemon.turns("t"))[-1]["text"]


async def test_answers_to_unknown_questions_are_not_found_and_incomplete_ones_refused(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    run = await daemon.ask("t", "hello")
    for path, body, status in (
        (f"/api/runs/{run['id']}/tool-result", {"question_id": "none", "allow": True}, 404),
        ("/api/runs/none/tool-result", {"question_id": "none", "allow": True}, 404),
        (f"/api/runs/{run['id']}/tool-result", {"allow": True}, 422),
        (f"/api/runs/{run['id']}/tool-result", {"question_id": "q", "allow": "yes"}, 422),
        (f"/api/runs/{run['id']}/tool-result", {"question_id": "q", "allow": True, "answers": {"q": 1}}, 422),
    ):
        assert (await daemon.http.post(path, json=body)).status_code == status


async def test_the_choices_come_with_the_question_and_a_scope_goes_with_the_answer(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t", permissions="ask")
    run_id, question = await asked(daemon, "t", TOUCH)
    assert [choice["name"] for choice in question["choices"]] == ["once", "run", "thread", "no", "no-and-why"]
    assert question["choices"][2]["label"] == "always in this thread: Bash(touch made)"
    assert question["rule"]["words"] == "Bash(touch made)"
    given = {"question_id": question["id"], "allow": True, "scope": "thread"}
    for wrong, status in (({"scope": "ever"}, 422), ({"allow": False}, 422)):
        answer = await daemon.http.post(f"/api/runs/{run_id}/tool-result", json=given | wrong)
        assert answer.status_code == status
    await daemon.post(f"/api/runs/{run_id}/tool-result", given)
    await daemon.ended(run_id)
    again = await daemon.ask("t", TOUCH)
    steps = await daemon.get(f"/api/runs/{again['id']}/steps")
    [answered] = [step["body"] for step in steps["items"] if step["kind"] == "question_answered"]
    assert (answered["allowed"], answered["by"]) == (True, "thread rule")
    assert [rule["words"] for rule in (await daemon.get("/api/threads/t"))["allowed"]] == ["Bash(touch made)"]
    assert (await daemon.patch("/api/threads/t", {"forget_allowed": True}))["allowed"] == []


async def test_the_edits_of_a_question_are_a_diff_and_nothing_outside_the_roots_is_read(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    (scripted.work / "a.txt").write_text("old\n")
    daemon = start_daemon(scripted)
    await daemon.thread("t", permissions="ask")
    write = f"!tool Write {json.dumps({'file_path': str(scripted.work / 'a.txt'), 'content': 'new'})}"
    run_id, question = await asked(daemon, "t", write)
    path = f"/api/runs/{run_id}/questions/{question['id']}/edits"
    [edit] = (await daemon.get(path))["items"]
    assert edit["lines"] == ["@@ -1,1 +1,1 @@", "-old", "+new"]
    assert (await daemon.http.get(path.replace(question["id"], "none"))).status_code == 404
    await daemon.post(f"/api/runs/{run_id}/cancel")
    daemon.stop()
    (scripted.folder / "root").mkdir()
    narrow = start_daemon(scripted, "--root", str(scripted.folder / "root"))
    assert (await narrow.http.get(path)).status_code == 403


async def test_a_stopped_run_withdraws_its_question(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    run_id, question = await asked(daemon, "t", TOUCH)
    await daemon.post(f"/api/runs/{run_id}/cancel")
    assert (await daemon.ended(run_id))["status"] == "cancelled"
    assert (await daemon.get("/api/threads/t/view"))["questions"] == []
    late = await daemon.http.post(
        f"/api/runs/{run_id}/tool-result", json={"question_id": question["id"], "allow": True}
    )
    assert late.status_code == 409


@pytest.mark.rest
async def test_a_question_outlives_the_daemon_and_its_answer_reaches_the_resumed_session(
    stage: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(stage)
    await daemon.thread("t")
    first = await daemon.ask("t", "first question")
    run_id, question = await asked(daemon, "t", FORM)
    daemon.kill()
    daemon.restart()
    view = await daemon.get("/api/threads/t/view")
    [shown] = view["questions"]
    assert shown == {**question, "live": False}
    dead = await daemon.get(f"/api/runs/{run_id}")
    assert dead["status"] == "interrupted"
    given = {"question_id": question["id"], "allow": True, "answers": {"Which database?": "Postgres"}}
    answered = await daemon.post(f"/api/runs/{run_id}/tool-result", given)
    assert (answered["state"], answered["allowed"], answered["live"]) == ("answered", True, False)
    follow_up = await daemon.ended(answered["follow_up_run_id"])
    assert follow_up["status"] == "answered"
    assert follow_up["session_resumed"], json.dumps(follow_up)
    assert stage.launches[-1].resumes == first["session_id"]
    assert "Which database?: Postgres" in stage.prompt
    after = await daemon.get("/api/threads/t/view")
    assert after["questions"] == []
    assert (await daemon.http.post(f"/api/runs/{run_id}/tool-result", json=given)).status_code == 409


@pytest.mark.rest
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_prompts_that_are_queued_after_a_question_stay_queued_over_a_restart(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], how: signal.Signals
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    run_id, question = await asked(daemon, "t", FORM)
    queued = await daemon.post("/api/threads/t/runs", {"prompt": "second"})
    daemon.process.send_signal(how)
    daemon.process.wait(60)
    daemon.restart()
    view = await daemon.get("/api/threads/t/view")
    assert view["questions"] == [{**question, "live": False}]
    assert view["thread"]["live"] == {"run_id": queued["id"], "status": "queued"}
    given = {"question_id": question["id"], "allow": True, "answers": {"Which database?": "Postgres"}}
    follow_up = (await daemon.post(f"/api/runs/{run_id}/tool-result", given))["follow_up_run_id"]
    ended = [await daemon.ended(each) for each in (follow_up, queued["id"])]
    assert [run["status"] for run in ended] == ["answered"] * 2
    assert ended[0]["ended_at"] <= ended[1]["started_at"]


@pytest.mark.rest
async def test_the_command_line_and_the_page_see_the_same_question(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    """Another process on the same store answers the question of the daemon's run."""
    from clew.core.runs.permissions import Answer

    daemon = start_daemon(scripted)
    await daemon.thread("t")
    run_id, question = await asked(daemon, "t", TOUCH)
    async with scripted.open() as other:
        await other.answer(run_id, question["id"], Answer(allow=True))
    assert (await daemon.ended(run_id))["status"] == "answered"
    assert (scripted.work / "made").exists()
