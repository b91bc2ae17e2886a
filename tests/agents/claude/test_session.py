"""Claude's session files: the active chain, whatever else the file holds; and files that the real CLI wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import Binary, LaunchProfile, SessionView
from clew.agents.claude import Claude
from clew.core.decision import Abilities
from clew.core.history import Role
from clew.core.thread import Permissions, Trust
from clew.testing.model.api import ModelApi

claude = Claude()
Write = Callable[..., SessionView]


def entry(kind: str, name: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content if content is not None else f"text of {name}"}
    if kind == "assistant":
        message |= {"id": "msg_1", "model": "claude-sonnet-4-5", "stop_reason": "end_turn"}
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    head = {"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": name}
    return {**head, "timestamp": "2026-11-15T08:56:17.342Z", "cwd": "/project", "version": "2.1.325", **more}


def user(name: str, parent: str | None = None, content: Any = None, **more: Any) -> dict[str, Any]:
    return entry("user", name, parent, content, **more)


def said(name: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    return entry("assistant", name, parent, content, **more)


def attachment(name: str, parent: str | None) -> dict[str, Any]:
    return {"parentUuid": parent, "isSidechain": False, "attachment": {}, "type": "attachment", "uuid": name}


CHAIN = [user("u1"), said("a1", "u1"), user("u2", "a1"), said("a2", "u2")]


@pytest.fixture
def read(tmp_path: Path) -> Write:
    """Writes lines (dicts, or raw bytes) and reads them back."""

    def write(*lines: dict[str, Any] | bytes, since: int = 0, end: bytes = b"\n") -> SessionView:
        path = tmp_path / "s.jsonl"
        raw = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines]
        path.write_bytes(b"\n".join(raw) + end)
        return claude.read_session(path, since)

    return write


def ids(view: SessionView) -> list[str]:
    return [each.id for each in view.entries]


class TestChain:
    def test_messages_come_in_order_with_their_roles_and_texts(self, read: Write) -> None:
        view = read(*CHAIN)
        assert ids(view) == ["u1", "a1", "u2", "a2"]
        assert [each.role for each in view.entries] == [Role.USER, Role.ASSISTANT] * 2
        assert [each.is_prompt for each in view.entries] == [True, False] * 2
        assert view.entries[1].text == "text of a1"
        assert view.last_entry == "a2"

    def test_the_size_is_that_of_the_file(self, read: Write, tmp_path: Path) -> None:
        assert read(*CHAIN).size_bytes == (tmp_path / "s.jsonl").stat().st_size

    def test_of_two_children_the_later_one_wins(self, read: Write) -> None:
        view = read(
            user("u1"), said("a1", "u1"), user("u2", "a1"), said("a2", "u2"), user("u3", "a1"), said("a3", "u3")
        )
        assert ids(view) == ["u1", "a1", "u3", "a3"]

    def test_a_later_line_on_an_older_branch_makes_it_the_active_one(self, read: Write) -> None:
        view = read(user("u1"), said("a1", "u1"), said("b1", "u1"), user("u2", "a1"))
        assert ids(view) == ["u1", "a1", "u2"]

    def test_attachments_link_the_chain_and_are_not_messages(self, read: Write) -> None:
        view = read(
            user("u1"), attachment("x1", "u1"), attachment("x2", "x1"), said("a1", "x2"), attachment("x3", "a1")
        )
        assert ids(view) == ["u1", "a1"]
        assert view.last_entry == "x3"

    def test_subagents_lines_are_ignored(self, read: Write) -> None:
        view = read(*CHAIN, user("s1", None, isSidechain=True), said("s2", "s1", isSidechain=True))
        assert ids(view) == ["u1", "a1", "u2", "a2"]
        assert view.last_entry == "a2"

    def test_bookkeeping_is_ignored(self, read: Write) -> None:
        view = read(
            {"type": "queue-operation", "operation": "enqueue", "content": "x"},
            *CHAIN,
            {"type": "last-prompt", "leafUuid": "u1"},
            {"type": "summary", "summary": "x", "leafUuid": "a1"},
            {"type": "file-history-snapshot", "uuid": "f1", "snapshot": {}},
        )
        assert ids(view) == ["u1", "a1", "u2", "a2"]
        assert view.last_entry == "a2"

    def test_a_compaction_is_crossed_by_its_logical_parent(self, read: Write) -> None:
        boundary = {
            "parentUuid": None,
            "logicalParentUuid": "a2",
            "isSidechain": False,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "uuid": "c1",
        }
        summary = user("c2", "c1", "This session is being continued …", isCompactSummary=True)
        view = read(*CHAIN, boundary, summary, user("u3", "c2"), said("a3", "u3"))
        assert ids(view) == ["u1", "a1", "u2", "a2", "c2", "u3", "a3"]
        assert [each.id for each in view.entries if each.is_prompt] == ["u1", "u2", "u3"]

    def test_a_cycle_of_parents_does_not_cause_a_loop(self, read: Write) -> None:
        assert set(ids(read(user("u1", "a1"), said("a1", "u1")))) == {"u1", "a1"}

    def test_an_empty_file_holds_nothing(self, read: Write) -> None:
        view = read(end=b"")
        assert (ids(view), view.last_entry, view.size_bytes) == ([], None, 0)

    def test_a_missing_file_raises(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"nowhere"):
            claude.read_session(tmp_path / "nowhere.jsonl")


class TestEntries:
    def test_text_blocks_are_joined_and_others_have_no_text(self, read: Write) -> None:
        blocks = [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "one"},
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
            {"type": "text", "text": "two"},
        ]
        assert read(user("u1"), said("a1", "u1", blocks)).entries[1].text == "one\n\ntwo"

    def test_a_tools_result_is_not_a_prompt(self, read: Write) -> None:
        result = [{"type": "tool_result", "tool_use_id": "t", "content": "hi"}]
        assert [each.is_prompt for each in read(user("u1"), user("r1", "u1", result)).entries] == [True, False]

    def test_a_prompt_may_be_blocks(self, read: Write) -> None:
        [prompt] = read(user("u1", None, [{"type": "text", "text": "look"}, {"type": "image", "source": {}}])).entries
        assert (prompt.is_prompt, prompt.text) == (True, "look")

    @pytest.mark.parametrize(
        "note",
        [
            user("n1", "u1", isMeta=True),
            user("n1", "u1", [{"type": "text", "text": "[Request interrupted by user]"}]),
            user("n1", "u1", "[Request interrupted by user for tool use]"),
            user("n1", "u1", "<local-command-stdout>x</local-command-stdout>"),
            user(
                "n1",
                "u1",
                "<task-notification>\n<task-id>a1f6</task-id>\n<status>completed</status>\n</task-notification>",
                origin={"kind": "task-notification", "producer": "session-task"},
                promptSource="system",
                turnOrigin="task_notification",
            ),
        ],
        ids=["meta", "interrupted", "interrupted in a tool", "local command", "a background task has ended"],
    )
    def test_the_agents_own_notes_are_not_prompts(self, read: Write, note: dict[str, Any]) -> None:
        assert [each.is_prompt for each in read(user("u1"), note).entries] == [True, False]

    def test_the_clis_messages_about_a_failed_request_are_not_answers(self, read: Write) -> None:
        error = said("e1", "u1", "API Error: 401", isApiErrorMessage=True)
        synthetic = said("e2", "e1", "No response requested.")
        synthetic["message"]["model"] = "<synthetic>"
        view = read(user("u1"), error, synthetic, user("u2", "e2"))
        assert ids(view) == ["u1", "u2"]

    @pytest.mark.parametrize(("stop_reason", "complete"), [("end_turn", True), ("tool_use", False)])
    def test_an_answer_that_calls_a_tool_is_not_complete(self, read: Write, stop_reason: str, complete: bool) -> None:
        answer = said("a1", "u1")
        answer["message"]["stop_reason"] = stop_reason
        assert read(user("u1"), answer).entries[1].complete is complete


class TestDamage:
    def test_a_truncated_last_line_is_skipped(self, read: Write) -> None:
        half = json.dumps(user("u3", "a2")).encode()[:50]
        view = read(*CHAIN, half, end=b"")
        assert ids(view) == ["u1", "a1", "u2", "a2"]

    @pytest.mark.parametrize(
        "bad",
        [b"garbage", b"\0" * 100, b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"type":7}', b"[" * 100_000],
        ids=["garbage", "NUL", "empty", "object", "list", "null", "not UTF-8", "wrong type", "deep"],
    )
    def test_bad_lines_in_the_middle_are_skipped(self, read: Write, bad: bytes) -> None:
        assert ids(read(*CHAIN[:2], bad, *CHAIN[2:])) == ["u1", "a1", "u2", "a2"]

    def test_a_line_with_half_a_surrogate_pair_stays_on_the_chain(self, read: Write) -> None:
        """The CLI writes them escaped, for instance when it cuts a tool's output in the middle of an emoji."""
        cut = [{"type": "tool_result", "tool_use_id": "t", "content": "\ud83d"}]
        view = read(user("u1", None, "odd \ud800"), said("a1", "u1"), user("r1", "a1", cut), said("a2", "r1"))
        assert ids(view) == ["u1", "a1", "r1", "a2"]
        assert view.entries[0].text == "odd \ud800"

    def test_bytes_that_are_not_utf_8_do_not_break_the_chain(self, read: Write) -> None:
        raw = json.dumps(said("a1", "u1", "xQz")).encode().replace(b"Q", b"\xff")
        assert ids(read(user("u1"), raw, user("u2", "a1"))) == ["u1", "a1", "u2"]

    @pytest.mark.parametrize("field", ["isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage"])
    def test_a_flag_that_is_null_does_not_break_the_chain(self, read: Write, field: str) -> None:
        assert ids(read(user("u1", **{field: None}), said("a1", "u1"))) == ["u1", "a1"]


class TestSince:
    def test_only_what_came_after_that_byte_is_read(self, read: Write) -> None:
        before = read(*CHAIN[:2]).size_bytes
        view = read(*CHAIN, since=before)
        assert ids(view) == ["u2", "a2"]
        assert view.size_bytes > before

    def test_at_the_end_there_is_nothing(self, read: Write) -> None:
        size = read(*CHAIN).size_bytes
        assert ids(read(*CHAIN, since=size)) == []

    def test_a_file_that_shrank_is_read_whole(self, read: Write) -> None:
        assert ids(read(*CHAIN, since=10**9)) == ["u1", "a1", "u2", "a2"]


@pytest.mark.real
class TestRealFile:
    """Turns of the real CLI against the scripted model, with our command line, input lines and reader."""

    @pytest.fixture
    def turn(self, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
        binary = self.binary()
        (tmp_path / "work").mkdir()
        able = Abilities(True, True, frozenset({"--include-partial-messages", "--setting-sources"}))

        def take(api: ModelApi, prompt: str, session: str, user_uuid: str, *, resume: bool) -> list[dict[str, Any]]:
            launch = LaunchProfile(session, resume, "claude-sonnet-4-5", Permissions.ASK, Trust.USER)
            process = subprocess.Popen(
                claude.command(binary, able, launch),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path / "work",
                env={
                    "HOME": str(tmp_path),
                    "PATH": os.defpath,
                    "LANG": "C.UTF-8",
                    "ANTHROPIC_BASE_URL": api.url,
                    "ANTHROPIC_API_KEY": "dummy",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "DISABLE_AUTOUPDATER": "1",
                    "DISABLE_TELEMETRY": "1",
                },
            )
            assert process.stdin is not None
            assert process.stdout is not None
            stuck = threading.Timer(30, process.kill)
            stuck.start()
            with process:
                process.stdin.write(claude.prompt_line(prompt, user_uuid))
                process.stdin.flush()
                lines = []
                for raw in process.stdout:
                    lines.append(json.loads(raw))
                    if lines[-1]["type"] == "result":
                        process.stdin.close()
                process.wait()
            stuck.cancel()
            stuck.join()
            return lines

        return take

    def binary(self) -> Binary:
        for folder in sys.path:
            path = Path(folder) / "claude_agent_sdk" / "_bundled" / "claude"
            if path.is_file():
                return Binary(str(path), "claude-agent-sdk")
        pytest.fail("the claude-agent-sdk wheel and its bundled CLI are missing")

    def test_the_chain_holds_our_prompts_by_their_uuids_and_the_answers(
        self, turn: Callable[..., list[dict[str, Any]]], tmp_path: Path
    ) -> None:
        session, first, second, third = (str(uuid.uuid4()) for _ in range(4))
        with ModelApi() as api:
            turn(api, "!say hello there", session, first, resume=False)
            path = claude.session_file(str(tmp_path / ".claude"), str(tmp_path / "work"), session)
            assert path is not None
            before = claude.read_session(path).size_bytes
            note = tmp_path / "work" / "note.txt"
            note.write_text("clew")
            turn(api, f'look\n!tool Read {{"file_path": "{note}"}}', session, second, resume=True)
            middle = claude.read_session(path)
            turn(api, "half a pair \ud83d\n!say fine", session, third, resume=True)
        assert [each.id for each in middle.entries if each.is_prompt] == [first, second]
        assert middle.entries[0].text == "!say hello there"
        assert (middle.entries[1].role, middle.entries[1].text) == (Role.ASSISTANT, "hello there")
        assert middle.entries[1].complete
        assert middle.entries[-1].text.startswith("done: ")
        assert [each.is_prompt for each in middle.entries] == [True, False, True, False, False, False]
        added = claude.read_session(path, before)
        assert added.entries[0].id == second
        whole = claude.read_session(path)
        assert [each.id for each in whole.entries if each.is_prompt] == [first, second, third]
        assert whole.entries[-1].text == "fine"

    def test_stream_and_file_have_the_same_message_id_and_text(
        self, turn: Callable[..., list[dict[str, Any]]], tmp_path: Path
    ) -> None:
        session, first = (str(uuid.uuid4()) for _ in range(2))
        with ModelApi() as api:
            lines = turn(api, "!say one\u2028two", session, first, resume=False)
        reader = claude.reader(LaunchProfile(session, False, None, Permissions.ASK, Trust.USER))
        said_events = [each for line in lines for each in reader.feed(json.dumps(line).encode())]
        message = next(each for each in said_events if type(each).__name__ == "MessageSaid")
        path = claude.session_file(str(tmp_path / ".claude"), str(tmp_path / "work"), session)
        assert path is not None
        last = claude.read_session(path).entries[-1]
        assert (last.id, last.text) == (message.message_id, message.text)  # type: ignore[attr-defined]
        result = reader.result(resumed=False, exit_status=0, stderr="")
        assert result.diagnosis.answered
        assert result.usage.shown_tokens > 0
        assert (result.cost_total_usd or 0) > 0
