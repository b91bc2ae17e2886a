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
from clew.core.session import BEFORE_FIRST, SessionState, compare, session_turns
from clew.core.thread import Permissions, Trust
from clew.testing.model.api import ModelApi

claude = Claude()
Write = Callable[..., SessionView]


def entry(kind: str, name: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content if content is not None else f"text of {name}"}
    if kind == "assistant":
        message |= {"id": f"msg_{name}", "model": "claude-sonnet-4-5", "stop_reason": "end_turn"}
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
        summary = user("c2", "c1", "This session is being continued …", isCompactSummary=True)
        view = read(*CHAIN, boundary("c1", "a2"), summary, user("u3", "c2"), said("a3", "u3"))
        assert ids(view) == ["u1", "a1", "u2", "a2", "c2", "u3", "a3"]
        assert [each.id for each in view.entries if each.is_prompt] == ["u1", "u2", "u3"]
        assert (view.compacted_at, view.compacted_after) == ("c1", 4)
        assert [each.end_id for each in view.entries if each.end_id] == ["a3"]

    @pytest.mark.parametrize("follows", ["summary", "a2"])
    def test_what_follows_the_kept_answer_of_a_compaction_is_after_the_summary(self, read: Write, follows: str) -> None:
        """The CLI hangs it on the answer itself if it wrote that just before, to close an interrupted turn."""
        kept = {"preservedMessages": {"anchorUuid": "summary", "uuids": ["a2"]}}
        second = {**boundary("c1", "a2"), "compactMetadata": kept}
        summary = user("summary", "c1", isCompactSummary=True)
        view = read(*CHAIN, second, summary, user("u3", follows), said("a3", "u3"))
        assert (view.compacted_at, view.compacted_after) == ("c1", 4)
        assert ids(view) == ["u1", "a1", "u2", "a2", "summary", "u3", "a3"]
        assert [each.id for each in view.entries if each.end_id] == ["a3"]

    def test_no_copy_ends_with_the_answer_that_a_compaction_kept(self, read: Write) -> None:
        """In the copy of a compacted session, that answer comes after the compaction."""
        kept = {"preservedMessages": {"anchorUuid": "summary", "uuids": ["a2"]}}
        first = {**boundary("c1", "a2"), "compactMetadata": kept}
        summary = user("summary", "c1", isCompactSummary=True)
        view = read(first, summary, said("a2", "summary"), user("u3", "a2"), said("a3", "u3"))
        assert ids(view) == ["summary", "a2", "u3", "a3"]
        assert [each.id for each in view.entries if each.end_id] == ["a3"]

    def test_a_line_whose_parent_is_lost_follows_the_one_above_it(self, read: Write) -> None:
        assert read(*CHAIN, user("u3", "lost"), said("a3", "u3")).chain == ("u1", "a1", "u2", "a2", "u3", "a3")

    def test_a_cycle_of_parents_does_not_cause_a_loop(self, read: Write) -> None:
        assert set(ids(read(user("u1", "a1"), said("a1", "u1")))) == {"u1", "a1"}

    def test_an_empty_file_holds_nothing(self, read: Write) -> None:
        view = read(end=b"")
        assert (ids(view), view.last_entry, view.size_bytes) == ([], None, 0)

    def test_a_missing_file_raises(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"nowhere"):
            claude.read_session(tmp_path / "nowhere.jsonl")


def names(row: str | None, **more: Any) -> dict[str, Any]:
    """The CLI's bookkeeping about where it continues."""
    return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": row, "sessionId": "s", **more}


BRANCH = [user("u3", "a1"), said("a3", "u3")]  # somebody went back to a1, and continued from there
NO_ROW = "00000000-0000-0000-0000-000000000000"


class TestLeaf:
    """Each case was tried on the real CLI (test_session_real.py tries some of them again): it continues at that row."""

    @pytest.mark.parametrize(
        ("lines", "leaf"),
        [
            ([*CHAIN], "a2"),
            ([*CHAIN, names("a2")], "a2"),
            ([*CHAIN, names("a1")], "a2"),
            ([*CHAIN, names("u2")], "a2"),
            ([*CHAIN, *BRANCH], "a3"),
            ([*CHAIN, names("a2"), *BRANCH], "a2"),
            ([*CHAIN, *BRANCH, names("a2")], "a2"),
            ([*CHAIN, *BRANCH, names("u2")], "u2"),
            ([*CHAIN, names("a2"), *BRANCH, names("a3")], "a3"),
            ([*CHAIN, *BRANCH, names("a1")], "a3"),
            ([*CHAIN, names("a2"), *BRANCH, names("lost")], "a3"),
            ([*CHAIN, names("a2"), *BRANCH, names(None)], "a2"),
            ([*CHAIN, names("a1", explicit=True)], "a1"),
            ([*CHAIN, names("a1", explicit=True), names("a1")], "a1"),
            ([*CHAIN, names("a1", explicit=True), *BRANCH], "a3"),
            ([*CHAIN, names("a1", explicit=True), user("u3", "a2")], "u3"),
            ([*CHAIN, names("a2"), BRANCH[0], names(NO_ROW, explicit=True), BRANCH[1]], "a3"),
            ([*CHAIN, names(None, explicit=True)], BEFORE_FIRST),
            ([*CHAIN, names(None, explicit=True), user("u3"), said("a3", "u3")], "a3"),
        ],
    )
    def test_the_chain_ends_where_the_cli_continues(self, read: Write, lines: list[dict[str, Any]], leaf: str) -> None:
        view = read(*lines)
        assert view.last_entry == leaf
        assert (view.chain[-1] if view.chain else BEFORE_FIRST) == leaf

    def test_it_continues_after_the_notes_that_follow_the_row(self, read: Write) -> None:
        noted = [*CHAIN[:2], attachment("x1", "a1"), attachment("x2", "x1"), user("u2", "x2")]
        assert read(*noted, names("a1", explicit=True)).last_entry == "x2"

    def test_a_compaction_removes_what_was_named_before(self, read: Write) -> None:
        view = read(*CHAIN, names("a2"), boundary("c1", "a2"), user("c2", "c1", isCompactSummary=True))
        assert view.last_entry == "c2"

    @pytest.mark.parametrize("number", range(1, 9))
    def test_a_part_ends_where_the_whole_file_does(self, read: Write, tmp_path: Path, number: int) -> None:
        lines = [*CHAIN, names("a2"), *BRANCH, names("a3"), user("u4", "a2"), names("u4")]
        whole = read(*lines)
        at = [0]
        for raw in (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True):
            at.append(at[-1] + len(raw))
        part = claude.read_session(tmp_path / "s.jsonl", at[number])
        known = [line["uuid"] for line in lines[number:] if "uuid" in line]
        assert list(part.chain) == [each for each in whole.chain if each in known]
        assert part.last_entry == ("u4" if part.chain else None)
        before = [each for each in whole.chain if each not in known]
        assert part.parent == (before[-1] if before and part.chain else None)

    @pytest.mark.parametrize(("named", "leaf"), [("a2", None), ("a1", "a1"), (None, BEFORE_FIRST)])
    def test_a_row_that_was_only_named_is_noticed_in_a_part(
        self, read: Write, tmp_path: Path, named: str | None, leaf: str | None
    ) -> None:
        left = read(*CHAIN)
        read(*CHAIN, names(named, explicit=True))
        part = claude.read_session(tmp_path / "s.jsonl", left.size_bytes)
        assert (part.chain, part.last_entry) == ((), leaf)
        state = SessionState.SAME if leaf is None else SessionState.BRANCHED
        assert compare(part, left.last_entry) is state


class TestSound:
    def test_different_lines_with_the_same_id_are_noticed(self, read: Write) -> None:
        assert read(*CHAIN, CHAIN[-1]).is_sound, "the CLI may repeat a line"
        assert not read(*CHAIN, user("u1", "a2", "another text"), user("u3", "u1")).is_sound

    def test_a_line_that_is_nested_too_deeply_for_us_is_noticed(self, read: Write, tmp_path: Path) -> None:
        read(*CHAIN)
        path = tmp_path / "s.jsonl"
        deep = json.dumps(user("u3", "a2", "@")).replace('"@"', "[" * 20_000 + "]" * 20_000)
        path.write_bytes(path.read_bytes() + deep.encode() + b"\n")
        assert not claude.read_session(path).is_sound

    def test_only_plain_files_of_subagents_are_read(self, read: Write, tmp_path: Path) -> None:
        called = said("a1", "u1", [{"type": "tool_use", "id": "t1", "name": "Agent", "input": {}}])
        folder = tmp_path / "s" / "subagents"
        folder.mkdir(parents=True)
        for name in ("pipe", "link", "plain"):
            (folder / f"agent-{name}.meta.json").write_text(json.dumps({"toolUseId": "t1", "description": name}))
        os.mkfifo(folder / "agent-pipe.jsonl")
        (folder / "agent-link.jsonl").symlink_to("/dev/zero")
        (folder / "agent-plain.jsonl").write_text(json.dumps(said("x", None)) + "\n")
        assert [agent.name for agent in read(user("u1"), called).subagents] == ["plain"]

    def test_a_subagent_of_a_subagent_counts_for_the_sessions_own_call(self, read: Write, tmp_path: Path) -> None:
        def calling(name: str, parent: str | None, tool_id: str) -> dict[str, Any]:
            return said(name, parent, [{"type": "tool_use", "id": tool_id, "name": "Agent", "input": {}}])

        folder = tmp_path / "s" / "subagents"
        folder.mkdir(parents=True)
        for name, started_by, line in (("outer", "t1", calling("x", None, "t2")), ("inner", "t2", said("y", None))):
            (folder / f"agent-{name}.meta.json").write_text(json.dumps({"toolUseId": started_by, "description": name}))
            (folder / f"agent-{name}.jsonl").write_text(json.dumps(line) + "\n")
        view = read(user("u1"), calling("a1", "u1", "t1"))
        [turn] = session_turns(view.entries, view.subagents)
        assert [(agent.name, agent.tool_id) for agent in turn.subagents] == [("outer", "t1"), ("inner", "t1")]

    @pytest.mark.parametrize("odd", [{"isMeta": "no"}, {"isSidechain": "no"}, {"parentUuid": 7}])
    def test_a_message_that_only_the_cli_would_read_is_noticed(self, read: Write, odd: dict[str, Any]) -> None:
        assert not read(*CHAIN, {**user("u3", "a2"), **odd}).is_sound


def boundary(name: str, above: str) -> dict[str, Any]:
    line = {"parentUuid": None, "logicalParentUuid": above, "isSidechain": False, "type": "system", "uuid": name}
    return {**line, "subtype": "compact_boundary", "content": "Conversation compacted"}


def call(name: str, parent: str, message: str) -> dict[str, Any]:
    found = said(name, parent, [{"type": "tool_use", "id": f"t-{name}", "name": "Read", "input": {"of": name}}])
    found["message"] |= {"id": message, "stop_reason": "tool_use"}
    return found


def result(name: str, parent: str, of: str) -> dict[str, Any]:
    return user(name, parent, [{"type": "tool_result", "tool_use_id": f"t-{of}", "content": f"result of {of}"}])


class TestParallelCalls:
    calls = (call("p1", "u1", "m"), call("p2", "p1", "m"), call("p3", "p2", "m"))

    def test_the_walk_ends_with_the_result_of_the_first_call(self, read: Write) -> None:
        view = read(
            user("u1"), *self.calls, result("r3", "p3", "p3"), result("r2", "p2", "p2"), result("r1", "p1", "p1"),
            said("a1", "r1"),
        )  # fmt: skip
        assert view.chain == ("u1", "p1", "p2", "p3", "r3", "r2", "r1", "a1")
        made = [each for entry in view.entries for each in entry.calls]
        assert [each.output for each in made] == ["result of p1", "result of p2", "result of p3"]
        assert not any(entry.interrupted for entry in view.entries)
        assert view.entries[-1].end_id == "a1"

    def test_a_result_may_follow_another_result(self, read: Write) -> None:
        view = read(
            user("u1"), *self.calls[:2], result("r1", "p1", "p1"), result("r2", "r1", "p2"), said("a1", "p2")
        )  # fmt: skip
        assert view.chain == ("u1", "p1", "p2", "r1", "r2", "a1")

    def test_what_hangs_on_a_call_and_is_not_its_result_is_another_branch(self, read: Write) -> None:
        view = read(
            user("u1"), *self.calls[:1], user("b1", "p1"), result("b2", "p1", "other"), result("r1", "p1", "p1"),
            said("a1", "r1"),
        )  # fmt: skip
        assert view.chain == ("u1", "p1", "r1", "a1")

    def test_a_call_without_a_result_is_an_interrupted_answer(self, read: Write) -> None:
        view = read(user("u1"), *self.calls[:2], result("r1", "p1", "p1"))
        assert [entry.interrupted for entry in view.entries] == [False, False, True, False]
        assert view.entries[2].calls[0].output is None
        assert view.tool_called


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

    @pytest.mark.parametrize("stop_reason", ["tool_use", "pause_turn", None])
    def test_a_copy_cannot_end_with_an_answer_that_is_not_finished(self, read: Write, stop_reason: str | None) -> None:
        answer = said("a1", "u1")
        answer["message"]["stop_reason"] = stop_reason
        assert read(user("u1"), answer).entries[1].end_id is None

    def test_only_the_last_answer_of_a_turn_can_end_a_copy(self, read: Write) -> None:
        note = user("n1", "a1", "<task-notification>\n<task-id>a1f6</task-id>\n</task-notification>")
        view = read(user("u1"), said("a1", "u1"), note, said("a2", "n1"), user("u2", "a2"), said("a3", "u2"))
        assert [each.end_id for each in view.entries if each.end_id] == ["a2", "a3"]

    def test_the_usage_of_a_request_is_its_last_lines(self, read: Write) -> None:
        lines = [said("a1", "u1"), said("a2", "a1"), said("a3", "a2")]
        for line, message, output in zip(lines, ("m1", "m1", "m2"), (1, 20, 300), strict=True):
            line["message"] |= {"id": message, "usage": {"input_tokens": 5, "output_tokens": output}}
        assert [each.usage.output_tokens for each in read(user("u1"), *lines).entries] == [0, 20, 0, 300]

    @pytest.mark.parametrize("field", ["timestamp", "cwd", "promptId", "permissionDecision", "toolDenialKind"])
    def test_a_field_of_another_type_does_not_matter(self, read: Write, field: str) -> None:
        assert ids(read(user("u1", **{field: 7}), said("a1", "u1", **{field: ["x"]}))) == ["u1", "a1"]

    @pytest.mark.parametrize("field", ["id", "model", "usage", "stop_reason", "content"])
    def test_a_field_of_a_message_of_another_type_does_not_matter(self, read: Write, field: str) -> None:
        odd = said("a1", "u1")
        odd["message"][field] = {"x": [1]}
        assert ids(read(user("u1"), odd)) == ["u1", "a1"]


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
        assert (view.chain, view.parent) == (("u2", "a2"), "a1")

    def test_at_the_end_there_is_nothing(self, read: Write) -> None:
        size = read(*CHAIN).size_bytes
        view = read(*CHAIN, since=size)
        assert (ids(view), view.chain, view.last_entry, view.parent) == ([], (), None, None)

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
