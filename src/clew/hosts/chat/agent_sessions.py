"""Lists the agents' sessions on this machine, and adopts those that were started in a plain CLI into threads.

A listing reads folders, and then the beginning of each listed file, the newest first: there may be thousands of files,
and some have hundreds of megabytes. Adopting reads one file whole, and does not write to it: the session can
still be used in its plain CLI.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from clew.agents.adapter import Adapter, SessionHead
from clew.core.ids import ThreadId
from clew.core.lookup import SHORTEST_BEGINNING, by_prefix
from clew.core.pins import Pin
from clew.core.record import Record
from clew.core.thread import Permissions, Thread, Trust, name_from
from clew.engine.engine import Engine
from clew.engine.sessions import adoption
from clew.engine.sessions.outside import newest_pins
from clew.errors import Conflict
from clew.store.store import Store

AT_ONCE = 50  # files whose beginnings are read in one batch


class AgentSession(Record):
    """A session, as far as the beginning of its file describes it."""

    agent: str
    id: str
    work_dir: str
    first_words: str
    changed_at: float
    size_bytes: int
    path: Path
    thread: str | None = None  # the name of the thread that owns it


class AdoptionResult(Record):
    session: AgentSession
    thread: str | None  # None: it was not adopted
    turns: int = 0
    why: str = ""  # why it was not adopted


class _SessionFile(Record):
    agent: str
    path: Path
    changed_at: float
    size_bytes: int


class AgentSessions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self, *, agent: str | None = None, project: str | None = None) -> AsyncIterator[AgentSession]:
        """The most recently used first. `project`: only sessions of that directory and of directories below it."""
        within = os.path.realpath(project) if project is not None else None
        files = iter(await asyncio.to_thread(self._files, agent))
        while some := list(islice(files, AT_ONCE)):
            heads = await asyncio.to_thread(self._heads, some)
            for session in await self._engine.store.call(partial(_all_as_known, heads)):
                if within is None or _is_within(session.work_dir, within):
                    yield session

    async def find(
        self, session_id: str, *, agent: str | None = None, allowed: Callable[[str], bool] | None = None
    ) -> AgentSession:
        """Finds a session by its id, or by an unambiguous beginning of its id. Raises NotFound.

        `allowed` says in which directories sessions are looked for.
        """
        found: list[AgentSession] = []
        if len(session_id) >= SHORTEST_BEGINNING:
            files = await asyncio.to_thread(self._files, agent)
            named = [each for each in files if session_id in each.path.stem]
            found = await asyncio.to_thread(self._heads, named)
        known = await self._engine.store.call(partial(_all_as_known, found))
        among = [session for session in known if allowed is None or allowed(session.work_dir)]
        noun, hint = "session of an agent on this machine", "clew sessions list --all shows them."
        return by_prefix(session_id, among, lambda session: session.id, noun=noun, hint=hint)

    def _files(self, agent: str | None) -> list[_SessionFile]:
        names = [agent] if agent is not None else self._engine.agents()
        found = [each for name in names for each in _of(self._engine.adapter(name), self._engine.context.environ)]
        return sorted(found, key=lambda each: (-each.changed_at, str(each.path)))

    def _heads(self, files: list[_SessionFile]) -> list[AgentSession]:
        heads = [(file, _head(self._engine.adapter(file.agent), file.path)) for file in files]
        return [
            AgentSession(
                file.agent, head.id, head.work_dir, head.first_words, file.changed_at, file.size_bytes, file.path
            )
            for file, head in heads
            if head is not None
        ]

    async def adopt(
        self,
        session: AgentSession,
        *,
        permissions: Permissions = Permissions.ASK,
        trust: Trust = Trust.USER,
        dry_run: bool = False,
    ) -> AdoptionResult:
        """Adopts the session into a new thread, named after its first words.

        A session that a thread owns stays there, unless it branched off outside Clew: then that thread can no longer
        resume it, and keeps only its turns. Raises Busy during a run in that thread.
        """
        owner = await self._engine.store.call(lambda store: store.pins.of_session(session.id))
        if owner is not None and owner.pending is None and owner.mark and owner.mark.size_bytes == session.size_bytes:
            return _not_taken(session)  # its file has not changed since that thread used it: no need to read it
        if not session.work_dir or not Path(session.work_dir).is_dir():
            return AdoptionResult(session, None, why=f"its directory is gone: {session.work_dir or 'it names none'}")
        work_dir = os.path.realpath(session.work_dir)
        found = await self._engine.find_session(session.agent, work_dir, session.id)
        if owner is not None and (found is None or not await self._is_lost_to(owner, found)):
            return _not_taken(session)
        if found is None:
            return AdoptionResult(session, None, why="it is empty")
        engine = self._engine

        def work(store: Store) -> AdoptionResult:
            now = engine.context.clock()
            thread = Thread(
                id=ThreadId(engine.context.new_id()),
                name=name_from(session.first_words),
                cwd=work_dir,
                agent=session.agent,
                model=found.view.model or None,
                permissions=permissions,
                trust=trust,
                created_at=min(found.changed_at, now),
                updated_at=now,
            )
            if dry_run:
                return AdoptionResult(session, thread.name, adoption.count_turns(found))
            thread = store.threads.create(thread)
            adopted = adoption.adopt(store, thread, found, session.id, None, engine.context, owner)
            return AdoptionResult(session, thread.name, len(adopted.turns))

        if owner is not None:
            await engine.recover()  # ends a dead run in that thread first
        try:
            return await engine.store.atomically(work)
        except Conflict as error:  # another process was faster
            return AdoptionResult(session, None, why=error.message)

    async def _is_lost_to(self, owner: Pin, found: adoption.FoundSession) -> bool:
        """Whether the session holds what its thread will never have: it branched off, or it was continued although the
        thread now uses another session, or the thread does not follow."""
        pins = await self._engine.store.call(lambda store: store.pins.of_thread(owner.thread_id))
        is_used = any(pin.id == owner.id for pin in newest_pins(pins))
        follows = is_used and self._engine.settings.policy.follow_moves
        return adoption.diverged_outside(owner, found, follows=follows)


def _not_taken(session: AgentSession) -> AdoptionResult:
    return AdoptionResult(session, None, why=f"{session.thread or 'another thread'} has it already")


def _of(adapter: Adapter, environ: Mapping[str, str]) -> Iterator[_SessionFile]:
    for path in adapter.session_paths(adapter.config_dir(environ)):
        try:
            stat = path.stat()
        except OSError:
            continue  # it was just deleted
        if stat.st_size:
            yield _SessionFile(adapter.name, path, stat.st_mtime, stat.st_size)


def _head(adapter: Adapter, path: Path) -> SessionHead | None:
    try:
        return adapter.session_head(path)
    except OSError:
        return None


def _is_within(work_dir: str, folder: str) -> bool:
    real = os.path.realpath(work_dir) if work_dir else ""
    return real == folder or real.startswith(folder.rstrip(os.sep) + os.sep)


def _all_as_known(sessions: Sequence[AgentSession], store: Store) -> list[AgentSession]:
    return [_as_known(store, session) for session in sessions]


def _as_known(store: Store, session: AgentSession) -> AgentSession:
    """Describes a session that a thread owns by that thread's directory and first prompt.

    The file does not say these: it may come from another machine, and it begins with the standing text.
    """
    pin = store.pins.of_session(session.id)
    thread = store.threads.by_id(pin.thread_id) if pin is not None else None
    if pin is None or thread is None:
        return session
    pair = store.pairs.of_thread(thread.id)
    began = store.turns.find(pin.absorbed[0].turn_id) if pin.absorbed else None
    words = pair.task if pair is not None else began.text if began is not None else session.first_words
    return session.replace(thread=thread.name, work_dir=pin.work_dir, first_words=words)
