"""Codex's output lines as events."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import OUTPUT_CHARS, LaunchProfile
from clew.agents.codex.stream import CodexReader
from clew.core.costs.usage import Usage
from clew.core.outcome import Outcome
from clew.core.runs.events import AgentRetried, Event, MessageSaid, SessionStarted, ToolFinished, ToolStarted, Warned
from clew.core.thread import Permissions, Trust
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage, real_codex

SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"
DONE = {
    "type": "turn.completed",
    "usage": {"input_tokens": 1000, "cached_input_tokens": 800, "cache_write_input_tokens": 50, "output_tokens": 60},
}


def reader(session_id: str = SESSION, *, resume: bool = False) -> CodexReader:
    return CodexReader(LaunchProfile(session_id, resume, None, Permissions.ASK, Trust.USER))


def feed(into: CodexReader, *lines: dict[str, Any]) -> list[Event]:
    return [event for line in lines for event in into.feed(json.dumps(line).encode())]


def item(kind: str, stage: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{stage}", "item": {"id": "item_0", "type": kind, **fields}}


class TestLines:
    def test_whole_turn(self) -> None:
        it = reader()
        started = {"type": "thread.started", "thread_id": SESSION}
        events = feed(it, started, {"type": "turn.started"}, item("agent_message", text="hi"), DONE)
        assert events == [SessionStarted(SESSION, ""), MessageSaid("hi")]
        assert it.finished
        result = it.result(resumed=False, exit_status=0, stderr="")
        assert result.diagnosis.answered
        assert result.usage_total == Usage(150, 60, 800, 50), "the cached ones are not counted twice"

    def test_command(self) -> None:
        it = reader()
        [started] = feed(it, item("command_execution", "started", command="ls", status="in_progress"))
        assert started == ToolStarted("item_0", "exec_command", {"command": "ls"})
        assert it.tool_ran, "it may be running"
        said = "x" * 2 * OUTPUT_CHARS
        [finished] = feed(it, item("command_execution", aggregated_output=said, exit_code=1, status="failed"))
        assert finished == ToolFinished("item_0", True, said[:OUTPUT_CHARS])
        assert it.tool_ran

    def test_declined_tool_did_not_run(self) -> None:
        it = reader()
        started, finished = feed(it, item("command_execution", command="x", status="declined"))
        assert isinstance(started, ToolStarted)
        assert isinstance(finished, ToolFinished)
        assert not finished.ran
        assert finished.declined
        assert not it.tool_ran

    @pytest.mark.parametrize(
        ("given", "name", "about"),
        [
            (
                item("file_change", changes=[{"path": "/a", "kind": "add"}], status="completed"),
                "apply_patch",
                {"path": "/a", "changes": [{"path": "/a", "kind": "add"}]},
            ),
            (item("mcp_tool_call", server="s", tool="t", arguments={"a": 1}), "s.t", {"a": 1}),
            (item("web_search", query="q"), "web_search", {"query": "q"}),
        ],
    )
    def test_tools_that_only_complete_are_reported_as_started_too(
        self, given: dict[str, Any], name: str, about: dict[str, Any]
    ) -> None:
        started, finished = feed(reader(), given)
        assert started == ToolStarted("item_0", name, about)
        assert finished == ToolFinished("item_0", False, "")

    def test_a_repeated_notice_is_one_warning(self) -> None:
        events = feed(reader(), *[item("error", message="Heads up")] * 2)
        assert events == [Warned("agent", "Heads up")]

    @pytest.mark.parametrize(
        ("message", "retry"),
        [
            ("Reconnecting... 2/5 (high demand)", AgentRetried(2, 0.0, "high demand")),
            ("Reconnecting... waiting for network (refused (x))", AgentRetried(0, 0.0, "refused (x)")),
            ("Reconnecting... 1/5", AgentRetried(1, 0.0, "Reconnecting... 1/5")),
        ],
    )
    def test_retries(self, message: str, retry: AgentRetried) -> None:
        it = reader()
        assert feed(it, {"type": "error", "message": message}) == [retry]
        assert not it.finished

    def test_failed_turn(self) -> None:
        it = reader()
        feed(it, {"type": "error", "message": "boom"}, {"type": "turn.failed", "error": {"message": "boom"}})
        result = it.result(resumed=False, exit_status=1, stderr="")
        assert (it.finished, result.diagnosis.answered, result.diagnosis.message) == (True, False, "boom")
        assert result.usage_total is None

    def test_without_a_last_line_there_is_no_answer(self) -> None:
        it = reader()
        feed(it, item("agent_message", text="half"))
        assert not it.result(resumed=False, exit_status=0, stderr="").diagnosis.answered

    @pytest.mark.parametrize(
        "line",
        [b"", b"garbage", b"[]", b"null", b'{"type":"new.kind"}', b'{"type":"item.completed"}', b'{"type":"error"}',
         b'{"type":"item.completed","item":[]}', b'{"type":"turn.failed","error":null}', b"\xff\xfe", b"[" * 9999],
    )  # fmt: skip
    def test_unreadable_lines_give_no_event(self, line: bytes) -> None:
        assert reader().feed(line) == []

    def test_a_lone_surrogate_is_read(self) -> None:
        assert len(reader().feed(b'{"type":"item.completed","item":{"type":"agent_message","text":"\\ud83d"}}')) == 1


@pytest.mark.real
def test_resuming_an_invalid_id_starts_another_session_and_is_not_a_success(tmp_path: Path) -> None:
    """The real binary exits with 0 when it is told to resume something that is not an id."""
    with ModelApi() as api:
        stage = Stage(tmp_path, api, scripted_agent.install(tmp_path / "agent"), codex=real_codex())
        done = subprocess.run(
            [str(stage.codex), "exec", "resume", "--json", "--skip-git-repo-check", "not-a-uuid", "-"],
            input=b"!say fine",
            env=stage.environ,
            cwd=stage.work,
            check=True,
            capture_output=True,
            timeout=60,
        )
    it = reader("not-a-uuid", resume=True)
    events = [event for line in done.stdout.splitlines() for event in it.feed(line)]
    assert MessageSaid("fine") in events
    result = it.result(resumed=True, exit_status=done.returncode, stderr="")
    assert (result.diagnosis.answered, result.diagnosis.outcome) == (False, Outcome.REJECTED)
