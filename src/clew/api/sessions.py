"""The agents' own sessions on this machine, for every surface: list them, and adopt them as threads.

chosen = await sessions.choose(client, SessionSelection(everything=True, project="/home/me/shop"))
adopted = await sessions.adopt(client, chosen)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.api.operations import Operation, Report, without_frames
from clew.api.wire import sessions as wire
from clew.api.wire.operations import Failure
from clew.core.record import Record
from clew.core.thread import Permissions, Trust
from clew.errors import Busy, Cancelled, ClewError, NotFound, UsageError
from clew.hosts.chat.agent_sessions import AdoptionResult as AdoptionResult
from clew.hosts.chat.agent_sessions import AgentSession as AgentSession
from clew.hosts.chat.agent_sessions import AgentSessions

if TYPE_CHECKING:
    from clew.api.client import Client

SHOWN = 50  # sessions in a list, unless more are asked for
WORDS_CHARS = 200  # of the first words, in JSON


def anywhere(_folder: str) -> bool:
    return True


class SessionSelection(Record):
    """Which sessions are adopted: those with these ids, or everything that the filters allow."""

    ids: tuple[str, ...] = ()  # an id, or an unambiguous beginning of one
    everything: bool = False
    agent: str | None = None
    project: str | None = None  # with `everything`: only sessions of this directory and of those below it

    def check(self) -> None:
        """Raises UsageError."""
        if bool(self.ids) == self.everything:
            raise UsageError("Either ids or all sessions must be chosen.", hint="Give one of the two, and not both.")
        if self.ids and self.project is not None:
            raise UsageError("A project can only be given with all sessions.", hint="An id is enough.")


class ChosenSessions(Record):
    sessions: tuple[AgentSession, ...]
    failed: tuple[ClewError, ...] = ()  # for each id that names no session: why


class Adoption(Record):
    """The sessions that were to be adopted, each with its thread or the reason why it has none."""

    done: tuple[AdoptionResult, ...]
    failed: tuple[ClewError, ...]  # sessions that were not found, or whose thread is in use

    def to_shape(self) -> wire.Adoption:
        items = [adopted_shape(each) for each in self.done]
        return wire.Adoption(items=items, errors=[Failure.of(each) for each in self.failed])


async def newest(
    client: Client,
    *,
    agent: str | None = None,
    project: str | None = None,
    limit: int | None = SHOWN,
    allowed: Callable[[str], bool] = anywhere,
) -> tuple[list[AgentSession], bool]:
    """The most recently used sessions, and whether there are more. `limit` None: all of them.

    `allowed` says of which directories sessions are shown. Raises UsageError for an unknown agent.
    """
    found: list[AgentSession] = []
    async for session in AgentSessions(client.engine).newest(agent=agent, project=project):
        if allowed(session.work_dir):
            if limit is not None and len(found) >= limit:
                return found, True
            found.append(session)
    return found, False


async def find(
    client: Client, session_id: str, *, agent: str | None = None, allowed: Callable[[str], bool] = anywhere
) -> AgentSession:
    """The session with that id, or with the only id that begins so. Raises NotFound, also where it is not allowed."""
    return await AgentSessions(client.engine).find(session_id, agent=agent, allowed=allowed)


async def choose(
    client: Client, selection: SessionSelection, *, allowed: Callable[[str], bool] = anywhere
) -> ChosenSessions:
    """Finds the sessions. Reads only the beginnings of their files. Raises UsageError."""
    selection.check()
    if selection.everything:
        found, _ = await newest(client, agent=selection.agent, project=selection.project, limit=None, allowed=allowed)
        return ChosenSessions(tuple(found))
    named: list[AgentSession] = []
    failed: list[ClewError] = []
    for session_id in dict.fromkeys(selection.ids):
        try:
            named.append(await find(client, session_id, agent=selection.agent, allowed=allowed))
        except NotFound as error:
            failed.append(without_frames(error))
    return ChosenSessions(tuple(named), tuple(failed))


def adopt(client: Client, chosen: ChosenSessions, *, dry_run: bool = False) -> Operation[Adoption]:
    """Makes a thread of each session, with the permissions and the trust of the settings. The files are only read.

    `dry_run`: only says what would be adopted. A cancel takes effect before the next session; the operation then has
    what was adopted as its result. Sessions that were adopted are skipped next time.
    """
    stop = asyncio.Event()

    async def work(operation: Operation[Adoption], report: Report) -> Adoption:
        known = AgentSessions(client.engine)
        permissions = Permissions(client.settings.of("permissions"))
        trust = Trust(client.settings.of("trust"))
        done: list[AdoptionResult] = []
        failed = list(chosen.failed)
        total = len(chosen.sessions)
        for number, session in enumerate(chosen.sessions, start=1):
            if stop.is_set():
                so_far = Adoption(tuple(done), tuple(failed))
                operation.keep(so_far, so_far.to_shape())
                raise Cancelled("The adoption was stopped.", hint="The sessions that were adopted are kept.")
            try:
                adopted = await operation.finish(
                    known.adopt(session, permissions=permissions, trust=trust, dry_run=dry_run)
                )
            except Busy as error:
                failed.append(without_frames(error))
                report.warning(error.message, session=session.id)
                continue
            done.append(adopted)
            report.progress(_words(adopted, dry_run=dry_run), number, total, session=session.id, thread=adopted.thread)
        return Adoption(tuple(done), tuple(failed))

    subjects = tuple(each.id for each in chosen.sessions[:SHOWN])
    operation = client.operations.start("adopt", work, Adoption.to_shape, subjects=subjects)
    operation.stop_with(stop.set)
    return operation


def _words(adopted: AdoptionResult, *, dry_run: bool) -> str:
    if adopted.thread is None:
        return f"skipped {adopted.session.id}: {adopted.why}"
    return f"{adopted.session.id} {'would become' if dry_run else 'became'} {adopted.thread}"


def session_shape(session: AgentSession) -> wire.AgentSession:
    return wire.AgentSession.of(
        session,
        cwd=session.work_dir or None,
        first_words=_first_words(session.first_words),
        file=str(session.path),
    )


def adopted_shape(adopted: AdoptionResult) -> wire.AdoptedSession:
    return wire.AdoptedSession.of(
        session_shape(adopted.session),
        adopted=adopted.thread is not None,
        thread=adopted.thread or adopted.session.thread,
        turns=adopted.turns,
        why=adopted.why or None,
    )


def _first_words(text: str) -> str:
    flat = " ".join(text[: WORDS_CHARS * 8].split())
    return flat if len(flat) <= WORDS_CHARS else f"{flat[: WORDS_CHARS - 1]}…"
