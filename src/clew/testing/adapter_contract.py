"""The contract of an agent's adapter, for ours and for whoever writes one: what the engine relies on, checked for real.

    @pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
    async def test_contract(check): await check(Subject(MyAdapter(), environ, work_dir))

Each check starts the agent's own binary against the scripted model API, without the engine, and asserts what the
adapter makes of it. The scripted agent and the real CLI run the same list, so that the one cannot drift from the other.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clew.agents.adapter import Adapter, Ending, Entry, Launch
from clew.core.answer import GrowingAnswer, joined
from clew.core.decision import Abilities
from clew.core.events import Event, MessageSaid, QuestionAsked, SessionStarted, TextStreamed, ToolFinished, ToolStarted
from clew.core.history import Role
from clew.core.outcome import Outcome
from clew.core.permissions import Answer
from clew.core.thread import Permissions, Trust
from clew.engine.agent_process import AgentProcess

LIMIT_S = 60.0


@dataclass
class Subject:
    """An adapter, and the world that its agent runs in. The model API obeys `!directives` in the prompts."""

    adapter: Adapter
    environ: Mapping[str, str]
    work_dir: Path
    model: str
    binary: str | None = None  # a configured path


@dataclass
class Turn:
    """What one process said."""

    events: list[Event] = field(default_factory=list)
    ending: Ending | None = None
    exit_status: int | None = None
    session_id: str = ""
    user_uuid: str = ""
    tool_ran: bool = False

    @property
    def text(self) -> str:
        answer = GrowingAnswer()
        for event in self.events:
            answer.feed(event)
        return answer.text

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcome(self) -> Outcome | None:
        assert self.ending is not None
        return self.ending.diagnosis.outcome


Person = Callable[[QuestionAsked], Answer]


async def turn(
    subject: Subject,
    prompt: str,
    *,
    resume: str | None = None,
    user_uuid: str | None = None,
    person: Person | None = None,
    permissions: Permissions = Permissions.ASK,
    interrupt_at: type[Event] | None = None,
    close_at_once: bool = False,
) -> Turn:
    """One process, one prompt, to its end."""
    said = Turn(session_id=resume or str(uuid.uuid4()), user_uuid=user_uuid or str(uuid.uuid4()))
    async with asyncio.timeout(LIMIT_S), _process(subject, said, resume is not None, permissions) as process:
        reader = subject.adapter.reader()
        await process.send(subject.adapter.prompt_line(prompt, said.user_uuid))
        if close_at_once:
            process.close_stdin()
        async for line in process.lines():
            for event in reader.feed(line):
                said.events.append(event)
                if isinstance(event, QuestionAsked) and person is not None:
                    await process.send(subject.adapter.answer_line(event, person(event)))
                if interrupt_at is not None and isinstance(event, interrupt_at):
                    interrupt_at = None
                    stop = subject.adapter.interrupt_line()
                    if stop is not None:
                        await process.send(stop)
            if reader.finished:
                process.close_stdin()
        said.exit_status = await process.wait()
        said.tool_ran = reader.tool_ran
        said.ending = reader.ending(
            resumed=resume is not None, exit_status=said.exit_status, stderr=process.stderr_tail
        )
    return said


@asynccontextmanager
async def _process(subject: Subject, said: Turn, resume: bool, permissions: Permissions) -> AsyncIterator[AgentProcess]:
    adapter = subject.adapter
    binary = adapter.find(subject.binary, subject.environ)
    launch = Launch(said.session_id, resume, subject.model, permissions, Trust.USER)
    process = await AgentProcess.spawn(
        adapter.command(binary, await _abilities(subject), launch),
        cwd=str(subject.work_dir),
        environ=adapter.environment(subject.environ),
        mark=said.user_uuid,
    )
    try:
        yield process
    finally:
        await process.end(grace_s=1.0)


async def _abilities(subject: Subject) -> Abilities:
    adapter = subject.adapter
    binary = adapter.find(subject.binary, subject.environ)
    texts = []
    for argv in adapter.probes(binary):
        process = await asyncio.create_subprocess_exec(
            *argv, env=adapter.environment(subject.environ), stdout=asyncio.subprocess.PIPE
        )
        texts.append((await process.communicate())[0].decode())
    return adapter.abilities(*texts)


async def probe_tells_what_it_can(subject: Subject) -> None:
    abilities = await _abilities(subject)
    assert abilities.resume
    assert abilities.version
    assert abilities.product


async def first_turn_answers_in_the_session_we_named(subject: Subject) -> None:
    said = await turn(subject, "!say hello there")
    assert [event.session_id for event in said.of(SessionStarted) if isinstance(event, SessionStarted)] == [
        said.session_id
    ]
    assert said.text == "hello there"
    assert said.ending is not None
    assert said.ending.diagnosis.answered
    assert said.ending.usage.output_tokens > 0
    assert said.ending.usage.shown_tokens > 0
    assert said.exit_status == 0
    assert not said.tool_ran


async def pieces_add_up_to_the_message(subject: Subject) -> None:
    said = await turn(subject, "!slow 8 0.01")
    pieces = "".join(event.text for event in said.of(TextStreamed) if isinstance(event, TextStreamed))
    whole = joined(event.text for event in said.of(MessageSaid) if isinstance(event, MessageSaid))
    assert len(said.of(TextStreamed)) > 1
    assert pieces == whole


async def session_file_holds_the_turn(subject: Subject) -> None:
    said = await turn(subject, "!say hello there")
    entries = _entries(subject, said.session_id)
    assert [entry.id for entry in entries if entry.is_prompt] == [said.user_uuid]
    assert joined(entry.text for entry in entries if entry.role is Role.ASSISTANT) == said.text


async def resume_goes_on_in_the_same_session(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    second = await turn(subject, "!say two", resume=first.session_id)
    assert second.ending is not None
    assert second.ending.diagnosis.answered
    entries = _entries(subject, first.session_id)
    assert [entry.id for entry in entries if entry.is_prompt] == [first.user_uuid, second.user_uuid]
    assert [entry.text for entry in entries if entry.role is Role.ASSISTANT] == ["one", "two"]


async def usage_is_of_the_turn_not_of_the_session(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    second = await turn(subject, "!say two", resume=first.session_id)
    assert first.ending is not None
    assert second.ending is not None
    assert second.ending.usage.output_tokens < 2 * first.ending.usage.output_tokens


async def unknown_session_is_rejected(subject: Subject) -> None:
    said = await turn(subject, "!say one", resume=str(uuid.uuid4()))
    assert said.ending is not None
    assert not said.ending.diagnosis.answered
    assert said.outcome is Outcome.REJECTED
    assert not said.tool_ran


async def used_uuid_does_no_work(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    again = await turn(subject, "!say two", resume=first.session_id, user_uuid=first.user_uuid, close_at_once=True)
    assert again.ending is not None
    assert not again.ending.diagnosis.answered, "a retry needs a uuid of its own"


async def tool_runs_when_allowed(subject: Subject) -> None:
    said = await turn(subject, '!tool Bash {"command": "touch made"}', person=lambda question: Answer(allow=True))
    assert [event.name for event in said.of(ToolStarted) if isinstance(event, ToolStarted)] == ["Bash"]
    assert len(said.of(QuestionAsked)) == 1
    assert said.tool_ran
    assert (subject.work_dir / "made").exists()


async def tool_does_not_run_when_declined(subject: Subject) -> None:
    said = await turn(
        subject,
        '!tool Bash {"command": "touch made"}',
        person=lambda question: Answer(allow=False, message="Not in this house."),
    )
    [finished] = said.of(ToolFinished)
    assert isinstance(finished, ToolFinished)
    assert not finished.ran
    assert "Not in this house." in finished.output
    assert not said.tool_ran, "so a fallback would still be safe"
    assert not (subject.work_dir / "made").exists()


async def form_is_asked_and_its_answer_arrives(subject: Subject) -> None:
    said = await turn(
        subject,
        '!tool AskUserQuestion {"questions": [{"question": "Which one?", "header": "Q", "multiSelect": false,'
        ' "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}]}]}',
        person=lambda question: Answer(allow=True, answers={"Which one?": "Right"}),
    )
    [question] = said.of(QuestionAsked)
    assert isinstance(question, QuestionAsked)
    assert question.is_form
    assert "Right" in said.text


async def edits_pass_and_commands_ask_under_edits(subject: Subject) -> None:
    made = subject.work_dir / "made.txt"
    said = await turn(
        subject,
        f'!tool Write {{"file_path": "{made}", "content": "x"}}',
        permissions=Permissions.EDITS,
        person=lambda question: Answer(allow=False),
    )
    assert not said.of(QuestionAsked)
    assert made.read_text() == "x"
    outside = subject.work_dir.parent / "outside.txt"
    said = await turn(
        subject,
        f'!tool Write {{"file_path": "{outside}", "content": "x"}}',
        permissions=Permissions.EDITS,
        person=lambda question: Answer(allow=False),
    )
    assert len(said.of(QuestionAsked)) == 1
    assert not outside.exists()


async def read_only_has_no_writing_tool(subject: Subject) -> None:
    made = subject.work_dir / "made.txt"
    said = await turn(
        subject,
        f'!tool Write {{"file_path": "{made}", "content": "x"}}',
        permissions=Permissions.READ_ONLY,
        person=lambda question: Answer(allow=True),
    )
    assert not made.exists()
    assert not said.tool_ran


async def interrupt_ends_the_turn_and_keeps_what_was_said(subject: Subject) -> None:
    said = await turn(subject, "!slow 200 0.05", interrupt_at=TextStreamed)
    assert said.ending is not None
    assert not said.ending.diagnosis.answered
    assert said.text
    entries = _entries(subject, said.session_id)
    kept = joined(entry.text for entry in entries if entry.role is Role.ASSISTANT)
    assert said.text.startswith(kept)
    again = await turn(subject, "!say on", resume=said.session_id)
    assert again.text == "on"


async def failures_are_told_apart(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    for directive, outcome in (
        ("!fail 429 rate_limit_error slow down", Outcome.USAGE_LIMIT),
        ("!fail 401 authentication_error invalid x-api-key", Outcome.AUTH),
        ("!fail 529 overloaded_error Overloaded", Outcome.OVERLOADED),
    ):
        said = await turn(subject, directive, resume=first.session_id)
        assert said.outcome is outcome, directive
        assert said.ending is not None
        assert said.ending.diagnosis.message
    again = await turn(subject, "!say two", resume=first.session_id)
    assert again.text == "two", "none of them harms the session"


async def poisoned_history_is_recognised(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    said = await turn(
        subject,
        "!fail 400 invalid_request_error messages.1: `tool_use` ids were found without `tool_result` blocks",
        resume=first.session_id,
    )
    assert said.outcome is Outcome.POISONED


async def the_models_own_words_are_no_error(subject: Subject) -> None:
    said = await turn(subject, "!say Prompt is too long. No conversation found with session ID: x. Invalid API key")
    assert said.ending is not None
    assert said.ending.diagnosis.answered


async def long_lines_and_answers_arrive_whole(subject: Subject) -> None:
    said = await turn(subject, f"!big {1_500_000}")
    assert len(said.text) >= 1_500_000
    assert said.ending is not None
    assert said.ending.diagnosis.answered


def _entries(subject: Subject, session_id: str) -> list[Entry]:
    config_dir = subject.adapter.config_dir(subject.environ)
    path = subject.adapter.session_file(config_dir, str(subject.work_dir), session_id)
    assert path is not None
    return list(subject.adapter.read_session(path).entries)


CONTRACT: tuple[Callable[[Subject], Awaitable[None]], ...] = (
    probe_tells_what_it_can,
    first_turn_answers_in_the_session_we_named,
    pieces_add_up_to_the_message,
    session_file_holds_the_turn,
    resume_goes_on_in_the_same_session,
    usage_is_of_the_turn_not_of_the_session,
    unknown_session_is_rejected,
    used_uuid_does_no_work,
    tool_runs_when_allowed,
    tool_does_not_run_when_declined,
    form_is_asked_and_its_answer_arrives,
    edits_pass_and_commands_ask_under_edits,
    read_only_has_no_writing_tool,
    interrupt_ends_the_turn_and_keeps_what_was_said,
    failures_are_told_apart,
    poisoned_history_is_recognised,
    the_models_own_words_are_no_error,
    long_lines_and_answers_arrive_whole,
)
