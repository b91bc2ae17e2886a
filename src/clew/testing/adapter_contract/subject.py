"""The subject of the contract's checks, and how one turn is run without the engine."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.agents.adapter import Adapter, LaunchProfile, SessionEntry, StreamResult
from clew.core.costs.usage import NO_USAGE, Usage, usage_of_run
from clew.core.decision import Abilities
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.answer import AnswerBuilder
from clew.core.runs.events import Event, QuestionAsked, SessionStarted
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions, Trust
from clew.engine.attempt import not_resumed
from clew.engine.process.agent import AgentProcess
from clew.engine.process.copying import make_copy
from clew.errors import AgentFailed
from clew.testing.model.refusals import BROKEN_SESSIONS

LIMIT_S = 60.0


@dataclass(frozen=True)
class AgentDirectives:
    """Directives that make the scripted model call the agent's tools, and what its API says about a broken history."""

    command: Callable[[str], str]
    write: Callable[[Path, str], str]
    form: str
    poison: str


def _tool(name: str, given: Mapping[str, Any]) -> str:
    return f"!tool {name} {json.dumps(given)}"


CLAUDE_DIRECTIVES = AgentDirectives(
    command=lambda line: _tool("Bash", {"command": line}),
    write=lambda path, text: _tool("Write", {"file_path": str(path), "content": text}),
    form=_tool(
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which one?",
                    "header": "Q",
                    "multiSelect": False,
                    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
                }
            ]
        },
    ),
    poison=BROKEN_SESSIONS[0].api.message,
)
CODEX_DIRECTIVES = AgentDirectives(
    command=lambda line: _tool("exec_command", {"cmd": line}),
    write=lambda path, text: _tool(
        "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"}
    ),
    form=_tool(
        "request_user_input",
        {
            "questions": [
                {
                    "id": "which",
                    "header": "Q",
                    "question": "Which one?",
                    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
                }
            ]
        },
    ),
    poison="No tool output found for function call call_9Bkp2mXQyA7VtWcYh3nLsDfE.",
)


@dataclass
class Subject:
    """An adapter, and the environment in which its agent runs. The model API obeys `!directives` in the prompts."""

    adapter: Adapter
    environ: Mapping[str, str]
    work_dir: Path
    model: str
    binary: str | None = None  # the configured path of the agent's program
    directives: AgentDirectives = CLAUDE_DIRECTIVES


Check = Callable[[Subject], Awaitable[None]]
Person = Callable[[QuestionAsked], Answer]


@dataclass
class ContractTurn:
    """What one agent process did in one turn."""

    events: list[Event] = field(default_factory=list)
    result: StreamResult | None = None
    exit_status: int | None = None
    session_id: str = ""
    user_uuid: str = ""
    prompt_id: str = ""  # the prompt's id in the session's file
    tool_ran: bool = False
    usage: Usage = NO_USAGE  # of this turn alone

    @property
    def _answer(self) -> AnswerBuilder:
        answer = AnswerBuilder()
        for event in self.events:
            answer.feed(event)
        return answer

    @property
    def text(self) -> str:
        return self._answer.text

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def answered(self) -> bool:
        assert self.result is not None
        return self.result.diagnosis.answered

    @property
    def outcome(self) -> Outcome | None:
        assert self.result is not None
        return self.result.diagnosis.outcome


async def turn(
    subject: Subject,
    prompt: str,
    *,
    resume: str | None = None,
    fork: bool = False,
    rewind_to: str | None = None,
    user_uuid: str | None = None,
    person: Person | None = None,
    permissions: Permissions = Permissions.ASK,
    stop_at: type[Event] | None = None,
    close_at_once: bool = False,
) -> ContractTurn:
    """Runs one process with one prompt to its end.

    At the event `stop_at` the agent is interrupted, or killed if it does not support interrupts.

    `fork`: the turn runs in a copy of the resumed session; `rewind_to`: the `end_id` of the copy's last turn.
    """
    adapter, can = subject.adapter, await abilities(subject)
    session_id = resume if resume is not None and not fork else str(uuid.uuid4())
    said = ContractTurn(session_id=session_id, user_uuid=user_uuid or str(uuid.uuid4()))
    said.prompt_id = adapter.prompt_id(prompt, said.user_uuid)
    launch = LaunchProfile(
        session_id=said.session_id,
        resume=resume is not None,
        model=subject.model,
        permissions=permissions,
        trust=Trust.USER,
        work_dir=str(subject.work_dir),
        config_dir=adapter.config_dir(subject.environ),
        fork_of=resume if fork else None,
        rewind_to=rewind_to,
    )
    dialog = adapter.copy_dialog(adapter.find(subject.binary, subject.environ), can, launch)
    if dialog is not None:
        try:
            said.session_id = await make_copy(
                dialog, cwd=str(subject.work_dir), environ=adapter.environment(subject.environ), mark=said.user_uuid
            )
        except AgentFailed as error:
            said.result = not_resumed(error).result
            return said
        launch, resume, fork = (
            replace(launch, session_id=said.session_id, fork_of=None, rewind_to=None),
            said.session_id,
            False,
        )
    before = _total(subject, resume or said.session_id) or NO_USAGE
    async with asyncio.timeout(LIMIT_S), _process(subject, can, launch, said.user_uuid) as process:
        reader = adapter.reader(launch)
        await process.send(adapter.prompt_line(prompt, said.user_uuid))
        if close_at_once or not can.asks:
            process.close_stdin()
        async for line in process.lines():
            assert isinstance(line, bytes)
            for event in reader.feed(line):
                said.events.append(event)
                if isinstance(event, SessionStarted) and (resume is None or fork) and not can.choose_id:
                    said.session_id = event.session_id
                if isinstance(event, QuestionAsked) and person is not None:
                    await process.send(adapter.answer_line(event, person(event)))
                if stop_at is not None and isinstance(event, stop_at):
                    stop_at = None
                    await _stop(adapter, process)
            if reader.finished:
                process.close_stdin()
        said.exit_status = await process.wait()
        said.tool_ran = reader.tool_ran
        said.result = reader.result(
            resumed=resume is not None, exit_status=said.exit_status, stderr=process.stderr_tail
        )
    total = said.result.usage_total or _total(subject, said.session_id)
    said.usage = said.result.usage + (usage_of_run(total, before) if total else NO_USAGE)
    return said


async def _stop(adapter: Adapter, process: AgentProcess) -> None:
    line = adapter.interrupt_line()
    if line is not None:
        await process.send(line)
    else:
        await process.end(grace_s=1.0)


@asynccontextmanager
async def _process(subject: Subject, can: Abilities, launch: LaunchProfile, mark: str) -> AsyncIterator[AgentProcess]:
    adapter = subject.adapter
    process = await AgentProcess.spawn(
        adapter.command(adapter.find(subject.binary, subject.environ), can, launch),
        cwd=str(subject.work_dir),
        environ=adapter.environment(subject.environ),
        mark=mark,
    )
    try:
        yield process
    finally:
        await process.end(grace_s=1.0)


async def abilities(subject: Subject) -> Abilities:
    adapter = subject.adapter
    binary = adapter.find(subject.binary, subject.environ)
    texts = []
    for argv in adapter.probe_commands(binary):
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=adapter.environment(subject.environ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        texts.append((await process.communicate())[0].decode())
    return adapter.abilities(*texts)


def session_file(subject: Subject, session_id: str) -> Path | None:
    config_dir = subject.adapter.config_dir(subject.environ)
    return subject.adapter.session_file(config_dir, str(subject.work_dir), session_id)


def entries(subject: Subject, session_id: str, since: int = 0) -> list[SessionEntry]:
    path = session_file(subject, session_id)
    assert path is not None
    return list(subject.adapter.read_session(path, since).entries)


def _total(subject: Subject, session_id: str) -> Usage | None:
    path = session_file(subject, session_id)
    return subject.adapter.session_usage(path) if path else None
