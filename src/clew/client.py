"""The Python API: open a store, talk in a thread, iterate events. The command line uses it too.

async with clew.open() as client:
    thread = await client.thread("fix-login", cwd=".")
    run = await thread.ask("Why does the login fail?")
    async for event in run:
        if isinstance(event, clew.TextStreamed):
            print(event.text, end="", flush=True)
    reply = await run
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from clew import config
from clew.agents.adapter import Adapter
from clew.core.events import Event
from clew.core.history import Turn, Visibility
from clew.core.record import Record
from clew.core.run import Attempt
from clew.core.run import Run as RunRecord
from clew.core.thread import Permissions, Trust
from clew.core.thread import Thread as ThreadRecord
from clew.core.usage import Usage
from clew.engine.engine import Engine
from clew.engine.leases import is_dead, slot_prefix
from clew.engine.settings import Person
from clew.engine.turn import LiveTurn
from clew.errors import ClewError, NotFound, UsageError
from clew.hosts.chat import Chat, Deleted, NewThread
from clew.store.records import StatRow
from clew.wiring import ARCHIVE_DIR, open_engine

RUNS_SEARCHED = 1000  # newest first, for the beginning of an id


E = TypeVar("E", bound=StrEnum)


class Reply(Record):
    """How a run ended. `error` is None when it was answered."""

    thread: str
    run: str
    agent: str
    model: str | None
    status: str
    text: str
    session_id: str | None
    session_resumed: bool
    reason: str | None  # why fresh; None when resumed
    fallback: bool
    usage: Usage
    cost_usd: float
    error: ClewError | None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that `clew ask --json` prints."""
        error = self.error
        return {
            "thread": self.thread,
            "run": self.run,
            "agent": self.agent,
            "model": self.model,
            "status": self.status,
            "text": self.text,
            "session_id": self.session_id,
            "session_resumed": self.session_resumed,
            "reason": self.reason,
            "fallback": self.fallback,
            "usage": self.usage.as_dict(),
            "cost_usd": self.cost_usd,
            "error": None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
            "warnings": list(self.warnings),
        }


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
        from clew.core.events import Warned

        finished = await self._turn.finish()
        warnings = [noted.event async for noted in self._turn.events()]
        run = finished.run
        return Reply(
            thread=self._thread.name,
            run=run.id,
            agent=run.agent,
            model=run.model,
            status=run.status,
            text=finished.text,
            session_id=run.session_id,
            session_resumed=run.session_resumed,
            reason=run.reason,
            fallback=run.fallback,
            usage=run.usage,
            cost_usd=run.cost_usd,
            error=finished.error,
            warnings=tuple(event.message for event in warnings if isinstance(event, Warned)),
        )

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
    ) -> Run:
        """The prompt is stored when this returns. `person` answers the agent's questions; else they are declined."""
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
        )
        self.record = turn.ask.thread
        return Run(self.record, turn)

    async def turns(self) -> tuple[Turn, ...]:
        return await self._chat.history(self.record)

    async def edit(self, turn_id: str, text: str) -> Turn:
        return await self._chat.edit(self.record, turn_id, text)

    async def truncate(self, turn_id: str) -> int:
        return await self._chat.truncate(self.record, turn_id)

    async def retry(
        self, turn_id: str, *, timeout_s: float | None = None, wait: bool = True, person: Person | None = None
    ) -> Run:
        turn = await self._chat.retry(self.record, turn_id, timeout_s=timeout_s, wait=wait, person=person)
        return Run(self.record, turn)

    async def session_stands(self) -> bool | None:
        """Does all that its session holds still stand in the thread? None: it has no session."""
        return await self._chat.session_stands(self.record)

    async def delete(self, *, dry_run: bool = False) -> Deleted:
        return await self._chat.delete(self.record, dry_run=dry_run)

    async def change(self, *, cwd: str | None = None, permissions: str | None = None, trust: str | None = None) -> None:
        """What a thread may change between turns. Another work directory starts a fresh session."""
        if cwd is not None:
            self.record = await self._chat.move(self.record, cwd)
        self.record = await self._chat.set_permissions(
            self.record,
            _choice(Permissions, permissions) if permissions is not None else None,
            _choice(Trust, trust) if trust is not None else None,
        )


def _choice(kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        options = ", ".join(each.value for each in kind)
        raise UsageError(f"{value!r} is not one of {options}.") from None


class Client:
    """An open store. Made by `clew.open()`."""

    def __init__(self, engine: Engine, settings: config.Settings, home: Path, recovered: list[RunRecord]) -> None:
        self.engine = engine
        self.settings = settings
        self.home = home
        self.recovered = recovered  # runs that a crash had left behind, now ended
        self._chat = Chat(engine, home / ARCHIVE_DIR)

    async def thread(
        self,
        name: str | None = None,
        *,
        cwd: str | Path = ".",
        agent: str | None = None,
        model: str | None = None,
        permissions: str | None = None,
        trust: str | None = None,
        visibility: str | None = None,
        prompt: str = "",
    ) -> Thread:
        """The thread of that name, made if it is not there; without a name a new one, named after `prompt`.

        A thread that is there already takes the permissions and the trust that are given, and keeps the rest.
        """
        found = await self._chat.find(name) if name is not None else None
        if found is not None:
            thread = Thread(self._chat, found)
            await thread.change(permissions=permissions, trust=trust)
            return thread
        new = NewThread(
            cwd=str(cwd),
            agent=agent or self.settings.of("agent"),
            model=model or (self.settings.of("model") if agent in (None, self.settings.of("agent")) else None),
            permissions=_choice(Permissions, permissions or self.settings.of("permissions")),
            trust=_choice(Trust, trust or self.settings.of("trust")),
            visibility=_choice(Visibility, visibility or self.settings.of("visibility")),
        )
        return Thread(self._chat, await self._chat.create(new, name=name, prompt=prompt))

    async def find(self, name: str) -> Thread:
        """The thread of that name or id. Raises NotFound."""
        return Thread(self._chat, await self._chat.require(name))

    async def latest(self, cwd: str | Path = ".") -> Thread:
        """The thread last used in that directory. Raises NotFound."""
        found = await self._chat.latest(str(cwd))
        if found is None:
            raise NotFound("There is no thread of this directory yet.", hint="Start one with clew ask PROMPT.")
        return Thread(self._chat, found)

    async def threads(self, *, cwd: str | Path | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        real = os.path.realpath(cwd) if cwd is not None else None
        records = await self._chat.list(cwd=real, limit=limit, offset=offset)
        return [Thread(self._chat, record) for record in records]

    async def runs(self, *, thread: Thread | None = None, limit: int = 50) -> list[RunRecord]:
        of_thread = thread.record.id if thread is not None else None
        return await self.engine.database.call(lambda store: store.runs(thread_id=of_thread, limit=limit))

    async def run(self, run_id: str) -> RunRecord:
        """The run of that id, or of an unambiguous beginning of one. Raises NotFound."""
        found = await self.engine.database.call(lambda store: store.run(run_id))
        if found is not None:
            return found
        recent = await self.runs(limit=RUNS_SEARCHED) if run_id else []
        close = [run for run in recent if run.id.startswith(run_id)]
        if len(close) != 1:
            what = "names more than one run" if close else "is not a run"
            raise NotFound(f"{run_id!r} {what}.", hint="clew runs list shows them.")
        return close[0]

    async def attempts(self, run_id: str) -> list[Attempt]:
        return await self.engine.database.call(lambda store: store.attempts(run_id))

    async def cancel(self, run_id: str) -> bool:
        """Asks a run of any process to stop. False: it is over already."""
        run = await self.run(run_id)
        return await self.engine.cancel(run.id)

    async def stats(self, *, thread: Thread | None = None, since: float | None = None) -> list[StatRow]:
        """What the runs came to, by kind; `clew.core.savings` sums it up."""
        of_thread = thread.record.id if thread is not None else None
        return await self.engine.database.call(lambda store: store.stats(thread_id=of_thread, since=since))

    async def free_slots(self) -> int:
        """How many more agents may run on this machine now."""
        around, most = self.engine.around, self.engine.settings.max_agents
        held = await self.engine.database.call(lambda store: store.leases(f"{slot_prefix(around.owner)}/"))
        return max(0, most - sum(not is_dead(lease, around) for lease in held))


@asynccontextmanager
async def open(
    home: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    work_dir: str | Path | None = None,
    adapters: Iterable[Adapter] = (),
    **flags: Any,
) -> AsyncIterator[Client]:
    """Opens the store; ends what a crash had left running. `flags` are settings, over all others.

    `home` is the folder of the store (default: CLEW_HOME, or the platform's); `environ` the environment that settings
    and agents get (default: this process's own); `adapters` are agents of your own, beside those that Clew knows.
    """
    environ = dict(os.environ if environ is None else environ)
    settings = config.load(environ, Path(work_dir) if work_dir is not None else None, flags)
    folder = Path(home).expanduser().absolute() if home is not None else config.home(environ)
    engine = open_engine(settings, environ, folder, adapters)
    try:
        yield Client(engine, settings, folder, await engine.recover())
    finally:
        await engine.close()
