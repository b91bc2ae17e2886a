"""Threads and runs of the Python API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from clew.api.reply import Reply, reply_of
from clew.core.history import Turn, Visibility
from clew.core.record import Record, check_keywords
from clew.core.runs.events import Event
from clew.core.runs.options import Person, TurnKeywords, TurnOptions
from clew.core.runs.question import Question
from clew.core.thread import Permissions, Trust
from clew.core.thread import Thread as ThreadRecord
from clew.engine.turn import LiveTurn
from clew.errors import UsageError
from clew.hosts.chat.chat import Chat, Deleted
from clew.hosts.chat.chat import Synced as Synced
from clew.hosts.chat.chat import ThreadWork as ThreadWork
from clew.hosts.validation import check_name as check_name
from clew.hosts.validation import check_prompt as check_prompt  # here for `clew ask`: files.py loads more modules

if TYPE_CHECKING:
    from clew.core.explanation import Explanation
    from clew.engine.opening import Opening as Opening
    from clew.engine.sessions.compaction import Compacted as Compacted
    from clew.hosts.chat.chat import ThreadSession as ThreadSession
    from clew.hosts.chat.chat import TurnWork as TurnWork
    from clew.hosts.chat.preview import Preview as Preview
    from clew.hosts.chat.terminal import OpenTerminal as OpenTerminal

E = TypeVar("E", bound=StrEnum)


class ThreadKeywords(TypedDict, total=False):
    """The settings of a thread, as keywords. One that is left out, or None, is the default or stays as it is."""

    cwd: str | Path | None
    agent: str | None
    model: str | None
    permissions: str | None
    trust: str | None
    visibility: str | None
    instructions: str | None


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
    """A conversation. `record` has its name, directory, agent and model."""

    def __init__(self, chat: Chat, record: ThreadRecord) -> None:
        self._chat = chat
        self.record = record

    @property
    def name(self) -> str:
        return self.record.name

    async def ask(self, prompt: str, **options: Unpack[TurnKeywords]) -> Run:
        """Starts a run. The prompt is stored when this returns. Without a `person`, the agent's questions are declined.

        `new_run_id` is the id of the new run. A second call with the same id raises Conflict, so a caller that does not
        know whether the first call succeeded can repeat it.

        `lasting` is for daemons: a queued prompt outlives this process (`Client.take_up`), and any process can answer
        the agent's questions (`Client.answer`).

        `expand` is for what a user has typed: `@path` and `/command` in the prompt stand for files, which are read now.
        A file outside the work directory needs the answer of `person`. What `known` mentions is left as it is: a text
        in the prompt that the user did not type. `attached` is sent after the prompt as it is.
        """
        turn = await self._chat.ask(self.record, prompt, TurnOptions(**options))
        self.record = turn.request.thread
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
        """Continues a run that met the account's usage limit. The new run is queued until the limit resets.

        It continues in the same session, with the agent, model, `resume` and `timeout_s` of that run. Raises Conflict
        when the run met no limit, or when another run followed it.
        """
        options = TurnOptions(wait=wait, person=person, new_run_id=new_run_id, lasting=lasting)
        return Run(self.record, await self._chat.continue_after_limit(self.record, run_id, options))

    async def turns(self) -> tuple[Turn, ...]:
        return await self._chat.history(self.record)

    async def edit(self, turn_id: str, text: str, *, expand: bool = False, person: Person | None = None) -> Turn:
        """Replaces the text of a turn; the old text is kept. `expand` and `person`: see `ask`."""
        return await self._chat.edit(self.record, turn_id, text, expand=expand, person=person)

    async def clear(self) -> int:
        """Archives all turns, so that the next one begins with an empty history. Returns how many."""
        return await self._chat.clear(self.record)

    async def truncate(self, turn_id: str) -> int:
        return await self._chat.truncate(self.record, turn_id)

    async def start_ahead(self) -> bool:
        """Starts the agent that the next turn will need, so that its first words do not wait for the start: call it
        when somebody begins to type. Returns whether an agent waits now. Nothing is sent to a model.

        It starts none if the next turn would not resume a session, or if agents are not kept (`warm.*`).
        """
        return await self._chat.start_ahead(self.record)

    async def compact(self, focus: str = "") -> Compacted:
        """Lets the agent replace what its session holds by a summary; `focus` says what to keep above all.

        It acts on the session that the next turn would resume, and the next turn then resumes the shorter one. The
        thread keeps its turns. Returns `session_id` (None: no session would be resumed) and `is_compacted` (False: the
        agent found too little in it). Raises Busy during a run, and UsageError if the agent cannot be asked.
        """
        return await self._chat.compact(self.record, focus)

    async def retry(self, turn_id: str, **options: Unpack[TurnKeywords]) -> Run:
        """Asks an earlier user turn again. The turns after it are archived when the run starts.

        The session is rewound to before that turn. After a failed run, or if it cannot be rewound, it is a fresh one.
        """
        turn = await self._chat.retry(self.record, turn_id, TurnOptions(**options))
        self.record = turn.request.thread
        return Run(self.record, turn)

    async def preview(self, turn_id: str | None = None) -> Preview:
        """Whether the next turn will resume, or why not; and how a change of that turn would affect the session."""
        return await self._chat.preview(self.record, turn_id)

    async def explain(
        self,
        prompt: str | None,
        *,
        cwd: str | Path | None = None,
        permissions: str | None = None,
        trust: str | None = None,
        **options: Unpack[TurnKeywords],
    ) -> Explanation:
        """What `ask` would do now with this prompt and these options, without doing it: the decision, the exact prompt
        and an estimate of the price. None: the prompt is not known yet.

        `cwd`, `permissions` and `trust` are changes of the thread that would be made before. Raises what `change` and
        `ask` would raise: AgentMissing, UsageError, and Busy, also when `wait` is False and it would have to wait.
        """
        return await self._chat.explain(
            self.record,
            prompt,
            TurnOptions(**options),
            cwd=None if cwd is None else str(cwd),
            permissions=optional_choice(Permissions, permissions),
            trust=optional_choice(Trust, trust),
        )

    async def session_words(self, *, before: int | None = None, archived: int = 0) -> str:
        """What the changes of the thread have done to its session, in sentences.

        `before`: how many turns the thread has before the changed one. `archived`: how many turns were archived.
        """
        return await self._chat.session_words(self.record, before=before, archived=archived)

    async def work(self) -> ThreadWork:
        """What its agents did: the tool calls and changed files of each turn; and its sessions, each with the command
        that opens it in the agent's own terminal interface."""
        return await self._chat.work(self.record)

    async def opening(self, *, agent: str | None = None, model: str | None = None) -> Opening:
        """How the thread would be opened in an agent's own terminal interface now: the session and the command, or that
        a turn must come first (`needs_turn`). Stores nothing."""
        return await self._chat.opening(self.record, agent, model)

    @asynccontextmanager
    async def in_terminal(self, *, agent: str | None = None, model: str | None = None) -> AsyncIterator[OpenTerminal]:
        """Holds the thread for an agent's own terminal interface, which the caller starts.

        Other runs of the thread wait meanwhile. Raises Busy during a run, and Conflict if a turn must come first.
        """
        async with self._chat.in_terminal(self.record, agent, model) as terminal:
            yield terminal

    async def sync(self, *, dry_run: bool = False) -> Synced:
        """Brings in the turns that were made outside Clew, in the plain CLI of an agent. `ask` does it by itself.

        `dry_run`: only says what would come in. Otherwise raises Busy during a run.
        """
        return await self._chat.sync(self.record, dry_run=dry_run)

    async def delete(self, *, dry_run: bool = False) -> Deleted:
        return await self._chat.delete(self.record, dry_run=dry_run)

    async def change(
        self, *, name: str | None = None, forget_allowed: bool = False, **settings: Unpack[ThreadKeywords]
    ) -> None:
        """Changes settings from the next turn on. Another work directory starts a fresh session.

        `forget_allowed` takes back at once, also during a run, what a person allowed with "always in this thread".
        """
        check_keywords(ThreadKeywords, settings)
        cwd = settings.get("cwd")
        self.record = await self._chat.change(
            self.record,
            name=name,
            forget_allowed=forget_allowed,
            cwd=None if cwd is None else str(cwd),
            agent=settings.get("agent"),
            model=settings.get("model"),
            permissions=optional_choice(Permissions, settings.get("permissions")),
            trust=optional_choice(Trust, settings.get("trust")),
            visibility=optional_choice(Visibility, settings.get("visibility")),
            standing=settings.get("instructions"),
        )


def optional_choice(kind: type[E], value: str | None) -> E | None:
    return None if value is None else choice(kind, value)


def choice(kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        options = ", ".join(each.value for each in kind)
        raise UsageError(f"{value!r} is not one of {options}.") from None
