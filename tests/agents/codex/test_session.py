"""Codex's session files: where they are, and what they contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.agents.codex import Codex
from clew.core.costs.usage import Usage
from clew.core.history import Role

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
        assert codex.read_session(path, size).entries == (second,)
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
