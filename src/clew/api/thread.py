"""A conversation and a run in it, as the Python API has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from enum import StrEnum
from typing import Any, TypeVar

from clew.core.events import Event
from clew.core.history import Turn, Visibility
from clew.core.question import Question
from clew.core.record import Record
from clew.core.thread import Permissions, Trust
from clew.core.thread import Thread as ThreadRecord
from clew.engine.settings import Person
from clew.engine.turn import LiveTurn
from clew.errors import UsageError
from clew.hosts.chat import Chat, Deleted
from clew.hosts.outlook import Outlook
from clew.reply import Reply, reply_of

E = TypeVar("E", bound=StrEnum)


class Answered(Record):
    """A question that was answered."""

    question: Question
    follow_up: Run | None  # carries the answer to a session whose run died with the question open


class Run:
    """A run under way: iterate it for its events, await it for its reply."""

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
        """The reply, also of a run that did not answer."""
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

    async def ask(
        self,
        prompt: str,
        *,
        agent: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        fresh_session: bool = False,
        resume: bool | None = None,
        timeout_s: float | None = None,
        wait: bool = True,
        person: Person | None = None,
        new_run_id: str | None = None,
        lasting: bool = False,
    ) -> Run:
        """The prompt is stored when this returns. `person` answers the agent's questions; else they are declined.

        `new_run_id` is the id that the run is to get. Asked again with the same one, it raises Conflict: whoever
        does not know whether it was asked can ask again.

        `lasting` is for daemons: a queued prompt outlives this process (`Client.take_up`), and questions wait for an
        answer from anywhere (`Client.answer`).
        """
        turn = await self._chat.ask(
            self.record,
            prompt,
            agent=agent,
            model=model,
            standing=instructions,
            force_fresh=fresh_session,
            enable_resume=resume,
            timeout_s=timeout_s,
            wait=wait,
            person=person,
            run_id=new_run_id,
            lasting=lasting,
        )
        self.record = turn.ask.thread
        return Run(self.record, turn)

    async def continue_after_limit(
        self,
        run_id: str,
        *,
        wait: bool = True,
        person: Person | None = None,
        new_run_id: str | None = None,
        lasting: bool = False,
    ) -> Run:
        """Continues a run that met the account's usage limit once it has reset: until then the new run is queued.

        It asks in the same session to continue. Raises Conflict when the run met no limit or was followed by another.
        """
        turn = await self._chat.continue_after_limit(
            self.record, run_id, wait=wait, person=person, run_id=new_run_id, lasting=lasting
        )
        return Run(self.record, turn)

    async def turns(self) -> tuple[Turn, ...]:
        return await self._chat.history(self.record)

    async def edit(self, turn_id: str, text: str) -> Turn:
        return await self._chat.edit(self.record, turn_id, text)

    async def truncate(self, turn_id: str) -> int:
        return await self._chat.truncate(self.record, turn_id)

    async def retry(
        self,
        turn_id: str,
        *,
        agent: str | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
        wait: bool = True,
        person: Person | None = None,
        new_run_id: str | None = None,
        lasting: bool = False,
    ) -> Run:
        """Asks an earlier user turn again in a fresh session; what follows it is archived when the run starts."""
        turn = await self._chat.retry(
            self.record,
            turn_id,
            agent=agent,
            model=model,
            timeout_s=timeout_s,
            wait=wait,
            person=person,
            run_id=new_run_id,
            lasting=lasting,
        )
        return Run(self.record, turn)

    async def outlook(self, turn_id: str | None = None) -> Outlook:
        """Will the next turn resume, or why not; and what a change of that turn would do to the session."""
        return await self._chat.outlook(self.record, turn_id)

    async def session_stands(self) -> bool | None:
        """Does all that its session holds still stand in the thread? None: it has no session."""
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
        """Other settings from the next turn on. Another work directory starts a fresh session."""
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
