"""One run on the command line, from its start to its exit code. `ask`, `threads retry` and `runs answer` share it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from clew.cli.ui.formatting import harmless
from clew.cli.ui.printing import note, print_json
from clew.cli.ui.run_display import RunDisplay, closing_line
from clew.cli.ui.terminal_input import TerminalInput
from clew.core.thread import Permissions, Trust
from clew.errors import Conflict, UsageLimit

if TYPE_CHECKING:
    from typing import Protocol

    from clew.api.client import Reply, Run, Thread
    from clew.core.runs.options import Person
    from clew.errors import ClewError

    class Stoppable(Protocol):
        """What the user may stop: a run, a round of a review, a pair, a replay."""

        def cancel(self) -> None: ...
        def kill(self) -> None: ...


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def show_run(
    thread: Thread,
    start: Callable[[Person | None], Awaitable[Run]],
    *,
    as_json: bool,
    agent: str | None = None,
) -> Reply:
    """Starts the run and shows it until it ends."""
    record = thread.record
    note_context(record.cwd, record.permissions, record.trust)
    display = RunDisplay(agent or record.agent, as_json=as_json)
    with attended(display) as (stop, person):
        return await follow(display, stop, start(person))


async def follow(display: RunDisplay, stop: StopSignals, started: Awaitable[Run]) -> Reply:
    """Shows a run until it ends. From its start on, `stop` stops it."""
    stop.run = run = await started
    async with display:
        async for event in run:
            display.show(event)
        return await run.reply()


async def wait_for_limit(thread: Thread, reply: Reply, *, as_json: bool) -> Reply:
    """While the account's usage limit ends the run, waits until the limit resets and continues in the same session."""
    while isinstance(reply.error, UsageLimit):
        limited = reply
        note(harmless(" ".join(reply.error.message.split())))
        _note_closing(reply)

        async def start(person: Person | None, run: str = limited.run) -> Run:
            return await thread.continue_after_limit(run, person=person)

        try:
            reply = await show_run(thread, start, as_json=as_json, agent=limited.agent)
        except Conflict as error:  # another prompt was asked in the thread in the meantime
            note(harmless(error.message))
            return limited
    return reply


@contextlib.contextmanager
def attended(display: RunDisplay) -> Iterator[tuple[StopSignals, Person | None]]:
    """Listens for signals that stop the work, and lets the user answer the agent's questions."""
    stop = StopSignals(display)
    with stop.listening(), person_at_terminal(display) as person:
        yield stop, person


@contextlib.contextmanager
def person_at_terminal(display: RunDisplay) -> Iterator[Person | None]:
    """Answers the agent's questions. None: without a terminal there is nobody to ask."""
    terminal = TerminalInput.find()
    if terminal is None:
        yield None
        return
    from clew.cli.ui.permission_prompts import PermissionPrompts

    with contextlib.closing(terminal):
        yield PermissionPrompts(display, terminal)


def note_context(cwd: str, permissions: str, trust: str | None = None) -> None:
    """Says what applies to the work and may surprise the user."""
    if cwd != os.path.realpath("."):
        note(f"in {harmless(cwd)}")
    if permissions == Permissions.ALL:
        note("warning: --permissions all: the agent may do anything without asking")
    if trust == Trust.PROJECT:
        note(
            "warning: --trust project: the directory's own agent settings, hooks and MCP servers load and may run code"
        )


def _note_closing(reply: Reply) -> None:
    closing = closing_line(reply)
    if closing is not None:
        note(closing)


def report_reply(reply: Reply, *, as_json: bool) -> int:
    _note_closing(reply)
    if as_json:
        print_json(reply.to_json())
    return report_error(reply.error)


def report_error(error: ClewError | None) -> int:
    """Prints the error, if there is one, and returns the exit code."""
    if error is None:
        return 0
    from clew.cli.error_report import print_error

    print_error(error)
    return error.exit_code


class StopSignals:
    """Ctrl-C, kill and a closed terminal: the first signal stops the agent gracefully, the next one kills it.

    Before there is a run, a signal cancels the task that waits for it.
    """

    def __init__(self, display: RunDisplay) -> None:
        self.run: Stoppable | None = None
        self._display = display
        self._asked = False
        self._waiting = asyncio.current_task()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        # A signal that is ignored, as SIGHUP is after nohup, stays ignored.
        ours = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in ours:
            loop.add_signal_handler(number, self.caught, number)
        try:
            yield
        finally:
            for number in ours:
                loop.remove_signal_handler(number)

    def caught(self, number: signal.Signals) -> None:
        if self.run is None:
            if self._waiting is not None:
                self._waiting.cancel()
        elif not self._asked:
            self._asked = True
            self._display.note("stopping… (a second Ctrl-C stops it at once)", after_key=number == signal.SIGINT)
            self.run.cancel()
        else:
            self.run.kill()
