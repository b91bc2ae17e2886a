"""Session files that the real CLI (2.1.325) wrote, without the texts of its notes and its log of requests.

tools       declined, unknown and parallel tools; a tool and an answer that were interrupted; a killed process
subagents   two subagents in the background
commands    `claude -p` with a user's command, a skill, a command of the CLI and an unknown command
outside     a session that was continued in the TUI: a prompt, a shell command, a user's command
rewound     in the TUI somebody went back two turns, continued, and the process was killed
compacted   compacted twice
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.core.costs.usage import Usage
from clew.core.session import SessionEntry, SessionState, SessionView, compare, session_turns

FOLDER = Path(__file__).parent / "sessions"
claude = Claude()


def view(name: str) -> SessionView:
    return claude.read_session(FOLDER / f"{name}.jsonl")


def prompts(name: str) -> list[str]:
    return [entry.text for entry in view(name).entries if entry.is_prompt]


class TestTools:
    def test_every_call_has_its_result_and_whether_it_ran(self) -> None:
        _, turn, *_ = session_turns(view("tools").entries)
        assert [(call.name, (call.output or "")[:20], call.is_error, call.ran) for call in turn.calls] == [
            ("Write", "The user declined.", True, False),
            ("Nope", "<tool_use_error>Erro", True, False),
            ("Read", "<tool_use_error>Inpu", True, False),
            ("Read", "File does not exist.", True, True),
            ("Read", "1\tx", False, True),
        ]
        assert turn.calls[0].input == {"file_path": "/project/q.txt", "content": "1"}

    def test_usage_is_counted_once_for_each_request(self) -> None:
        _, turn, *_ = session_turns(view("tools").entries)
        assert turn.usage == Usage(0, 157 + 10, 22100 + 22213, 113 + 377)
        assert turn.model == "claude-sonnet-4-5"

    def test_interrupted_answers(self) -> None:
        turns = list(session_turns(view("tools").entries))
        assert [turn.is_complete for turn in turns] == [True, True, False, False, False, True]
        assert [bool(turn.end_id) for turn in turns] == [True, True, False, False, False, True]
        assert [turn.answers[-1].interrupted for turn in turns] == [False, False, True, True, True, False]
        assert all(call.ran for turn in turns[2:4] for call in turn.calls), "they may have run in part"

    def test_times_and_the_total(self) -> None:
        found = view("tools")
        times = [turn.began_at or 0 for turn in session_turns(found.entries)]
        assert times == sorted(times)
        assert times[0] == pytest.approx(1794992434.95)
        assert found.cost_total_usd == pytest.approx(0.1157772)
        assert found.tool_called


class TestSubagents:
    def test_they_belong_to_the_calls_that_started_them(self) -> None:
        first, second = view("subagents").subagents
        assert (first.name, second.name) == ("look at a", "second")
        calls = [call for entry in view("subagents").entries for call in entry.calls]
        assert [call.tool_id for call in calls] == [first.tool_id, second.tool_id]

    def test_their_usage_models_and_calls(self) -> None:
        first, second = view("subagents").subagents
        assert first.usage == Usage(0, 46, 10942, 11496)
        assert (first.models, second.models) == (("claude-sonnet-4-5",), ("claude-haiku-5-5",))
        assert [(call.name, call.output) for call in first.calls] == [("Read", "1\tx")]

    def test_their_messages_are_not_part_of_the_session(self) -> None:
        own = b"".join(path.read_bytes() for path in (FOLDER / "subagents").rglob("*.jsonl")).decode()
        assert not any(f'"uuid":"{each}"' in own for each in view("subagents").chain)

    def test_a_part_without_their_calls_has_none(self) -> None:
        path = FOLDER / "subagents.jsonl"
        raw = path.read_bytes()
        assert claude.read_session(path, raw.rindex(b'{"parentUuid"')).subagents == ()


class TestUseOutside:
    def test_commands_that_the_model_was_shown_are_prompts(self) -> None:
        assert prompts("commands") == ["!say one", "/review x y", "/tidy", "/nosuch thing", "!say plain"]

    def test_the_tui(self) -> None:
        assert prompts("outside") == [
            "!say one",
            "!say two",
            "please !say from tui",
            "<bash-input> echo hi</bash-input>",
            "what did it say",
            "/review abc",
        ]

    @pytest.mark.parametrize("name", ["commands", "outside"])
    def test_every_turn_is_complete(self, name: str) -> None:
        assert all(turn.is_complete and turn.end_id and turn.text for turn in session_turns(view(name).entries))

    def test_the_first_words_of_a_session_may_be_a_command(self, tmp_path: Path) -> None:
        lines = (FOLDER / "commands.jsonl").read_bytes().splitlines(keepends=True)
        start = next(n for n, line in enumerate(lines) if b"<command-message>review" in line)
        path = tmp_path / "s.jsonl"
        path.write_bytes(b"".join(lines[start:]))
        head = claude.session_head(path)
        assert head is not None
        assert head.first_words == "/review x y"

    def test_going_back_abandons_what_was_said_after(self) -> None:
        assert prompts("rewound") == ["!say one", "!say two", "please !say from tui", "instead"]

    def test_what_was_abandoned_is_beside_the_chain(self) -> None:
        beside = [(turn.prompt and turn.prompt.text, turn.text) for turn in session_turns(view("rewound").beside)]
        assert beside == [("second words", "ack: second words"), ("third words", "ack: third words")]
        assert not view("tools").beside, "the results of parallel tools belong to the chain"


class TestCompaction:
    def test_the_turns_before_it_are_read_and_cannot_end_a_copy(self) -> None:
        found = view("compacted")
        assert prompts("compacted") == ["!say one", "!say two", "!say three", "!say four"]
        assert not any(entry.end_id for entry in found.entries)
        assert found.compacted_at is not None
        before = found.entries[: found.compacted_after]
        assert [entry.text for entry in before if entry.is_prompt] == prompts("compacted")

    def test_the_turns_after_it_can_end_a_copy(self, tmp_path: Path) -> None:
        lines = (FOLDER / "compacted.jsonl").read_bytes().splitlines(keepends=True)
        second = [n for n, line in enumerate(lines) if b'"compact_boundary"' in line][1]
        path = tmp_path / "s.jsonl"
        path.write_bytes(b"".join(lines[:second]))
        ends = [entry for entry in claude.read_session(path).entries if entry.end_id]
        assert [entry.text for entry in ends] == ["four"]


def whole_lines(name: str) -> list[int]:
    """Where lines end in the file."""
    raw = (FOLDER / f"{name}.jsonl").read_bytes()
    return [n + 1 for n, byte in enumerate(raw) if byte == 10][:-1]


@pytest.mark.parametrize("name", ["tools", "subagents", "commands", "outside", "rewound", "compacted"])
class TestParts:
    def test_a_part_has_the_lines_of_the_whole_chain_from_there(self, name: str) -> None:
        path, whole = FOLDER / f"{name}.jsonl", view(name)
        for at in whole_lines(name):
            part = claude.read_session(path, at)
            rest = whole.chain[len(whole.chain) - len(part.chain) :]
            assert part.chain == rest
            assert part.last_entry == (whole.last_entry if part.chain else None)
            before = whole.chain[: len(whole.chain) - len(part.chain)]
            assert part.parent == (before[-1] if before and part.chain else None)

    def test_the_session_grew_from_each_line_that_is_still_on_the_chain(self, name: str, tmp_path: Path) -> None:
        """The mark after some turn, and what is read when the next turns were added."""
        raw, whole = (FOLDER / f"{name}.jsonl").read_bytes(), view(name)
        path = tmp_path / "s.jsonl"
        for at in whole_lines(name):
            path.write_bytes(raw[:at])
            left = claude.read_session(path)
            path.write_bytes(raw)
            part = claude.read_session(path, at)
            state = compare(part, left.last_entry)
            if left.last_entry is not None and left.last_entry not in whole.chain:
                assert state is SessionState.BRANCHED or not part.chain
            elif part.chain and left.last_entry != part.last_entry:
                assert state in (SessionState.GREW, SessionState.COMPACTED)


def test_entries_are_in_the_order_of_the_chain() -> None:
    for name in ("tools", "subagents", "compacted"):
        found = view(name)
        entries: list[SessionEntry] = list(found.entries)
        assert [entry.id for entry in entries] == [each for each in found.chain if each in {e.id for e in entries}]
        assert len(set(found.chain)) == len(found.chain)
