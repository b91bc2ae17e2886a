"""The reader and the real CLI agree: on what was said and called, where a copy can end, and where the CLI continues."""

from __future__ import annotations

import copy
import json
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clew.agents.claude import Claude
from clew.core.session import SessionView, session_turns
from clew.testing.stage import MODEL, Stage

claude = Claude()
Line = dict[str, Any]


def new_id() -> str:
    return str(uuid.uuid4())


class Conversation:
    """One session of the real CLI, by plain `claude -p`: one process for each turn."""

    def __init__(self, stage: Stage, session_id: str | None = None) -> None:
        self.stage, self.id = stage, session_id or new_id()
        self.began = session_id is not None

    def ask(self, prompt: str, *flags: str) -> subprocess.CompletedProcess[str]:
        begin = [f"--resume={self.id}"] if self.began else ["--session-id", self.id]
        self.began = True
        return self._run(prompt, *begin, *flags)

    def ask_a_copy(self, prompt: str, end_id: str) -> tuple[Conversation, subprocess.CompletedProcess[str]]:
        made = Conversation(self.stage, new_id())
        flags = ["--fork-session", "--session-id", made.id, f"--resume-session-at={end_id}"]
        return made, self._run(prompt, f"--resume={self.id}", *flags)

    def _run(self, prompt: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.stage.binary), "-p", "--model", MODEL, "--permission-mode", "acceptEdits", *flags],
            input=prompt, cwd=self.stage.work, env=self.stage.environ, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    @property
    def path(self) -> Path:
        path = claude.session_file(str(self.stage.home / ".claude"), str(self.stage.work), self.id)
        assert path is not None
        return path

    def read(self, since: int = 0) -> SessionView:
        return claude.read_session(self.path, since)


@pytest.fixture
def conversation(real: Stage) -> Conversation:
    return Conversation(real)


def three_reads(stage: Stage) -> str:
    paths = [stage.work / f"{name}.txt" for name in ("first", "second", "third")]
    for path in paths:
        path.write_text(f"words of {path.stem}")
    return "\n".join(["look", *(f"!tool Read {json.dumps({'file_path': str(path)})}" for path in paths)])


def shown(stage: Stage) -> list[str]:
    """What the model was shown last, without the newest prompt."""
    return [text for _, text in stage.shown][:-1]


@pytest.mark.real
class TestRealSession:
    def test_no_parallel_call_and_no_result_is_lost(self, conversation: Conversation) -> None:
        conversation.ask("!say hello")
        before = conversation.read()
        conversation.ask(three_reads(conversation.stage))
        whole, part = conversation.read(), conversation.read(before.size_bytes)
        [_, turn], [added] = session_turns(whole.entries), session_turns(part.entries)
        for found in (turn, added):
            assert [call.input["file_path"].rpartition("/")[2] for call in found.calls] == [
                "first.txt", "second.txt", "third.txt",
            ]  # fmt: skip
            assert [call.output for call in found.calls] == [f"1\twords of {n}" for n in ("first", "second", "third")]
            assert all(call.ran and not call.is_error for call in found.calls)
        assert part.chain == whole.chain[-len(part.chain) :]
        assert part.parent == before.last_entry
        assert part.tool_called and not before.tool_called
        assert turn.usage.output_tokens > 0
        assert (whole.cost_total_usd or 0) > (before.cost_total_usd or 0) > 0

    def test_a_copy_can_end_with_each_end_id(self, conversation: Conversation) -> None:
        stage = conversation.stage
        conversation.ask("!say one")
        conversation.ask(three_reads(stage))
        conversation.ask("!say three")
        ends = self.ends(conversation)
        assert len(ends) == 3
        fork, _ = conversation.ask_a_copy("!say other", ends[1])
        read = shown(stage)[-1]
        assert read.startswith("done: "), "the copy ends with the turn that called tools"
        assert self.ends(fork)[:2] == ends[:2]
        self.check_ends(conversation, ["one", read, "three"])
        self.check_ends(fork, ["one", read, "other"])

    def test_no_copy_can_end_before_a_compaction(self, conversation: Conversation) -> None:
        """The CLI keeps the last answer after the summary, and could end a copy with it: without the prompt before."""
        conversation.ask("!say one")
        conversation.ask("!say two")
        old = self.ends(conversation)
        conversation.ask("/compact")
        assert self.ends(conversation) == []
        assert conversation.read().compacted_after == 4
        conversation.ask("!say three")
        self.check_ends(conversation, ["three"])
        assert "No message found" in conversation.ask_a_copy("!say other", old[0])[1].stderr

    def ends(self, conversation: Conversation) -> list[str]:
        return [entry.end_id for entry in conversation.read().entries if entry.end_id]

    def check_ends(self, conversation: Conversation, last: Sequence[str]) -> None:
        ends = self.ends(conversation)
        assert len(ends) == len(last)
        for end_id, text in zip(ends, last, strict=True):
            _, done = conversation.ask_a_copy("!say copied", end_id)
            assert (done.returncode, done.stdout.strip()) == (0, "copied"), done.stderr
            assert shown(conversation.stage)[-1] == text

    def test_a_subagents_usage_and_calls_are_read(self, conversation: Conversation) -> None:
        note = conversation.stage.work / "note.txt"
        note.write_text("clew")
        inner = f"!tool Read {json.dumps({'file_path': str(note)})}"
        task = {"description": "look", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": False}
        conversation.ask(f"go\n!tool Agent {json.dumps(task)}")
        view = conversation.read()
        [agent] = view.subagents
        [call] = [call for entry in view.entries for call in entry.calls]
        assert (agent.tool_id, agent.name, agent.models) == (call.tool_id, "look", (MODEL,))
        assert [(each.name, each.output) for each in agent.calls] == [("Read", "1\tclew")]
        assert agent.usage.output_tokens > 0


def answer(lines: list[Line], text: str) -> Line:
    return next(each for each in lines if each["type"] == "assistant" and each["message"]["content"][0]["text"] == text)


def branch(lines: list[Line]) -> list[Line]:
    """A turn that was continued from the first answer."""
    prompt = copy.deepcopy(next(each for each in lines if each["type"] == "user"))
    prompt |= {"uuid": new_id(), "parentUuid": answer(lines, "one")["uuid"]}
    prompt["message"]["content"] = "!say other"
    said = copy.deepcopy(answer(lines, "two")) | {"uuid": new_id(), "parentUuid": prompt["uuid"]}
    said["message"] |= {"id": "msg_other", "content": [{"type": "text", "text": "other"}]}
    return [prompt, said]


def names(lines: list[Line], text: str, **more: Any) -> Line:
    found = next(each for each in reversed(lines) if each["type"] == "last-prompt")
    return {**found, "leafUuid": answer(lines, text)["uuid"], **more}


@pytest.mark.real
@pytest.mark.parametrize(
    ("change", "last"),
    [
        (lambda lines: lines, "three"),
        (lambda lines: [*lines, names(lines, "one")], "three"),
        (lambda lines: [*lines, names(lines, "one", explicit=True)], "one"),
        (lambda lines: [*lines, *branch(lines)], "three"),
        (lambda lines: [*(each for each in lines if each["type"] != "last-prompt"), *branch(lines)], "other"),
        (lambda lines: [*lines, *(more := branch(lines)), names([*lines, *more], "other")], "other"),
        (lambda lines: [*lines, *branch(lines), names(lines, "two")], "two"),
        (lambda lines: [each for each in lines if each is not answer(lines, "two")], "three"),
    ],
    ids=["untouched", "older row", "chosen row", "branch", "branch alone", "named branch", "inner row", "lost row"],
)
def test_the_cli_continues_where_the_chain_ends(
    conversation: Conversation, change: Callable[[list[Line]], list[Line]], last: str
) -> None:
    for word in ("one", "two", "three"):
        conversation.ask(f"!say {word}")
    lines = [json.loads(raw) for raw in conversation.path.read_bytes().splitlines()]
    conversation.path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in change(lines)))
    left = conversation.read()
    assert left.entries[-1].text == last
    conversation.ask("!say next")
    texts = [text.strip() for text in shown(conversation.stage)]  # the CLI joins prompts that are not answered
    assert texts == [entry.text for entry in left.entries]
    grown = conversation.read(left.size_bytes)
    assert grown.parent == left.last_entry
    assert conversation.read().chain[: len(left.chain)] == left.chain
