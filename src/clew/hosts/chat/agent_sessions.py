"""The agents' own sessions on this machine, begun in their plain CLIs, and their adoption into threads.

Listing reads folders, then the beginning of the files that are asked for, the newest first: there may be thousands, and
some are hundreds of megabytes long. Adopting reads one whole, and writes nothing to it: it stays usable where it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from clew.agents.adapter import Adapter, SessionHead
from clew.core.ids import ThreadId
from clew.core.record import Record
from clew.core.thread import Permissions, Thread, Trust, name_from
from clew.engine import adoption
from clew.engine.engine import Engine
from clew.errors import Conflict, NotFound
from clew.store.store import Store

AT_ONCE = 50  # files that are looked into between two answers
SHORTEST_BEGINNING = 4  # of an id


class AgentSession(Record):
    """A session's file, as far as its beginning tells."""

    agent: str
    id: str
    work_dir: str
    first_words: str
    changed_at: float
    size_bytes: int
    path: Path
    thread: str | None = None  # the name of the one that has it


class TakenOver(Record):
    """What came of an adoption."""

    session: AgentSession
    thread: str | None  # None: it was not adopted
    turns: int = 0
    why: str = ""  # not


class _Found(Record):
    agent: str
    path: Path
    changed_at: float
    size_bytes: int


class AgentSessions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self, *, agent: str | None = None, project: str | None = None) -> AsyncIterator[AgentSession]:
        """The last used first. `project`: those of that directory, and of what is below it."""
        within = os.path.realpath(project) if project is not None else None
        files = iter(await asyncio.to_thread(self._files, agent))
        while some := list(islice(files, AT_ONCE)):
            heads = await asyncio.to_thread(self._heads, some)
            for session in await self._engine.database.call(partial(_all_as_known, heads)):
                if within is None or _is_within(session.work_dir, within):
                    yield session

    async def find(self, session_id: str, *, agent: str | None = None) -> AgentSession:
        """By its id, or an unambiguous beginning of one. Raises NotFound."""
        found: list[AgentSession] = []
        if len(session_id) >= SHORTEST_BEGINNING:
            files = await asyncio.to_thread(self._files, agent)
            named = [each for each in files if _id_of(each.path).startswith(session_id)]
            heads = await asyncio.to_thread(self._heads, named)
            found = [each for each in heads if each.id == session_id] or heads
        if len(found) != 1:
            what = "names more than one session" if found else "is not a session of an agent on this machine"
            raise NotFound(f"{session_id!r} {what}.", hint="clew sessions list --all shows them.")
        return await self._engine.database.call(lambda store: _as_known(store, found[0]))

    def _files(self, agent: str | None) -> list[_Found]:
        names = [agent] if agent is not None else self._engine.agents()
        found = [each for name in names for each in _of(self._engine.adapter(name), self._engine.around.environ)]
        return sorted(found, key=lambda each: (-each.changed_at, str(each.path)))

    def _heads(self, files: list[_Found]) -> list[AgentSession]:
        found = []
        for file in files:
            head = _head(self._engine.adapter(file.agent), file.path)
            if head is not None:
                found.append(
                    AgentSession(
                        file.agent,
                        head.id,
                        head.work_dir,
                        head.first_words,
                        file.changed_at,
                        file.size_bytes,
                        file.path,
                    )
                )
        return found

    async def adopt(
        self,
        session: AgentSession,
        *,
        permissions: Permissions = Permissions.ASK,
        trust: Trust = Trust.USER,
        dry_run: bool = False,
    ) -> TakenOver:
        """Into a thread of its own, named after its first words. One that a thread has is left to it.

        Unless it went on outside Clew: its thread cannot resume it then, and keeps only what was said in it. Raises
        Busy while a run is going on there.
        """
        owner = await self._engine.database.call(lambda store: store.pin_by_session(session.id))
        if owner is not None and owner.pending is None and owner.mark and owner.mark.size_bytes == session.size_bytes:
            return _left(session)  # without reading it
        if not session.work_dir or not Path(session.work_dir).is_dir():
            return TakenOver(session, None, why=f"its directory is gone: {session.work_dir or 'it names none'}")
        work_dir = os.path.realpath(session.work_dir)
        found = await self._engine.look_at(session.agent, work_dir, session.id)
        if owner is not None and (found is None or not adoption.went_on_outside(owner, found)):
            return _left(session)
        if found is None:
            return TakenOver(session, None, why="there is nothing in it")
        engine = self._engine

        def work(store: Store) -> TakenOver:
            now = engine.around.clock()
            thread = Thread(
                id=ThreadId(engine.around.new_id()),
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
                return TakenOver(session, thread.name, len(adoption.turns_of(found, engine.around)))
            thread = store.create_thread(thread)
            adopted = adoption.adopt(store, thread, found, session.id, None, engine.around, owner)
            return TakenOver(session, thread.name, len(adopted.turns))

        if owner is not None:
            await engine.recover()  # a run that died there is brought to its end before
        try:
            return await engine.database.atomically(work)
        except Conflict as error:  # somebody was faster
            return TakenOver(session, None, why=error.message)


def _left(session: AgentSession) -> TakenOver:
    return TakenOver(session, None, why=f"{session.thread or 'another thread'} has it already")


def _of(adapter: Adapter, environ: Mapping[str, str]) -> Iterator[_Found]:
    for path in adapter.session_paths(adapter.config_dir(environ)):
        try:
            stat = path.stat()
        except OSError:
            continue  # it went while we looked
        if stat.st_size:
            yield _Found(adapter.name, path, stat.st_mtime, stat.st_size)


def _head(adapter: Adapter, path: Path) -> SessionHead | None:
    try:
        return adapter.session_head(path)
    except OSError:
        return None


def _id_of(path: Path) -> str:
    return path.stem[-36:]  # both kinds of file end in it


def _is_within(work_dir: str, folder: str) -> bool:
    real = os.path.realpath(work_dir) if work_dir else ""
    return real == folder or real.startswith(folder.rstrip(os.sep) + os.sep)


def _all_as_known(sessions: Sequence[AgentSession], store: Store) -> list[AgentSession]:
    return [_as_known(store, session) for session in sessions]


def _as_known(store: Store, session: AgentSession) -> AgentSession:
    """One that a thread has is where the thread is, and began with what was asked there: its file may have been made
    on another machine, and begins with the standing text."""
    pin = store.pin_by_session(session.id)
    thread = store.thread_by_id(pin.thread_id) if pin is not None else None
    if pin is None or thread is None:
        return session
    pair = store.pair_of_thread(thread.id)
    began = store.turn(pin.absorbed[0].turn_id) if pin.absorbed else None
    words = pair.task if pair is not None else began.text if began is not None else session.first_words
    return session.replace(thread=thread.name, work_dir=pin.work_dir, first_words=words)
