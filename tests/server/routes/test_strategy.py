"""The guards of the decision over HTTP, one by one, on the real Claude CLI and the real Codex: the chat design's rule,
which `rewind = false` and `follow_moves = false` give.

Every test of a guard asserts that there is no resume flag and that the transcript is present: a fallback must never
lose context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, Stage
from conftest import make_stage
from server.daemons import ServeProcess

pytestmark = pytest.mark.real

CHAT_DESIGN = {"CLEW_REWIND": "false", "CLEW_FOLLOW_MOVES": "false"}
FORM = (
    '!tool AskUserQuestion {"questions": [{"question": "Which database?", "header": "DB", "multiSelect": false,'
    ' "options": [{"label": "Postgres", "description": "a"}, {"label": "SQLite", "description": "b"}]}]}'
)


@pytest.fixture
def stage(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    """Both real agents."""
    with make_stage("real", tmp_path, api, codex=True) as stage:
        yield stage


@pytest.fixture
def daemon(stage: Stage, start_daemon: Callable[..., ServeProcess]) -> ServeProcess:
    return start_daemon(stage, CLEW_CODEX_MODEL=CODEX_MODEL, **CHAT_DESIGN)


async def two_turns(daemon: ServeProcess, **options: Any) -> Any:
    """Asks two turns and returns the run of the second."""
    await daemon.thread("t", **options)
    await daemon.ask("t", "first question")
    return await daemon.ask("t", "second question")


def assert_resumed(stage: Stage, run: Any, session_id: str, prompt: str) -> None:
    assert run["status"] == "answered"
    assert (run["session_resumed"], run["reason"], run["fallback"]) == (True, None, False)
    assert stage.launches[-1].resumes == session_id == run["session_id"]
    assert stage.prompt == prompt, "a resumed turn sends the delta alone"


def assert_fresh(stage: Stage, run: Any, reason: str, *transcript: str) -> None:
    assert run["status"] == "answered"
    assert (run["session_resumed"], run["reason"]) == (False, reason)
    assert stage.launches[-1].resumes is None
    for text in transcript:
        assert stage.prompt.splitlines().count(text) == 1, f"{text!r} is not in the transcript once"
    assert len([role for role, _ in stage.shown if role == "assistant"]) == 0, "a fresh session knows nothing else"


async def test_second_turn_resumes_with_the_prompt_alone(daemon: ServeProcess, stage: Stage) -> None:
    await daemon.thread("t")
    first = await daemon.ask("t", "first question")
    assert_fresh(stage, first, "first_turn")
    assert stage.prompt == "first question"
    second = await daemon.ask("t", "second question")
    assert_resumed(stage, second, first["session_id"], "second question")
    assert stage.shown == [
        ("user", "first question"),
        ("assistant", "ack: first question"),
        ("user", "second question"),
    ]
    assert second["prompt_chars"] == len("second question")
    assert second["usage"]["cache_read_input_tokens"] > 0


async def test_agent_switch_sends_the_transcript_and_going_back_resumes_with_a_catch_up(
    daemon: ServeProcess, stage: Stage
) -> None:
    claude = await two_turns(daemon)
    codex = await daemon.ask("t", "third question", agent="codex")
    assert_fresh(stage, codex, "no_pin", "first question", "ack: first question", "ack: second question")
    assert (codex["agent"], codex["model"]) == ("codex", CODEX_MODEL)
    assert stage.launches[-1].agent == "codex"
    back = await daemon.ask("t", "fourth question")
    assert back["session_resumed"]
    assert (stage.launches[-1].agent, stage.launches[-1].resumes) == ("claude", claude["session_id"])
    for text in ("third question", "ack: third question", "fourth question"):
        assert stage.prompt.splitlines().count(text) == 1
    assert "first question" not in stage.prompt, "what the session holds is not sent again"
    again = await daemon.ask("t", "fifth question", agent="codex")
    assert again["session_resumed"]
    assert (stage.launches[-1].agent, stage.launches[-1].resumes) == ("codex", codex["session_id"])


async def test_thread_that_changes_its_agent_sends_the_transcript(daemon: ServeProcess, stage: Stage) -> None:
    await two_turns(daemon)
    changed = await daemon.patch("/api/threads/t", {"agent": "codex"})
    assert (changed["agent"], changed["model"]) == ("codex", None)
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "no_pin", "first question", "second question")
    assert stage.launches[-1].agent == "codex"


async def test_forced_fresh_by_the_field(daemon: ServeProcess, stage: Stage) -> None:
    await two_turns(daemon)
    run = await daemon.ask("t", "third question", force_fresh_session=True)
    assert_fresh(stage, run, "forced_fresh", "first question", "second question", "ack: first question")
    after = await daemon.ask("t", "fourth question", force_fresh_session=False)
    assert_resumed(stage, after, run["session_id"], "fourth question")


async def test_retry_of_a_turn_is_forced_fresh(daemon: ServeProcess, stage: Stage) -> None:
    await two_turns(daemon)
    await daemon.ask("t", "third question")
    second = (await daemon.turns("t"))[2]
    taken = await daemon.post("/api/threads/t/retry", {"turn": second["id"]})
    run = await daemon.ended(taken["id"])
    assert_fresh(stage, run, "forced_fresh", "first question", "ack: first question")
    assert "third question" not in stage.prompt
    assert [turn["text"] for turn in await daemon.turns("t")][2:] == ["second question", "ack: second question"]


async def test_edit_of_an_absorbed_turn_breaks_the_session(daemon: ServeProcess, stage: Stage) -> None:
    await two_turns(daemon)
    first = (await daemon.turns("t"))[0]
    await daemon.patch(f"/api/threads/t/turns/{first['id']}", {"text": "first question, put better"})
    session = await daemon.get("/api/threads/t/session")
    assert (session["resumes"], session["reason"]) == (False, "history_changed")
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "history_changed", "first question, put better", "ack: second question")


async def test_edit_of_a_foreign_turn_outside_the_own_scope_leaves_the_session(
    daemon: ServeProcess, stage: Stage
) -> None:
    await daemon.thread("t", visibility="own")
    await daemon.ask("t", "asked of codex", agent="codex")
    ours = await daemon.ask("t", "first question")
    assert_fresh(stage, ours, "no_pin")
    assert stage.prompt == "first question", "own: nothing from before the other agent's answer"
    boundary = (await daemon.turns("t"))[1]
    assert boundary["agent"] == "codex"
    await daemon.patch(f"/api/threads/t/turns/{boundary['id']}", {"text": "edited; it stays the boundary"})
    run = await daemon.ask("t", "second question")
    assert_resumed(stage, run, ours["session_id"], "second question")


async def test_edit_of_a_foreign_turn_that_a_shared_session_absorbed_breaks_it(
    daemon: ServeProcess, stage: Stage
) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "asked of codex", agent="codex")
    await daemon.ask("t", "first question")
    foreign = (await daemon.turns("t"))[1]
    await daemon.patch(f"/api/threads/t/turns/{foreign['id']}", {"text": "what codex said, edited"})
    run = await daemon.ask("t", "second question")
    assert_fresh(stage, run, "history_changed", "asked of codex", "what codex said, edited", "first question")


@pytest.mark.parametrize("how", ["truncate", "retry"])
async def test_truncate_or_retry_at_the_foreign_boundary_breaks_the_own_session(
    daemon: ServeProcess, stage: Stage, how: str
) -> None:
    await daemon.thread("t", visibility="own")
    await daemon.ask("t", "asked of codex", agent="codex")
    await daemon.ask("t", "first question")
    await daemon.ask("t", "second question")
    asked, answered, *_ = await daemon.turns("t")
    if how == "truncate":
        await daemon.post("/api/threads/t/truncate", {"turn": answered["id"]}, 200)
        run = await daemon.ask("t", "third question")
        assert_fresh(stage, run, "history_changed", "asked of codex")
    else:
        taken = await daemon.post("/api/threads/t/retry", {"turn": asked["id"]})
        again = await daemon.ended(taken["id"])
        assert (again["agent"], again["reason"]) == ("codex", "forced_fresh")
        assert stage.launches[-1].agent == "codex"
        run = await daemon.ask("t", "third question")
        assert_fresh(stage, run, "history_changed")
        assert stage.prompt == "third question", "own: nothing from before the boundary"
    assert stage.launches[-1].agent == "claude"
    assert "first question" not in stage.prompt
    assert "second question" not in stage.prompt


async def test_another_work_directory_sends_the_transcript(daemon: ServeProcess, stage: Stage) -> None:
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    await two_turns(daemon)
    await daemon.patch("/api/threads/t", {"cwd": str(elsewhere)})
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "work_dir_changed", "first question", "second question")


async def test_another_runtime_sends_the_transcript(daemon: ServeProcess, stage: Stage) -> None:
    await two_turns(daemon)
    fork = stage.launcher(stage.agent, stage.folder / "openclaude")
    daemon.restart(CLEW_CLAUDE_PATH=str(fork))
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "runtime_changed", "first question", "second question")
    assert stage.launches[-1].agent == "openclaude"


async def test_rejected_session_falls_back_once_and_the_run_succeeds(daemon: ServeProcess, stage: Stage) -> None:
    """The session's file is hidden from the CLI between the decision and the spawn."""
    await two_turns(daemon)
    [path] = stage.session_files()
    first, *rest = stage.binary.read_text().splitlines()
    hide = f"case \"$*\" in *--resume=*) rm -f '{path}';; esac"
    stage.binary.write_text("\n".join([first, hide, *rest]) + "\n")
    before = len(stage.launches)
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "rejected", "first question", "second question", "ack: second question")
    assert run["fallback"]
    resumed, fresh = stage.launches[before:]
    assert (resumed.resumes is not None, fresh.resumes) == (True, None)
    kinds = [event["kind"] for event in (await daemon.get(f"/api/runs/{run['id']}/steps"))["items"]]
    assert kinds.count("fell_back") == 1


async def test_without_the_ability_every_turn_has_the_transcript(
    stage: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    old = stage.launcher(stage.agent, stage.folder / "old-claude")
    first, *rest = old.read_text().splitlines()
    mute = f"case \"$*\" in *--help*) '{stage.agent}' --help | grep -v -e --resume; exit;; esac"
    old.write_text("\n".join([first, mute, *rest]) + "\n")
    daemon = start_daemon(stage, CLEW_CLAUDE_PATH=str(old), **CHAT_DESIGN)
    run = await two_turns(daemon)
    assert_fresh(stage, run, "unsupported", "first question", "ack: first question")
    run = await daemon.ask("t", "third question")
    assert_fresh(stage, run, "unsupported", "first question", "second question")
    assert all(launch.resumes is None for launch in stage.launches)
    [claude] = [agent for agent in (await daemon.get("/api/agents"))["items"] if agent["name"] == "claude"]
    assert not claude["resumes"]


async def test_question_is_answered_by_tool_result_under_resume(daemon: ServeProcess, stage: Stage) -> None:
    second = await two_turns(daemon)
    taken = await daemon.post("/api/threads/t/runs", {"prompt": FORM})
    await daemon.until(taken["id"], "question_asked")
    waiting = await daemon.get(f"/api/runs/{taken['id']}")
    assert waiting["status"] == "waiting"
    given = {
        "question_id": waiting["question"]["id"],
        "allow": True,
        "answers": {"Which database?": "Postgres"},
    }
    await daemon.post(f"/api/runs/{taken['id']}/tool-result", given)
    run = await daemon.ended(taken["id"])
    assert (run["status"], run["session_resumed"]) == ("answered", True)
    assert stage.launches[-1].resumes == second["session_id"]
    assert "Postgres" in (await daemon.turns("t"))[-1]["text"], "the model was told the answer"
    after = await daemon.ask("t", "last question")
    assert_resumed(stage, after, second["session_id"], "last question")
