"""A conversation and a run in it, as the Python API has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from clew.api.reply import Reply, reply_of
from clew.core.history import Turn, Visibility
from clew.core.record import Record
from clew.core.runs.events import Event
from clew.core.runs.options import TurnKeywords, TurnOptions
from clew.core.runs.question import Question
from clew.core.thread import Permissions, Trust
from clew.core.thread import Thread as ThreadRecord
from clew.engine.turn import LiveTurn
from clew.errors import UsageError
from clew.hosts.chat.chat import Chat, Deleted

if TYPE_CHECKING:
    from clew.hosts.chat.preview import Preview

E = TypeVar("E", bound=StrEnum)


class Answered(Record):
    """A question that was answered."""

    question: Question
    follow_up: Run | None  # the run that brings the answer to the session, when the run that asked has died


class Run:
    """A run in progress: iterate over it for its events, await it for its reply."""

    def __init__(self, thread: ThreadRecord, turn: LiveTurn) -> None:
        self._thread = thread
        self._turn = turn

    @property
    def id(self) -> str:
        return self._turn.run.id

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for noted in self._turn.events():
            yield noted.event

    def __await__(self) -> Generator[Any, None, Reply]:
        """The reply. Raises the AgentError that ended the run, if one did."""
        return self._answered().__await__()

    async def _answered(self) -> Reply:
        reply = await self.reply()
        if reply.error is not None:
            raise reply.error
        return reply

    async def reply(self) -> Reply:
        """The reply, also when the agent did not answer."""
        finished = await self._turn.finish()
        events = [noted.event async for noted in self._turn.events()]
        return reply_of(finished.run, self._thread.name, finished.text, finished.error, events)

    def cancel(self) -> None:
        """Stops the agent gently; what it said so far is kept."""
        self._turn.cancel()

    def kill(self) -> None:
        """Stops the agent at once, with all that it started."""
        self._turn.kill()


class Thread:
    """A conversation. `record` holds its name, directory, agent and model."""

    def __init__(self, chat: Chat, record: ThreadRecord) -> None:
        self._chat = chat
        self.record = record

    @property
    def name(self) -> str:
        return self.record.name

    async def ask(self, prompt: str, **options: Unpack[TurnKeywords]) -> Run:
        """The prompt is stored when this returns. `person` answers the agent's questions; else they are declined.

        `new_run_id` is the id that the run is to get. A second call with the same id raises Conflict: so a caller who
        does not know whether the first one succeeded can ask again.

        `lasting` is for daemons: a queued prompt outlives this process (`Client.take_up`), and questions wait for an
        answer from anywhere (`Client.answer`).
        """
        turn = await self._chat.ask(self.record, prompt, TurnOptions(**options))
        self.record = turn.request.thread
        return Run(self.record, turn)

    async def continue_after_limit(self, run_id: str, **options: Unpack[TurnKeywords]) -> Run:
        """Continues a run that met the account's usage limit once it has reset: until then the new run is queued.

        It asks in the same session to continue, with the agent, model, `resume` and `timeout_s` of that run. Raises
        Conflict when the run met no limit or was followed by another.
        """
        turn = await self._chat.continue_after_limit(self.record, run_id, TurnOptions(**options))
        return Run(self.record, turn)

    async def turns(self) -> tuple[Turn, ...]:
        return await self._chat.history(self.record)

    async def edit(self, turn_id: str, text: str) -> Turn:
        return await self._chat.edit(self.record, turn_id, text)

    async def truncate(self, turn_id: str) -> int:
        return await self._chat.truncate(self.record, turn_id)

    async def retry(self, turn_id: str, **options: Unpack[TurnKeywords]) -> Run:
        """Asks an earlier user turn again in a fresh session; what follows it is archived when the run starts."""
        turn = await self._chat.retry(self.record, turn_id, TurnOptions(**options))
        self.record = turn.request.thread
        return Run(self.record, turn)

    async def preview(self, turn_id: str | None = None) -> Preview:
        """Whether the next turn will resume, or why not; and what a change of that turn would do to the session."""
        return await self._chat.preview(self.record, turn_id)

    async def session_stands(self) -> bool | None:
        """Is everything that its session holds still part of the thread? None: it has no session."""
        return await self._chat.session_stands(self.record)

    async def delete(self, *, dry_run: bool = False) -> Deleted:
        return await self._chat.delete(self.record, dry_run=dry_run)

    async def change(
        self,
        *,
        name: str | None = None,
        cwd: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        permissions: str | None = None,
        trust: str | None = None,
        visibility: str | None = None,
        instructions: str | None = None,
    ) -> None:
        """Changes settings from the next turn on. Another work directory starts a fresh session."""
        self.record = await self._chat.change(
            self.record,
            name=name,
            cwd=cwd,
            agent=agent,
            model=model,
            permissions=choice(Permissions, permissions) if permissions is not None else None,
            trust=choice(Trust, trust) if trust is not None else None,
            visibility=choice(Visibility, visibility) if visibility is not None else None,
            standing=instructions,
        )


def choice(kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        options = ", ".join(each.value for each in kind)
        raise UsageError(f"{value!r} is not one of {options}.") from None
