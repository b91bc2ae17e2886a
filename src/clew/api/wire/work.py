"""What the agents of a thread did, and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from clew.api.wire.shape import Doc, Shape

if TYPE_CHECKING:
    from clew.core.runs.tool_calls import ToolCall
    from clew.engine.sessions.in_plain_cli import ThreadSession
    from clew.engine.work import TurnWork as TurnWorkRecord
    from clew.hosts.chat.chat import ThreadWork as ThreadWorkRecord


class ToolUse(Shape):
    """One call of a tool."""

    name: str
    input: dict[str, Any]
    status: Literal["running", "waiting", "done", "failed", "declined", "unfinished"]


class ChangedFile(Shape):
    path: Annotated[str, Doc("Relative to the work directory, if it is inside")]
    kind: Annotated[Literal["write", "change", "delete"], Doc("Of the last edit")]


class TurnWork(Shape):
    """What an agent did for one turn."""

    turn_id: Annotated[str, Doc("The answer; the prompt, if its run gave none")]
    run_id: str
    tools: list[ToolUse]
    files: Annotated[list[ChangedFile], Doc("As far as the tools' inputs say; commands may change others")]


class SessionOfThread(Shape):
    """A session that the thread uses."""

    agent: str
    model: str
    id: str
    state: Literal["provisional", "good", "poisoned", "retired"]
    cwd: str
    borrowed: Annotated[bool, Doc("It belongs to another thread: the next turn continues in a copy")]
    current: Annotated[bool, Doc("The newest of its agent and model")]
    command: Annotated[
        str | None, Doc("Opens it in the agent's own terminal interface; null: it has no file on this machine")
    ]


class ThreadWork(Shape):
    turns: Annotated[list[TurnWork], Doc("Those with tool calls, the oldest first")]
    sessions: Annotated[list[SessionOfThread], Doc("The oldest first")]


def thread_work(found: ThreadWorkRecord) -> ThreadWork:
    return ThreadWork([turn_work(each) for each in found.turns], [session_of_thread(each) for each in found.sessions])


def turn_work(work: TurnWorkRecord) -> TurnWork:
    return TurnWork.of(work, tools=[tool_use(call) for call in work.calls], files=[*map(ChangedFile.of, work.files)])


def tool_use(call: ToolCall) -> ToolUse:
    return ToolUse(call.name, dict(call.input), call.state.value)


def session_of_thread(session: ThreadSession) -> SessionOfThread:
    return SessionOfThread.of(session)
