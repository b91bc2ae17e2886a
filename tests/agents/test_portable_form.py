"""The portable form of session files: what is kept, and that it is deterministic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.agents.claude import portable_form as claude
from clew.agents.codex import portable_form as codex

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
        kept = parsed(claude.portable_form(raw(*TURN)))
        assert [(each.get("uuid"), each.get("parentUuid")) for each in kept] == [
            ("1", None), ("3", "1"), ("8", "3"), (None, None),
        ]  # fmt: skip
        assert [each["message"]["content"] for each in kept[:-1]] == [
            "list the files",
            [{"type": "text", "text": "I look."}],
            [{"type": "text", "text": "One file."}],
        ], "neither thinking nor tool calls"
        assert kept[-1] == {
            "type": "cost-state", "sessionId": "s", "totalCostUSD": 0.5, "modelUsage": {"m": {"costUSD": 0.5}},
        }  # fmt: skip
        assert set(kept[0]) == {"uuid", "parentUuid", "isSidechain", "type", "message"}

    def test_an_abandoned_branch_is_dropped(self) -> None:
        left = line("b", "1", "user", "left behind")
        kept = parsed(claude.portable_form(raw(TURN[0], left, line("c", "1", "user", "instead"))))
        assert [each["message"]["content"] for each in kept] == ["list the files", "instead"]

    def test_it_is_idempotent_and_a_longer_file_only_adds_lines(self) -> None:
        before = claude.portable_form(raw(*TURN[:3]))
        after = claude.portable_form(raw(*TURN))
        assert before and after and after.startswith(before)
        assert claude.portable_form(after) == after
        grown = raw(*TURN[:3], note("n", "3")) + claude.appendable_lines(
            raw(*TURN[:3], note("n", "3")), after[len(before) :]
        )
        assert parsed(grown)[4]["parentUuid"] == "n", "attached to the last entry"
        assert claude.portable_form(grown) == after

    @pytest.mark.parametrize(
        "line_or_note",
        [
            line("9", "8", "user", "Do as I say.", isMeta=True),
            line("9", "8", "user", "<command-name>/x</command-name>"),
            line("9", "8", "user", "[Request interrupted by user] and more"),
            line("9", "8", "user", "summary", isCompactSummary=True),
            line("9", "8", "user", [{"type": "image", "source": {}}]),
            line("9", "8", "assistant", [{"type": "text", "text": "text of the CLI"}], message={}),
            {"uuid": "9", "parentUuid": "8", "type": "system", "subtype": "compact_boundary"},
            note("9", "8", "critical_system_reminder"),
            note("9", "8", "a_kind_of_tomorrow"),
        ],
    )
    def test_a_file_with_a_line_on_neither_list_is_not_portable(self, line_or_note: Line) -> None:
        if line_or_note.get("message") == {}:
            line_or_note = line_or_note | {
                "message": {"role": "assistant", "model": "<synthetic>", "content": "text of the CLI"}
            }
        assert claude.portable_form(raw(*TURN, line_or_note)) is None

    @pytest.mark.parametrize("words", sorted(claude.KNOWN_CLI_TEXTS))
    def test_known_texts_of_the_cli_are_kept(self, words: str) -> None:
        kept = parsed(claude.portable_form(raw(*TURN, line("9", "8", "user", words, isMeta=True))))
        assert kept[-1]["message"]["content"] == words

    def test_invalid_lines_are_skipped(self) -> None:
        assert claude.portable_form(b"\xff\n[1]\nnull\n{\n" + raw(*TURN)) == claude.portable_form(raw(*TURN))


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
        kept = parsed(codex.portable_form(raw(*ROLLOUT)))
        assert [each["payload"] for each in kept] == [
            {"id": "s", "cwd": "/w", "history_mode": "paginated", "originator": "codex_exec"},
            {"type": "message", "role": "user", "id": "m", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 9}}},
            {"type": "task_complete", "turn_id": "n"},
        ]
        assert [each["ordinal"] for each in kept] == list(range(5))

    def test_it_is_idempotent_and_a_longer_file_only_adds_lines(self) -> None:
        before, after = codex.portable_form(raw(*ROLLOUT[:4])), codex.portable_form(raw(*ROLLOUT))
        assert before and after and after.startswith(before)
        assert codex.portable_form(after) == after
        grown = raw(*ROLLOUT[:4]) + codex.appendable_lines(raw(*ROLLOUT[:4]), after[len(before) :])
        assert [each["ordinal"] for each in parsed(grown)][4:] == [8, 9, 10], "the numbers continue after the last line"
        assert codex.portable_form(grown) == after

    @pytest.mark.parametrize(
        "line_or_note",
        [
            {"timestamp": "t", "type": "compacted", "payload": {"message": "summary"}},
            event("thread_rolled_back", num_turns=1),
            {"timestamp": "t", "type": "session_meta", "payload": META | {"forked_from_id": "o"}},
            item("user", "Do as I say.", internal_chat_message_metadata_passthrough={"content_item_kinds": ["x"]}),
        ],
    )
    def test_a_file_with_lines_that_no_turn_shows_is_not_portable(self, line_or_note: Line) -> None:
        assert codex.portable_form(raw(*ROLLOUT, line_or_note)) is None


def test_a_session_with_an_image_of_a_prompt_is_not_portable() -> None:
    """An image can hold an instruction, and cannot be compared with the thread's."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    text = {"type": "text", "text": "what is this?"}
    assert claude.portable_form(raw(line("1", None, "user", [image, text]))) is None
    part = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    payload = {"type": "message", "role": "user", "content": [part, {"type": "input_text", "text": "what is this?"}]}
    assert codex.portable_form(raw({"type": "response_item", "payload": payload})) is None
