"""The portable form of session files: what is kept of them, always in the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.agents.claude import portable as claude
from clew.agents.codex import portable as codex

Line = dict[str, Any]


def raw(*lines: Line) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def parsed(content: bytes | None) -> list[Line]:
    assert content is not None
    return [json.loads(line) for line in content.splitlines()]


def line(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> Line:
    return {"uuid": uuid, "parentUuid": parent, "type": kind, "message": {"role": kind, "content": content}, **more}


def note(uuid: str, parent: str, kind: str = "environment") -> Line:
    return {"uuid": uuid, "parentUuid": parent, "type": "attachment", "attachment": {"type": kind}, "rendered": ["r"]}


TURN = [
    line("1", None, "user", "list the files", gitBranch="secret-plans", permissionMode="default"),
    note("2", "1"),
    line("3", "2", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]),
    line("4", "3", "assistant", [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "rm"}}]),
    line("5", "3", "assistant", [{"type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {}}]),
    line("6", "4", "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "other words"}]),
    line("7", "5", "user", [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "unknown"}]),
    line("8", "6", "assistant", [{"type": "text", "text": "One file."}]),
    {"type": "cost-state", "sessionId": "s", "totalCostUSD": 0.5, "modelUsage": {"m": {"costUSD": 0.5, "note": "!"}}},
    {"type": "last-prompt", "lastPrompt": "list the files", "leafUuid": "8"},
]


class TestClaude:
    def test_what_is_kept(self) -> None:
        kept = parsed(claude.portable(raw(*TURN)))
        assert [(each.get("uuid"), each.get("parentUuid")) for each in kept] == [
            ("1", None), ("3", "1"), ("8", "3"), (None, None),
        ]  # fmt: skip
        assert [each["message"]["content"] for each in kept[:-1]] == [
            "list the files",
            [{"type": "text", "text": "I look."}],
            [{"type": "text", "text": "One file."}],
        ], "no thought, and no use of a tool"
        assert kept[-1] == {
            "type": "cost-state", "sessionId": "s", "totalCostUSD": 0.5, "modelUsage": {"m": {"costUSD": 0.5}},
        }  # fmt: skip
        assert set(kept[0]) == {"uuid", "parentUuid", "isSidechain", "type", "message"}

    def test_a_branch_that_was_left_brings_no_words(self) -> None:
        left = line("b", "1", "user", "left behind")
        kept = parsed(claude.portable(raw(TURN[0], left, line("c", "1", "user", "instead"))))
        assert [each["message"]["content"] for each in kept] == ["list the files", "instead"]

    def test_the_same_bytes_from_itself_and_more_when_it_grows(self) -> None:
        before = claude.portable(raw(*TURN[:3]))
        after = claude.portable(raw(*TURN))
        assert before and after and after.startswith(before)
        assert claude.portable(after) == after
        grown = raw(*TURN[:3], note("n", "3")) + claude.continued(raw(*TURN[:3], note("n", "3")), after[len(before) :])
        assert parsed(grown)[4]["parentUuid"] == "n", "hung on the last entry"
        assert claude.portable(grown) == after

    @pytest.mark.parametrize(
        "unfit",
        [
            line("9", "8", "user", "Do as I say.", isMeta=True),
            line("9", "8", "user", "<command-name>/x</command-name>"),
            line("9", "8", "user", "[Request interrupted by user] and more"),
            line("9", "8", "user", "summary", isCompactSummary=True),
            line("9", "8", "user", [{"type": "image", "source": {}}]),
            line("9", "8", "assistant", [{"type": "text", "text": "words of the CLI"}], message={}),
            {"uuid": "9", "parentUuid": "8", "type": "system", "subtype": "compact_boundary"},
            note("9", "8", "critical_system_reminder"),
            note("9", "8", "a_kind_of_tomorrow"),
        ],
    )
    def test_a_line_on_neither_list_makes_the_file_unfit(self, unfit: Line) -> None:
        if unfit.get("message") == {}:
            unfit = unfit | {"message": {"role": "assistant", "model": "<synthetic>", "content": "words of the CLI"}}
        assert claude.portable(raw(*TURN, unfit)) is None

    @pytest.mark.parametrize("words", sorted(claude.HARMLESS))
    def test_words_of_the_cli_itself_are_kept(self, words: str) -> None:
        kept = parsed(claude.portable(raw(*TURN, line("9", "8", "user", words, isMeta=True))))
        assert kept[-1]["message"]["content"] == words

    def test_rubbish_is_skipped(self) -> None:
        assert claude.portable(b"\xff\n[1]\nnull\n{\n" + raw(*TURN)) == claude.portable(raw(*TURN))


META = {
    "id": "s", "cwd": "/w", "base_instructions": {"text": "!"}, "history_mode": "paginated", "git": {"branch": "b"},
    "originator": "Obey me.",
}  # fmt: skip


def item(role: str, text: str, **more: Any) -> Line:
    payload = {"type": "message", "role": role, "id": "m", "content": [{"type": "x_text", "text": text}], **more}
    return {"timestamp": "t", "ordinal": 7, "type": "response_item", "payload": payload}


def event(kind: str, **more: Any) -> Line:
    return {"timestamp": "t", "type": "event_msg", "payload": {"type": kind, **more}}


ROLLOUT = [
    {"timestamp": "t", "ordinal": 0, "type": "session_meta", "payload": META},
    item("developer", "instructions"),
    item("user", "<environment_context>…</environment_context>"),
    item("user", "hello"),
    {"timestamp": "t", "type": "response_item", "payload": {"type": "function_call", "name": "x", "arguments": "{}"}},
    {"timestamp": "t", "type": "response_item", "payload": {"type": "reasoning", "summary": []}},
    item("assistant", "hi"),
    event("token_count", info={"total_token_usage": {"input_tokens": 9, "note": "!"}}, rate_limits={"x": "y"}),
    event("task_complete", turn_id="n", last_agent_message="hi"),
    {"timestamp": "t", "type": "turn_context", "payload": {"model": "m", "developer_instructions": "!"}},
]


class TestCodex:
    def test_what_is_kept(self) -> None:
        kept = parsed(codex.portable(raw(*ROLLOUT)))
        assert [each["payload"] for each in kept] == [
            {"id": "s", "cwd": "/w", "history_mode": "paginated", "originator": "codex_exec"},
            {"type": "message", "role": "user", "id": "m", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 9}}},
            {"type": "task_complete", "turn_id": "n"},
        ]
        assert [each["ordinal"] for each in kept] == list(range(5))

    def test_the_same_bytes_from_itself_and_more_when_it_grows(self) -> None:
        before, after = codex.portable(raw(*ROLLOUT[:4])), codex.portable(raw(*ROLLOUT))
        assert before and after and after.startswith(before)
        assert codex.portable(after) == after
        grown = raw(*ROLLOUT[:4]) + codex.continued(raw(*ROLLOUT[:4]), after[len(before) :])
        assert [each["ordinal"] for each in parsed(grown)][4:] == [8, 9, 10], "numbered on from its last line"
        assert codex.portable(grown) == after

    @pytest.mark.parametrize(
        "unfit",
        [
            {"timestamp": "t", "type": "compacted", "payload": {"message": "summary"}},
            event("thread_rolled_back", num_turns=1),
            {"timestamp": "t", "type": "session_meta", "payload": META | {"forked_from_id": "o"}},
            item("user", "Do as I say.", internal_chat_message_metadata_passthrough={"content_item_kinds": ["x"]}),
        ],
    )
    def test_what_no_turn_shows_makes_the_file_unfit(self, unfit: Line) -> None:
        assert codex.portable(raw(*ROLLOUT, unfit)) is None
