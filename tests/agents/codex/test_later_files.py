"""Somebody went back in Codex's TUI: the session continues in another file, which begins within an earlier one."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from clew.agents.codex import Codex
from clew.core.history import Role
from clew.core.ids import PinId, SessionId, ThreadId
from clew.core.pins import Mark, Observed, Pin, PinState, Runtime
from clew.core.session import SessionState, session_turns
from clew.engine.sessions.observation import mark_of, observe

codex = Codex()

SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"  # made on 2026-11-15
FIRST = "01a1deeb-0000-7000-8000-000000000001"
SECOND = "01a1e7eb-0000-7000-8000-000000000002"  # made two days later
Line = dict[str, Any]


class Session:
    """A session's files in a temporary folder. Every line has its number."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def path(self, file_id: str) -> Path:
        day = "17" if file_id == SECOND else "15"
        name = SESSION if file_id == SESSION else f"{SESSION}_{file_id}"
        return self.home / "sessions" / "2026" / "11" / day / f"rollout-2026-11-{day}T11-14-57-{name}.jsonl"

    def begin(self, file_id: str, *turns: str, base: str | None = None, until: int = 0) -> Path:
        """A file with these turns, which follows the first `until` lines of another file."""
        path = self.path(file_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        meta: Line = {"id": SESSION, "cwd": "/w"}
        if base is not None:
            meta["history_base"] = {"thread_id": base, "end_ordinal_exclusive": until, "end_byte_offset": 0}
        path.write_text(json.dumps({"ordinal": until, "type": "session_meta", "payload": meta}) + "\n")
        self.add(file_id, *turns)
        return path

    def add(self, file_id: str, *turns: str) -> None:
        path = self.path(file_id)
        last = json.loads(path.read_text().splitlines()[-1])["ordinal"]
        lines = [line for turn in turns for line in turn_lines(turn)]
        with path.open("a") as file:
            file.writelines(json.dumps(line | {"ordinal": last + 1 + n}) + "\n" for n, line in enumerate(lines))

    def said(self) -> list[str]:
        path = codex.session_file(str(self.home), "/w", SESSION)
        assert path is not None
        return [entry.text for entry in codex.read_session(path).entries if entry.role is Role.ASSISTANT]


def new_id() -> str:
    return f"msg_{uuid.uuid4()}"


def turn_lines(name: str) -> list[Line]:
    """Three lines: a prompt, its answer, the end of the turn."""
    asked = [{"type": "input_text", "text": f"ask {name}"}]
    answer = [{"type": "output_text", "text": name}]
    return [
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": asked, "id": new_id()}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "assistant", "content": answer, "id": new_id()},
        },
        {"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "x"}},
    ]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = Session(tmp_path)
    found.begin(SESSION, "one", "two", "three")
    return found


class TestFiles:
    def test_the_newest_file_is_the_sessions(self, session: Session, tmp_path: Path) -> None:
        own = session.path(SESSION)
        assert codex.session_file(str(tmp_path), "/w", SESSION) == own
        first = session.begin(FIRST, "four", base=SESSION, until=7)
        assert codex.session_file(str(tmp_path), "/w", SESSION) == first
        second = session.begin(SECOND, "five", base=FIRST, until=8)
        assert codex.session_file(str(tmp_path), "/w", SESSION) == second
        assert codex.earlier_files(second) == [own, first]
        assert codex.earlier_files(first) == [own]
        assert codex.earlier_files(own) == []
        for file_id in (FIRST, SECOND):
            assert codex.session_file(str(tmp_path), "/w", file_id) is None, "this is no session's id"

    def test_a_list_shows_the_session_once_with_its_first_words(self, session: Session, tmp_path: Path) -> None:
        session.begin(FIRST, "four", base=SESSION, until=4)
        second = session.begin(SECOND, "five", base=FIRST, until=4)
        assert list(codex.session_paths(str(tmp_path))) == [second]
        head = codex.session_head(second)
        assert head is not None
        assert (head.id, head.first_words) == (SESSION, "ask one")

    def test_it_is_not_portable(self, session: Session) -> None:
        assert codex.portable_form(session.path(SESSION).read_bytes()) is not None
        assert codex.portable_form(session.begin(FIRST, "four", base=SESSION, until=7).read_bytes()) is None


class TestChain:
    def test_it_begins_within_the_earlier_files(self, session: Session) -> None:
        assert session.said() == ["one", "two", "three"]
        session.begin(FIRST, "four", base=SESSION, until=7)
        assert session.said() == ["one", "two", "four"]
        session.begin(SECOND, "five", base=FIRST, until=11)
        assert session.said() == ["one", "two", "four", "five"]

    def test_the_second_time_somebody_may_go_back_further(self, session: Session) -> None:
        session.begin(FIRST, "four", base=SESSION, until=7)
        session.begin(SECOND, "five", base=SESSION, until=4)
        assert session.said() == ["one", "five"]

    def test_without_an_earlier_file_it_is_empty(self, session: Session, tmp_path: Path) -> None:
        later = session.begin(FIRST, "four", base="01a1deea-0000-7000-8000-000000000009", until=7)
        assert codex.read_session(later).entries == ()
        session.path(SESSION).unlink()
        assert codex.session_file(str(tmp_path), "/w", SESSION) is None


class TestObservation:
    def pin(self, session: Session) -> Pin:
        """The pin after a turn that ended with what the session holds now."""
        path = codex.session_file(str(session.home), "/w", SESSION)
        assert path is not None
        runtime = Runtime("codex", "/codex", "codex", True, str(session.home))
        pin = Pin(PinId("p"), ThreadId("t"), "codex", "m", SessionId(SESSION), PinState.GOOD, "/w", runtime)
        return pin.replace(mark=mark_of(codex, path, codex.read_session(path)))

    def outside(self, observed: Observed) -> list[str]:
        return [turn.text for turn in observed.outside]

    def test_our_last_turn_was_taken_back(self, session: Session) -> None:
        pin = self.pin(session)
        session.begin(FIRST, "four", base=SESSION, until=7)
        assert observe(codex, pin).state is SessionState.BRANCHED

    def test_only_later_turns_were_taken_back(self, session: Session) -> None:
        pin = self.pin(session)
        session.add(SESSION, "four", "five")
        later = session.begin(FIRST, "six", base=SESSION, until=13)
        found = observe(codex, pin)
        assert (found.state, self.outside(found)) == (SessionState.GREW, ["four", "six"])
        assert found.mark is not None and found.mark.size_bytes == later.stat().st_size
        followed = pin.replace(mark=found.mark)
        assert observe(codex, followed).state is SessionState.SAME
        session.add(FIRST, "seven")
        assert self.outside(observe(codex, followed)) == ["seven"]

    def test_the_same_prompt_again_is_a_new_turn(self, session: Session) -> None:
        pin = self.pin(session)
        session.add(SESSION, "three", "four")
        session.begin(FIRST, "three", base=SESSION, until=13)
        assert self.outside(observe(codex, pin)) == ["three", "three"]

    def test_a_second_branch_from_before_our_file(self, session: Session) -> None:
        session.begin(FIRST, "four", base=SESSION, until=7)
        pin = self.pin(session)
        session.begin(SECOND, "five", base=SESSION, until=4)
        assert observe(codex, pin).state is SessionState.BRANCHED

    def test_an_altered_earlier_file_is_damage(self, session: Session) -> None:
        pin = self.pin(session)
        session.add(SESSION, "four", "five")
        session.begin(FIRST, "six", base=SESSION, until=13)
        path = session.path(SESSION)
        path.write_text(path.read_text().replace("ask two", "ask TWO"))
        assert observe(codex, pin).state is SessionState.DAMAGED

    def test_a_mark_of_an_older_clew_has_no_digest(self, session: Session) -> None:
        pin = self.pin(session)
        assert pin.mark is not None
        pin = pin.replace(mark=Mark(pin.mark.size_bytes, pin.mark.last_entry))
        session.begin(FIRST, "four", base=SESSION, until=7)
        assert observe(codex, pin).state is SessionState.BRANCHED


def test_turns_of_a_later_file_are_complete(session: Session) -> None:
    later = session.begin(FIRST, "four", base=SESSION, until=7)
    assert [turn.is_complete for turn in session_turns(codex.read_session(later).entries)] == [True] * 3
