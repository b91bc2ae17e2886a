"""Codex's session files: where they are, and what they contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import OUTPUT_CHARS, SessionCall
from clew.agents.codex import Codex
from clew.core.branching.edits import EditKind, FileEdit
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.session import SessionState, compare

codex = Codex()

SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"  # made on 2026-11-15
COPY = "01a1deea-e111-7000-8000-794707014e7d"
NAME = f"rollout-2026-11-15T11-14-57-{SESSION}.jsonl"


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-11-15T11:14:57.{len(str(payload)):03d}Z", "type": kind, "payload": payload}


def said(role: str, text: str, kind: str | None = "user.text", **more: Any) -> dict[str, Any]:
    note = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}} if kind else {}
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return line("response_item", type="message", role=role, content=[part], id=f"msg_{text}", **note, **more)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return line("event_msg", type=kind, **more)


def count(total: dict[str, int] | None) -> dict[str, Any]:
    return event("token_count", info={"total_token_usage": total} if total else None)


def item(kind: str, item_id: str, **payload: Any) -> dict[str, Any]:
    return line("response_item", type=kind, id=item_id, **payload)


def noted(kind: str, call_id: str, **fields: Any) -> dict[str, Any]:
    return event("item_completed", item={"type": kind, "id": call_id, **fields})


def record(spent: int, output: int) -> dict[str, Any]:
    return line("token_usage_record", usage={"input_tokens": spent, "cached_input_tokens": 1, "output_tokens": output})


def turn(number: int, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    started = event("task_started", turn_id=TURN_IDS[number])
    return [started, *lines, event("task_complete", turn_id=TURN_IDS[number], last_agent_message="x")]


TURN_IDS = [f"01a1deea-df82-76f2-9bd3-79470701000{n}" for n in range(5)]
NOTES = [
    line("session_meta", id=SESSION),
    said("developer", "<permissions instructions>", "permissions.instructions"),
    said("user", "<environment_context>…", "environments.environment_context"),
    line("turn_context", model="gpt-x"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


def write(path: Path, *lines: dict[str, Any], mode: str = "w") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)
    return path


class TestLocation:
    @pytest.mark.parametrize("day", ["2026/11/15", "2026/11/14", "2026/11/16", "1999/01/01"])
    def test_found_by_its_day_and_anywhere(self, tmp_path: Path, day: str) -> None:
        path = write(tmp_path / "sessions" / day / NAME, *NOTES)
        assert codex.session_file(str(tmp_path), "/anywhere", SESSION) == path

    def test_other_ids_are_not_found(self, tmp_path: Path) -> None:
        write(tmp_path / "sessions" / "2026/11/15" / NAME, *NOTES)
        for word in (SESSION[:-1] + "0", "*", "last", "", "ffffffff-ffff-ffff-ffff-ffffffffffff", f"*{SESSION[1:]}"):
            assert codex.session_file(str(tmp_path), "/anywhere", word) is None
        assert codex.session_file(str(tmp_path / "nowhere"), "/anywhere", SESSION) is None

    def test_config_dir(self) -> None:
        assert codex.config_dir({"HOME": "/h"}) == "/h/.codex"
        assert codex.config_dir({"HOME": "/h", "CODEX_HOME": "/c"}) == "/c"


class TestEntries:
    def test_prompts_and_codexs_own_notes_are_distinguished(self, path: Path) -> None:
        write(
            path,
            *NOTES,
            said("user", "hello"),
            said("user", "<skill>…", "skills.selected_skill_instructions"),
            said("assistant", "hi", "unknown"),
            said("user", "<turn_aborted>…", "generic.turn_aborted"),
        )
        view = codex.read_session(path)
        assert [entry.text for entry in view.entries if entry.is_prompt] == ["hello"]
        assert [entry.text for entry in view.entries if entry.role is Role.ASSISTANT] == ["hi"]
        assert view.entries[1].id == codex.prompt_id("hello", "u")
        assert (view.last_entry, view.model, view.size_bytes) == ("msg_<turn_aborted>…", "gpt-x", path.stat().st_size)

    def test_notes_without_marks_are_recognised_by_their_beginning(self, path: Path) -> None:
        write(path, said("user", "<environment_context>x", None), said("user", "# AGENTS.md instructions", None))
        write(path, said("user", "<b>bold</b> words", None), mode="a")
        assert [entry.is_prompt for entry in codex.read_session(path).entries] == [False, False, True]

    def test_answer_is_complete_when_the_turn_is(self, path: Path) -> None:
        write(path, said("user", "a"), said("assistant", "b"), said("assistant", "c"))
        assert not codex.read_session(path).entries[-1].complete
        write(path, event("task_complete", error={"message": "boom"}), mode="a")
        assert not codex.read_session(path).entries[-1].complete
        write(path, event("task_complete", last_agent_message="c"), mode="a")
        assert codex.read_session(path).entries[-1].complete

    def test_turns_that_somebody_removed_are_left_out(self, path: Path) -> None:
        write(path, said("user", "a"), said("assistant", "b"), said("user", "c"), said("assistant", "d"))
        before = codex.read_session(path).last_entry
        write(path, event("thread_rolled_back", num_turns=1), mode="a")
        view = codex.read_session(path)
        assert [entry.text for entry in view.entries] == ["a", "b"]
        assert view.last_entry != before, "so Clew sees that the session continued without it"

    def test_the_summary_of_a_compaction_is_not_an_answer(self, path: Path) -> None:
        write(path, said("user", "a"), said("assistant", "b"), said("assistant", "all so far"), count(None))
        write(path, line("compacted", message="Here is the summary:\nall so far"), mode="a")
        assert [entry.text for entry in codex.read_session(path).entries] == ["a", "b"]
        write(path, line("compacted", message="Here is the summary:\nanother"), mode="a")
        assert [entry.text for entry in codex.read_session(path).entries] == ["a", "b"]

    def test_bookkeeping_is_not_an_entry(self, path: Path) -> None:
        write(path, said("user", "a"))
        before = codex.read_session(path)
        write(path, event("thread_settings_applied"), line("world_state", full=True), count(None), mode="a")
        after = codex.read_session(path)
        assert (after.entries, after.last_entry) == (before.entries, before.last_entry)

    def test_the_part_after_an_offset_and_the_offsets_of_entries(self, path: Path) -> None:
        size = write(path, said("user", "again")).stat().st_size
        write(path, said("user", "again"), mode="a")
        first, second = codex.read_session(path).entries
        assert (first.offset, second.offset, first.id) == (0, size, second.id)
        assert codex.read_session(path, size).entries == (second.replace(place=0),)
        assert len(codex.read_session(path, 10**9).entries) == 2, "the file was rewritten, so all of it is read"

    def test_tool_calls_are_recognised(self, path: Path) -> None:
        size = write(path, said("user", "a"), line("response_item", type="reasoning")).stat().st_size
        assert not codex.read_session(path).tool_called
        write(path, line("response_item", type="custom_tool_call", id="c"), mode="a")
        assert codex.read_session(path, size).tool_called

    def test_bad_lines_are_skipped(self, path: Path) -> None:
        write(path, said("user", "a"))
        with path.open("ab") as file:
            file.write(b'\n[]\n{"type":"response_item"}\n{"type":"event_msg","payload":7}\n\xff\xff\n')
            file.write(json.dumps(said("assistant", "half \ud83d")).encode() + b"\n")
            file.write(json.dumps(said("user", "torn")).encode()[:-9])
        assert [entry.text[:4] for entry in codex.read_session(path).entries] == ["a", "half"]

    def test_missing_file_is_an_oserror(self, path: Path) -> None:
        for read in (codex.read_session, codex.session_usage):
            with pytest.raises(OSError):
                read(path)


class TestChain:
    """What is on the chain, and how it stands to the line where our last turn ended."""

    TURNS = (*turn(0, said("user", "a"), said("assistant", "b")), *turn(1, said("user", "c"), said("assistant", "d")))

    def test_it_is_every_line_that_the_model_is_shown(self, path: Path) -> None:
        write(path, *NOTES, *self.TURNS, item("function_call", "fc", call_id="1"))
        view = codex.read_session(path)
        shown = [
            "msg_<permissions instructions>",
            "msg_<environment_context>…",
            "msg_a",
            "msg_b",
            "msg_c",
            "msg_d",
            "fc",
        ]
        assert list(view.chain) == shown
        assert (view.last_entry, view.parent) == ("fc", None)
        assert compare(view, "fc") is SessionState.SAME
        assert compare(view, "msg_b") is SessionState.GREW

    def test_a_part_follows_the_last_line_before_it(self, path: Path) -> None:
        size = write(path, *self.TURNS, count(None), record(1, 1)).stat().st_size
        assert codex.read_session(path, size).parent == "msg_d"
        assert compare(codex.read_session(path, size), "msg_d") is SessionState.SAME
        write(path, *turn(2, said("user", "e"), said("assistant", "f")), mode="a")
        view = codex.read_session(path, size)
        assert (view.chain, view.parent) == (("msg_e", "msg_f"), "msg_d")
        assert compare(view, "msg_d") is SessionState.GREW

    def test_the_line_before_a_part_may_be_far_away(self, path: Path) -> None:
        write(path, said("user", "a"), event("other", text="x" * 1_500_000))
        size = write(path, item("reasoning", "long", text="x" * 300_000), event("other"), mode="a").stat().st_size
        assert codex.read_session(path, size).parent == "long"
        assert codex.read_session(path, size - 300_500).parent == "msg_a"

    def test_removed_turns_are_not_on_it(self, path: Path) -> None:
        size = write(path, *NOTES, *self.TURNS).stat().st_size
        write(path, event("thread_rolled_back", num_turns=1), mode="a")
        for view in (codex.read_session(path), codex.read_session(path, size)):
            assert view.chain[-2:] == ("msg_a", "msg_b")
            assert view.parent is None
            assert compare(view, "msg_d") is SessionState.BRANCHED
            assert compare(view, "msg_b") is SessionState.SAME, "the model is shown exactly what we left"
        end = path.stat().st_size
        write(path, *turn(2, said("user", "e"), said("assistant", "f")), mode="a")
        assert codex.read_session(path, end).parent == "msg_b"
        assert compare(codex.read_session(path, size), "msg_d") is SessionState.BRANCHED

    def test_removed_turns_that_came_after_ours_change_nothing(self, path: Path) -> None:
        size = write(path, *self.TURNS).stat().st_size
        write(path, said("user", "e"), event("thread_rolled_back", num_turns=1), mode="a")
        view = codex.read_session(path, size)
        assert (view.chain, view.parent, view.last_entry) == ((), "msg_d", "msg_d")
        assert compare(view, "msg_d") is SessionState.SAME

    def test_a_compaction_is_on_it(self, path: Path) -> None:
        size = write(path, *self.TURNS).stat().st_size
        summary = [said("assistant", "all so far"), record(50, 5), line("compacted", message="S: all so far")]
        write(path, *turn(2, *summary, said("user", "e"), said("assistant", "f"), record(9, 3)), mode="a")
        view = codex.read_session(path)
        assert view.compacted_at in view.chain
        assert (view.compacted_after, len(view.entries)) == (4, 6)
        assert compare(view, "msg_d") is SessionState.COMPACTED
        assert compare(view, "msg_f") is SessionState.SAME
        assert compare(codex.read_session(path, size), "msg_d") is SessionState.COMPACTED
        assert view.entries[-1].usage == Usage(57, 8, 2), "and its tokens are the turn's"
        write(path, event("thread_rolled_back", num_turns=2), mode="a")
        assert codex.read_session(path).compacted_at is None


class TestTurns:
    def test_a_complete_turn_has_the_id_with_which_a_copy_can_end(self, path: Path) -> None:
        write(path, *turn(0, said("user", "a"), said("assistant", "b"), said("assistant", "c")))
        write(path, event("task_started", turn_id=TURN_IDS[1]), said("user", "d"), said("assistant", "e"), mode="a")
        entries = codex.read_session(path).entries
        assert [entry.end_id for entry in entries] == [None, None, TURN_IDS[0], None, None]
        write(path, event("task_complete", turn_id=TURN_IDS[1], error={"message": "boom"}), mode="a")
        assert codex.read_session(path).entries[-1].end_id is None

    def test_a_turn_without_an_answer_does_not_end_the_one_before(self, path: Path) -> None:
        write(path, *turn(0, said("user", "a"), said("assistant", "b")), *turn(1, line("compacted", message="")))
        assert codex.read_session(path).entries[-1].end_id == TURN_IDS[0]

    @pytest.mark.parametrize("turn_id", [None, "", "--x", 7])
    def test_an_id_that_codex_did_not_make_is_not_one(self, path: Path, turn_id: object) -> None:
        write(path, said("user", "a"), said("assistant", "b"), event("task_complete", turn_id=turn_id))
        entry = codex.read_session(path).entries[-1]
        assert (entry.complete, entry.end_id) == (True, None)

    def test_a_turn_that_was_cut_off_is_interrupted(self, path: Path) -> None:
        write(path, event("task_started"), said("user", "a"), said("assistant", "b"))
        note = said("user", "<turn_aborted>…", "generic.turn_aborted")
        assert not codex.read_session(path).entries[-1].interrupted, "it may be running"
        write(path, note, event("turn_aborted", reason="interrupted"), mode="a")
        write(path, event("task_started"), said("user", "c"), item("function_call", "fc", call_id="1"), mode="a")
        write(path, *turn(2, said("user", "d"), said("assistant", "e")), mode="a")
        entries = codex.read_session(path).entries
        assert [entry.interrupted for entry in entries] == [False, True, False, False, True, False, False]
        assert [entry.complete for entry in entries if entry.role is Role.ASSISTANT] == [False, False, True]

    def test_model_and_time_of_an_answer(self, path: Path) -> None:
        write(path, *NOTES, said("user", "a"), said("assistant", "b"))
        *_, asked, answered = codex.read_session(path).entries
        assert (asked.model, answered.model) == ("", "gpt-x")
        assert asked.at is not None and 1794741297 <= asked.at < 1794741298
        write(path, {**said("user", "c"), "timestamp": "soon"}, mode="a")
        assert codex.read_session(path).entries[-1].at is None

    def test_tokens_are_those_of_each_response(self, path: Path) -> None:
        repeated = event("token_count", info={"last_token_usage": {"input_tokens": 99, "output_tokens": 99}})
        write(
            path,
            event("task_started"),
            repeated,
            said("user", "a"),
            said("assistant", "b"),
            item("function_call", "fc", call_id="1"),
            record(11, 2),
            item("function_call_output", "fco", call_id="1", output="x"),
            repeated,
            said("assistant", "c"),
            record(21, 3),
            repeated,
        )
        entries = codex.read_session(path).entries
        assert [entry.usage for entry in entries] == [NO_USAGE, Usage(10, 2, 1), Usage(20, 3, 1)]

    def test_older_versions_only_write_counts(self, path: Path) -> None:
        counted = event("token_count", info={"last_token_usage": {"input_tokens": 9, "output_tokens": 2}})
        write(path, said("user", "a"), item("function_call", "fc", call_id="1"))
        write(path, item("function_call_output", "fco", call_id="1", output="x"), counted, mode="a")
        write(path, said("assistant", "b"), counted, counted, mode="a")
        assert [entry.usage for entry in codex.read_session(path).entries] == [NO_USAGE, Usage(9, 2), Usage(9, 2)]


class TestCalls:
    PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Delete File: /b.txt\n*** End Patch\n"

    def calls(self, path: Path, *lines: dict[str, Any]) -> tuple[SessionCall, ...]:
        write(path, line("turn_context", cwd="/w"), said("user", "a"), *lines)
        return tuple(call for entry in codex.read_session(path).entries for call in entry.calls)

    def test_a_command_is_as_in_the_stream(self, path: Path) -> None:
        [call] = self.calls(
            path,
            item("function_call", "fc", name="exec_command", arguments='{"cmd": "echo hi"}', call_id="1"),
            noted("CommandExecution", "1", command=["/bin/sh", "-c", "echo hi"], aggregated_output="hi", exit_code=3),
            item("function_call_output", "fco", call_id="1", output="Process exited with code 3\nOutput:\nhi"),
        )
        assert call == SessionCall("1", "exec_command", {"command": "/bin/sh -c 'echo hi'"}, "hi", is_error=True)

    def test_a_command_without_codexs_note(self, path: Path) -> None:
        one, two, three, four = self.calls(
            path,
            item("function_call", "a", name="shell", arguments='{"command": ["ls", "x y"]}', call_id="1"),
            item("local_shell_call", "b", action={"type": "exec", "command": ["ls"]}, call_id="2"),
            item("function_call", "c", name="exec_command", arguments='{"cmd": "ls"}', call_id="3"),
            item("function_call", "d", name="exec_command", arguments='{"cmd": "ls"}', call_id="4"),
            item("function_call_output", "e", call_id="2", output='{"output":"x","metadata":{"exit_code":1}}'),
            item("function_call_output", "f", call_id="1", output="Exit code: 0\n" + "x" * OUTPUT_CHARS),
            item("function_call_output", "g", call_id="3", output="aborted"),
        )
        assert (one.input, one.is_error, len(one.output or "")) == ({"command": "ls 'x y'"}, False, OUTPUT_CHARS)
        assert (two.name, two.input, two.is_error) == ("exec_command", {"command": "ls"}, True)
        assert (three.is_error, three.ran) == (True, True)
        assert (four.output, four.is_error) == (None, False), "it may be running"

    def test_files_of_a_patch(self, path: Path) -> None:
        made, refused = self.calls(
            path,
            item("custom_tool_call", "a", name="apply_patch", input=self.PATCH, call_id="1"),
            item("custom_tool_call", "b", name="apply_patch", input=self.PATCH, call_id="2"),
            noted("FileChange", "1", changes={"/w/a.txt": {"type": "add", "content": "x"}}, status="completed"),
            item("custom_tool_call_output", "c", call_id="1", output="Exit code: 0\nOutput:\nSuccess."),
            item("custom_tool_call_output", "d", call_id="2", output="patch rejected: read-only sandbox"),
        )
        assert made.input == {"path": "/w/a.txt", "changes": [{"path": "/w/a.txt", "kind": "add"}]}
        assert codex.edits(made.name, made.input) == (FileEdit("/w/a.txt", EditKind.WRITE),)
        assert (made.ran, made.is_error, refused.ran, refused.is_error) == (True, False, False, True)
        named = FileEdit("/w/a.txt", EditKind.WRITE), FileEdit("/b.txt", EditKind.DELETE)
        assert codex.edits(refused.name, refused.input) == named

    def test_other_tools(self, path: Path) -> None:
        mcp, web, none = self.calls(
            path,
            item("function_call", "a", name="mcp__s__t", arguments="{}", call_id="1"),
            noted("McpToolCall", "1", server="s", tool="t", arguments={"a": 1}, status="failed"),
            item("function_call_output", "b", call_id="1", output=[{"type": "input_text", "text": "no"}]),
            item("web_search_call", "c", action={"type": "search", "query": "q"}),
            item("function_call", "d", name="none", arguments="torn", call_id="2"),
            item("function_call_output", "e", call_id="2", output="unsupported call: none"),
        )
        assert mcp == SessionCall("1", "s.t", {"a": 1}, "no", is_error=True)
        assert web == SessionCall("c", "web_search", {"query": "q"})
        assert none == SessionCall(
            "2", "none", {"arguments": "torn"}, "unsupported call: none", is_error=True, ran=False
        )

    def test_calls_belong_to_the_message_of_their_response(self, path: Path) -> None:
        self.calls(
            path,
            said("assistant", "I look."),
            item("function_call", "a", name="x", arguments="{}", call_id="1"),
            item("function_call", "b", name="x", arguments="{}", call_id="2"),
            item("function_call_output", "c", call_id="1", output="x"),
            item("function_call_output", "d", call_id="2", output="x"),
            item("function_call", "e", name="x", arguments="{}", call_id="3"),
        )
        _, first, second = codex.read_session(path).entries
        assert (first.text, [call.tool_id for call in first.calls]) == ("I look.", ["1", "2"])
        assert (second.text, second.id, [call.tool_id for call in second.calls]) == ("", "e", ["3"])

    @pytest.mark.parametrize("odd", [None, 7, [], {}, [7], "x", {"type": 7}])
    def test_odd_values_are_no_error(self, path: Path, odd: Any) -> None:
        fields = {"call_id": "1", "name": odd, "arguments": odd, "input": odd, "action": odd}
        self.calls(path, *(item(kind, "a", **fields) for kind in ("function_call", "custom_tool_call", "odd_call")))
        note = {"command": odd, "changes": odd, "arguments": odd, "status": odd}
        for kind in ("CommandExecution", "FileChange", "McpToolCall", "Other"):
            write(path, noted(kind, "1", **note), event("item_completed", item=odd), mode="a")
        write(path, item("function_call_output", "b", call_id="1", output=odd), mode="a")
        assert codex.read_session(path).tool_called


class TestCopies:
    """A copy's own file has only what came after the fork; what came before is in the original's file."""

    def test_it_holds_the_original_up_to_the_fork(self, tmp_path: Path) -> None:
        copy = self.chain(tmp_path, 1)
        view = codex.read_session(copy)
        assert [entry.text for entry in view.entries] == ["one", "1", "two", "2"]
        assert not view.is_whole and not view.tool_called
        assert [entry.offset is not None and entry.offset >= 0 for entry in view.entries] == [False, False, True, True]
        assert codex.read_session(copy, view.size_bytes).entries == ()

    def test_copies_of_copies_are_followed(self, tmp_path: Path) -> None:
        view = codex.read_session(self.chain(tmp_path, 2))
        assert [entry.text for entry in view.entries] == ["one", "1", "two", "2", "three", "3"]

    def test_its_chain_begins_with_the_originals(self, tmp_path: Path) -> None:
        copy = self.chain(tmp_path, 1)
        assert codex.read_session(copy).chain == ("msg_one", "msg_1", "msg_two", "msg_2")
        first_line = len(copy.read_bytes().partition(b"\n")[0]) + 1
        assert codex.read_session(copy, first_line).parent == "msg_1"

    def test_a_copy_of_a_copy_may_end_within_the_first_session(self, tmp_path: Path) -> None:
        """Then nothing of the second session belongs to it."""
        copy = self.chain(tmp_path, 2)
        meta, *rest = copy.read_text().splitlines(keepends=True)
        copy.write_text(
            meta.replace('"forked_from_ordinal_exclusive": 20', '"forked_from_ordinal_exclusive": 2') + "".join(rest)
        )
        assert [entry.text for entry in codex.read_session(copy).entries] == ["one", "three", "3"]
        assert [size for _, size in codex.origin_files(copy)][1] == 0

    def test_without_its_original_it_holds_nothing(self, tmp_path: Path) -> None:
        copy = self.chain(tmp_path, 2)
        original = next(tmp_path.rglob(f"*{SESSION}*"))
        original.unlink()
        assert codex.read_session(copy).entries == ()

    def chain(self, tmp_path: Path, copies: int) -> Path:
        """Each original gets more lines after it was copied, numbered from where its copy begins."""
        sessions = tmp_path / "sessions" / "2026" / "11" / "15"
        names = [SESSION, COPY, COPY[:-1] + ("1" if COPY[-1] != "1" else "2")][: copies + 1]
        words = ("one", "two", "three")
        for place, name in enumerate(names):
            meta = {"forked_from_id": names[place - 1], "forked_from_ordinal_exclusive": place * 10} if place else {}
            lines = [
                line("session_meta", id=name, **meta),
                said("user", words[place]),
                said("assistant", str(place + 1)),
            ]
            later = [said("user", "later"), said("assistant", "never"), line("response_item", type="shell_call")]
            numbered = [{**each, "ordinal": place * 10 + n} for n, each in enumerate(lines)]
            numbered += [{**each, "ordinal": (place + 1) * 10 + n} for n, each in enumerate(later) if name != names[-1]]
            path = write(sessions / NAME.replace(SESSION, name), *numbered)
        return path


class TestUsage:
    def test_the_last_count_is_the_running_total(self, path: Path) -> None:
        write(path, *NOTES, count({"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}))
        write(path, count({"input_tokens": 30, "cached_input_tokens": 8, "output_tokens": 5}), count(None), mode="a")
        write(path, said("user", 'says "token_count"'), line("token_usage_record", usage={}), mode="a")
        assert codex.session_usage(path) == Usage(22, 5, 8, 0)

    def test_it_is_found_far_from_the_end(self, path: Path) -> None:
        write(path, count({"input_tokens": 10, "output_tokens": 3}), said("assistant", "x" * 500_000))
        assert codex.session_usage(path) == Usage(10, 3)

    def test_a_copy_continues_from_the_originals_count_at_the_fork(self, tmp_path: Path) -> None:
        sessions = tmp_path / "sessions" / "2026" / "11" / "15"
        before, later = (
            {**count({"input_tokens": n, "output_tokens": n}), "ordinal": ordinal} for n, ordinal in ((10, 3), (90, 9))
        )
        write(sessions / NAME, *NOTES, before, later)
        meta = {"id": COPY, "forked_from_id": SESSION, "forked_from_ordinal_exclusive": 5}
        copy = write(sessions / NAME.replace(SESSION, COPY), line("session_meta", **meta))
        assert codex.session_usage(copy) == Usage(10, 10)
        write(copy, count({"input_tokens": 20, "output_tokens": 20}), mode="a")
        assert codex.session_usage(copy) == Usage(20, 20)

    @pytest.mark.parametrize("origin", [COPY, SESSION, "last", "*", None, 7])
    def test_a_copy_whose_original_is_gone_has_used_nothing(self, tmp_path: Path, origin: object) -> None:
        path = tmp_path / "sessions" / NAME.replace(SESSION, COPY)
        write(path, line("session_meta", id=COPY, forked_from_id=origin))
        assert codex.session_usage(path) == Usage()

    def test_session_without_a_count_has_used_nothing(self, path: Path) -> None:
        assert codex.session_usage(write(path, *NOTES)) == Usage()


def with_images(text: str, *, outer: str = "</image>") -> dict[str, Any]:
    """A prompt as Codex writes it, which encloses each image."""
    made = said("user", text)
    image = [
        {"type": "input_text", "text": '<image name=[Image #1] path="/h/images/0a">'},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_text", "text": outer},
    ]
    made["payload"]["content"] = [*image, *image, *made["payload"]["content"]]
    made["payload"]["internal_chat_message_metadata_passthrough"]["content_item_kinds"] = ["user.text"] * 7
    return made


def test_a_prompt_with_images_is_found_by_its_text_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    lines = [*turn(0, with_images("what is this?"), said("assistant", "a cat"))]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    prompt, _ = codex.read_session(path).entries
    assert (prompt.id, prompt.text) == (codex.prompt_id("what is this?", ""), "what is this?")
    assert prompt.images == 2


def test_text_that_looks_like_an_enclosed_image_is_kept(tmp_path: Path) -> None:
    path = tmp_path / NAME
    typed = said("user", '<image name=[Image #1] path="x"></image> is how it looks')
    lines = [
        *turn(0, typed, said("assistant", "ok")),
        *turn(1, with_images("b", outer="no end"), said("assistant", "c")),
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    prompts = [entry for entry in codex.read_session(path).entries if entry.is_prompt]
    assert [prompt.text.startswith("<image name=") for prompt in prompts] == [True, True]
    assert [prompt.images for prompt in prompts] == [0, 2]
