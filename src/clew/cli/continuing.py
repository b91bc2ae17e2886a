"""The thread that a command continues when none is named: `clew ask -c`, `clew open`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import click

from clew.cli.ui.formatting import ago, harmless, one_line, plural
from clew.cli.ui.printing import note
from clew.cli.ui.terminal_input import TerminalInput
from clew.errors import ClewError, NotFound

if TYPE_CHECKING:
    from clew.api.client import Client, Thread
    from clew.api.sessions import AgentSession

WORDS_CHARS = 60
YES = ("", "y", "yes")


async def latest_thread(client: Client, cwd: str, *, reads: bool = False) -> Thread:
    """The latest thread of the directory or of its repository. Raises NotFound.

    If there are only sessions of a plain CLI, the user is asked whether the newest of them shall become a thread.
    `reads`: nothing may be changed, so nobody is asked.
    """
    try:
        return await client.latest(cwd)
    except NotFound as error:
        session = await client.newest_session(cwd)
        if session is None:
            raise
        missing = NotFound(error.message, hint=_hint(session))
    terminal = None if reads else TerminalInput.find()
    if terminal is None:
        raise missing
    with contextlib.closing(terminal):
        if not await _agrees(session, terminal):
            raise missing
    return await _adopted(client, session)


def _hint(session: AgentSession) -> str:
    words = one_line(session.first_words, WORDS_CHARS)
    named = f" (“{words}”)" if words else ""
    return (
        f"clew sessions adopt {harmless(session.id)} makes a thread of the newest session of {session.agent}{named}, "
        f"{ago(session.changed_at)}."
    )


def place_words(thread: Thread, cwd: str) -> str:
    """` (in DIR)`, unless the thread's directory is that one."""
    folder = thread.record.cwd
    return "" if folder == os.path.realpath(cwd) else f" (in {harmless(folder)})"


async def _agrees(session: AgentSession, terminal: TerminalInput) -> bool:
    words = one_line(session.first_words, WORDS_CHARS) or session.id
    when = ago(session.changed_at)
    terminal.set_typed_ahead_aside()
    click.echo(f"Continue the session “{words}” of {session.agent}, {when}? [Y/n] ", err=True, nl=False)
    try:
        return (await terminal.read_line()).strip().lower() in YES
    except EOFError:
        note("")
        return False


async def _adopted(client: Client, session: AgentSession) -> Thread:
    from clew.api import sessions

    [done] = (await sessions.adopt(client, sessions.ChosenSessions((session,)))).done
    if done.thread is None:
        raise ClewError(f"The session {session.id} was not adopted: {done.why}.")
    note(f"adopted {done.session.id} with {plural(done.turns, 'turn')}")
    return await client.find(done.thread)
