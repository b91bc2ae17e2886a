"""Codex's subagents: each has a session file of its own, which belongs to the call that started it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import SubAgent
from clew.agents.codex import Codex
from clew.agents.codex.subagents import MAX_BYTES
from clew.core.branching.edits import EditKind, FileEdit
from clew.core.costs.usage import Usage
from clew.core.session import session_turns
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Reply, Request, Text, ToolUse
from clew.testing.stage import CODEX_MODEL
from conftest import make_stage

codex = Codex()

SESSION = "01a1eedd-f9f0-7603-adf3-227a18205075"  # made on 2026-11-18
AGENT = "01a1eedd-fb38-70f0-93e6-0bef1e64e1d8"
NESTED = "01a1eedd-fb40-79a1-b7e1-0d06691b4afd"
OTHER = "01a1eede-004b-78a2-82cd-e70e65b0fceb"
TURN = "01a1eedd-fb0a-7ae3-b820-1be00e50535c"
Line = dict[str, Any]


def line(kind: str, **payload: Any) -> Line:
    return {"timestamp": "2026-11-18T13:34:47.608Z", "type": kind, "payload": payload}


def event(kind: str, **more: Any) -> Line:
    return line("event_msg", type=kind, **more)


def meta(own_id: str, parent: str | None = None, *, forked: bool = False) -> Line:
    """The first line of a file, as Codex 0.163 writes it."""
    if parent is None:
        return line("session_meta", session_id=own_id, id=own_id, source="exec", thread_source="user")
    spawn = {"parent_thread_id": parent, "depth": 1, "agent_path": None, "agent_nickname": "Bohr", "agent_role": None}
    return line(
        "session_meta",
        session_id=SESSION,
        id=own_id,
        **({"forked_from_id": parent} if forked else {}),
        parent_thread_id=parent,
        source={"subagent": {"thread_spawn": spawn}},
        thread_source="subagent",
        agent_nickname="Bohr",
    )


def said(role: str, text: str) -> Line:
    kinds = {"content_item_kinds": ["user.text" if role == "user" else "unknown"]}
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return line(
        "response_item",
        type="message",
        id=f"msg_{text}",
        role=role,
        content=[part],
        internal_chat_message_metadata_passthrough=kinds,
    )


def counted(own_id: str, tokens: int) -> Line:
    return line("token_usage_record", thread_id=own_id, usage={"input_tokens": tokens, "output_tokens": 1})


def called(call_id: str, name: str, output: str, *notes: Line, **arguments: Any) -> list[Line]:
    given = json.dumps(arguments)
    call = line("response_item", type="function_call", id=f"fc_{call_id}", name=name, call_id=call_id, arguments=given)
    return [call, *notes, line("response_item", type="function_call_output", call_id=call_id, output=output)]


def spawned(call_id: str, agent_id: str, *, version: int = 1, noted: bool = True) -> list[Line]:
    """The call that starts a subagent. The second version's result does not name it."""
    if version == 2:
        item = {"type": "SubAgentActivity", "kind": "started", "agent_thread_id": agent_id, "agent_path": "/root/w"}
        output = json.dumps({"task_name": "/root/w"})
    else:
        item = {"type": "CollabAgentToolCall", "tool": "spawn_agent", "receiver_thread_ids": [agent_id]}
        output = json.dumps({"agent_id": agent_id, "nickname": "Bohr"})
    notes = [event("item_completed", item={"id": call_id, **item})] if noted else []
    return called(call_id, "spawn_agent", output, *notes, message="do it")


def turn(own_id: str, *lines: Line, tokens: int) -> list[Line]:
    context = line("turn_context", turn_id=TURN, cwd="/w", model="gpt-x")
    ended = event("task_complete", turn_id=TURN)
    return [event("task_started", turn_id=TURN), context, *lines, counted(own_id, tokens), ended]


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(own_id: str, *lines: Line, folder: Path = tmp_path / "sessions" / "2026" / "11" / "18") -> Path:
        path = folder / f"rollout-2026-11-18T13-34-47-{own_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        return path

    return written


def parent_of(write: Write, *spawns: Line) -> Path:
    return write(SESSION, meta(SESSION), *turn(SESSION, said("user", "go"), *spawns, tokens=100))


def worked(own_id: str, tokens: int, *more: Line) -> list[Line]:
    return turn(own_id, said("user", "do it"), *called("call_x", "exec_command", "x", cmd="ls"), *more, tokens=tokens)


class TestReading:
    @pytest.mark.parametrize(("version", "noted"), [(1, True), (1, False), (2, True)])
    def test_it_is_found_by_the_call_that_started_it(self, write: Write, version: int, noted: bool) -> None:
        path = parent_of(write, *spawned("call_1", AGENT, version=version, noted=noted))
        write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        view = codex.read_session(path)
        [agent] = view.subagents
        assert (agent.tool_id, agent.name, agent.models) == ("call_1", "Bohr", ("gpt-x",))
        assert agent.usage == Usage(input_tokens=7, output_tokens=1)
        assert [(call.name, call.input) for call in agent.calls] == [("exec_command", {"command": "ls"})]
        [made] = session_turns(view.entries, view.subagents)
        assert made.usage == Usage(input_tokens=107, output_tokens=2)
        assert [call.name for call in made.calls] == ["spawn_agent"]

    def test_the_messages_that_it_was_given_are_not_its_own(self, write: Write) -> None:
        """Codex copies them into its file. Here with calls and counts, to be sure."""
        path = parent_of(write, *spawned("call_1", AGENT))
        copied = [meta(SESSION), *turn(SESSION, said("user", "go"), *called("call_0", "x", "x"), tokens=50)]
        own = [event("thread_settings_applied", thread_id=AGENT), *worked(AGENT, 7)]
        write(AGENT, meta(AGENT, SESSION, forked=True), *copied, *own)
        [agent] = codex.read_session(path).subagents
        assert agent.usage.input_tokens == 7
        assert [call.tool_id for call in agent.calls] == ["call_x"]
        write(AGENT, meta(AGENT, SESSION, forked=True), *copied)
        assert codex.read_session(path).subagents == (), "it has not begun"

    def test_each_counts_once(self, write: Write) -> None:
        path = parent_of(write, *spawned("call_1", AGENT), *spawned("call_2", AGENT))
        write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        assert [agent.tool_id for agent in codex.read_session(path).subagents] == ["call_1"]

    def test_what_a_subagent_started_belongs_to_the_sessions_own_call(self, write: Write) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7, *spawned("call_2", NESTED)))
        write(NESTED, meta(NESTED, AGENT), *worked(NESTED, 9, *spawned("call_3", AGENT)))
        found = codex.read_session(path).subagents
        assert [(agent.tool_id, agent.usage.input_tokens) for agent in found] == [("call_1", 7), ("call_1", 9)]

    def test_only_those_that_the_read_part_started(self, write: Write) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        size = path.stat().st_size
        with path.open("a") as file:
            more = turn(SESSION, said("user", "on"), *spawned("call_2", OTHER), tokens=1)
            file.writelines(json.dumps(each) + "\n" for each in more)
        write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        write(OTHER, meta(OTHER, SESSION), *worked(OTHER, 9))
        assert [agent.tool_id for agent in codex.read_session(path).subagents] == ["call_1", "call_2"]
        assert [agent.tool_id for agent in codex.read_session(path, size).subagents] == ["call_2"]

    def test_a_copy_has_those_of_the_part_that_was_copied(self, write: Write) -> None:
        parent_of(write, *spawned("call_1", AGENT))
        write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        first = meta(OTHER)
        first["payload"]["forked_from_id"] = SESSION
        copy = write(OTHER, first, *turn(OTHER, said("user", "on"), tokens=1))
        assert [agent.tool_id for agent in codex.read_session(copy).subagents] == ["call_1"]

    def test_it_is_neither_a_session_to_adopt_nor_a_later_file_of_its_parent(
        self, write: Write, tmp_path: Path
    ) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        agent = write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        assert codex.session_head(path) is not None
        assert codex.session_head(agent) is None
        assert codex.session_file(str(tmp_path), "", SESSION) == path


class TestOtherFiles:
    @pytest.mark.parametrize("agent_id", ["", "../../x", "*", SESSION, OTHER, SESSION.upper()])
    def test_an_id_without_a_subagent_gives_nothing(self, write: Write, agent_id: str) -> None:
        path = parent_of(write, *spawned("call_1", agent_id))
        assert codex.read_session(path).subagents == ()

    def test_a_session_is_not_its_own_subagent(self, write: Write) -> None:
        own = turn(SESSION, said("user", "go"), *spawned("call_1", SESSION), tokens=100)
        assert codex.read_session(write(SESSION, meta(SESSION, SESSION), *own)).subagents == ()

    @pytest.mark.parametrize("first", [meta(AGENT, OTHER), meta(OTHER, SESSION), meta(AGENT), {"payload": 7}])
    def test_a_file_that_names_another_parent_gives_nothing(self, write: Write, first: Line) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        write(AGENT, first, *worked(AGENT, 7))
        assert codex.read_session(path).subagents == ()

    def test_a_link_is_not_followed(self, write: Write, tmp_path: Path) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        target = write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7), folder=tmp_path / "elsewhere")
        (path.parent / target.name).symlink_to(target)
        assert codex.read_session(path).subagents == ()

    def test_a_file_that_is_too_large_is_not_read(self, write: Write) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        agent = write(AGENT, meta(AGENT, SESSION), *worked(AGENT, 7))
        os.truncate(agent, MAX_BYTES + 1)  # it has a hole, so it needs no space
        assert codex.read_session(path).subagents == ()

    def test_garbage_gives_nothing(self, write: Write) -> None:
        path = parent_of(write, *spawned("call_1", AGENT))
        write(AGENT).write_bytes(b"\xff\n{}\n")
        assert codex.read_session(path).subagents == ()

    @pytest.mark.parametrize("value", [None, 7, [], {}, [7], "x"])
    def test_notes_of_another_shape_are_ignored(self, write: Write, value: Any) -> None:
        activity = {"id": "call_1", "type": "SubAgentActivity", "kind": "started", "agent_thread_id": value}
        tool = {"id": "call_1", "type": "CollabAgentToolCall", "tool": "spawn_agent", "receiver_thread_ids": value}
        notes = [event("item_completed", item=activity), event("item_completed", item=tool)]
        path = parent_of(write, *called("call_1", "spawn_agent", json.dumps({"agent_id": value}), *notes))
        assert codex.read_session(path).subagents == ()


@pytest.mark.real
@pytest.mark.parametrize(
    ("flags", "namespace", "given"),
    [
        ((), "multi_agent_v1", {}),
        ((), "multi_agent_v1", {"fork_context": True}),
        (("-c", "features.multi_agent_v2=true"), "collaboration", {"task_name": "writer"}),
    ],
)
def test_real_subagents_are_read(
    tmp_path: Path, api: ModelApi, flags: tuple[str, ...], namespace: str, given: dict[str, Any]
) -> None:
    """A session with an earlier call starts a subagent that creates a file. What docs/agents.md says about its file."""
    patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"

    def answer(request: Request) -> Reply | None:
        last = request.body["input"][-1]
        result = str(last.get("output") or "")
        if not request.is_main:
            return Text("made") if result else ToolUse("apply_patch", {"input": patch})
        if "agent_id" in result:
            return ToolUse(f"{namespace}.wait_agent", {"targets": [json.loads(result)["agent_id"]]})
        return ToolUse(f"{namespace}.wait_agent", {}) if "task_name" in result else None

    api.reply = answer
    with make_stage("scripted", tmp_path, api, codex=True) as stage:

        def ask(prompt: str, *resume: str) -> str:
            command = [str(stage.codex), "exec", *resume, "--json", "--skip-git-repo-check", "-m", CODEX_MODEL]
            done = subprocess.run(
                [*command, *flags, "-c", "sandbox_mode=workspace-write", "-"],
                input=prompt.encode(),
                env=stage.environ,
                cwd=stage.work,
                check=True,
                capture_output=True,
                timeout=60,
            )
            return str(json.loads(done.stdout.splitlines()[0])["thread_id"])

        session_id = ask('one\n!tool exec_command {"cmd": "echo one"}')
        ask(f"two\n!tool {namespace}.spawn_agent {json.dumps({'message': 'write', **given})}", "resume", session_id)
        path = codex.session_file(str(stage.home / ".codex"), "", session_id)
        assert path is not None
        [helper] = [each for each in stage.codex_files() if each != path]
        view = codex.read_session(path)
        [agent] = view.subagents
        assert isinstance(agent, SubAgent) and agent.models == (CODEX_MODEL,) and agent.name
        assert [codex.edits(call.name, call.input) for call in agent.calls] == [
            (FileEdit(str(stage.work / "made.txt"), EditKind.WRITE),)
        ]
        first, second = session_turns(view.entries, view.subagents)
        assert (first.subagents, second.subagents) == ((), (agent,))
        assert agent.usage == codex.session_usage(helper)
        spent = codex.session_usage(path)
        assert spent is not None and first.usage + second.usage == spent + agent.usage, "no token is in both counts"
        assert codex.session_head(helper) is None
