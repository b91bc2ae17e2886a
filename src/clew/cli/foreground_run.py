"""One run on the command line, from its start to its exit code. `ask`, `threads retry` and `runs answer` share it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from clew.cli.ui.printing import harmless, note, print_json
from clew.cli.ui.run_display import RunDisplay, closing_line
from clew.cli.ui.terminal_input import TerminalInput
from clew.core.thread import Permissions, Trust
from clew.errors import Conflict, UsageLimit

if TYPE_CHECKING:
    from typing import Protocol

    from clew.api.client import Reply, Run, Thread
    from clew.core.runs.options import Person

    class Stoppable(Protocol):
        """What the user may stop: a run, a round of a review, a pair, a replay."""

        def cancel(self) -> None: ...
        def kill(self) -> None: ...


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_and_report(
    thread: Thread,
    start: Callable[[Person | None], Awaitable[Run]],
    *,
    as_json: bool,
    agent: str | None = None,
) -> int:
    """Starts the run, shows it until it ends, and returns the exit code."""
    return report_reply(await show_run(thread, start, as_json=as_json, agent=agent), as_json=as_json)


async def show_run(
    thread: Thread,
    start: Callable[[Person | None], Awaitable[Run]],
    *,
    as_json: bool,
    agent: str | None = None,
) -> Reply:
    """Starts the run and shows it until it ends."""
    _note_context(thread)
    display = RunDisplay(agent or thread.record.agent, as_json=as_json)
    stop = StopSignals(display)
    terminal = TerminalInput.find()
    with stop.listening(), contextlib.closing(terminal) if terminal else contextlib.nullcontext():
        run = await start(_person(display, terminal) if terminal else None)
        stop.run = run
        display.start()
        try:
            async for event in run:
                display.show(event)
            return await run.reply()
        finally:
            await display.close()


async def wait_for_limit(thread: Thread, reply: Reply, *, as_json: bool) -> Reply:
    """As long as the account's usage limit ends the run: waits until it resets, and continues in the same session."""
    while isinstance(reply.error, UsageLimit):
        limited = reply
        closing = closing_line(limited)
        note(harmless(" ".join(limited.error.message.split()) if limited.error else ""))
        if closing is not None:
            note(closing)

        async def start(person: Person | None, run: str = limited.run) -> Run:
            return await thread.continue_after_limit(run, person=person)

        try:
            reply = await show_run(thread, start, as_json=as_json, agent=limited.agent)
        except Conflict as error:  # another prompt was asked in the thread in the meantime
            note(harmless(error.message))
            return limited
    return reply


def _person(display: RunDisplay, terminal: TerminalInput) -> Person:
    from clew.cli.ui.permission_prompts import PermissionPrompts

    return PermissionPrompts(display, terminal)


def _note_context(thread: Thread) -> None:
    """Says what applies to this run and may surprise the user."""
    record = thread.record
    if record.cwd != os.path.realpath("."):
        note(f"in {harmless(record.cwd)}")
    if record.permissions is Permissions.ALL:
        note("warning: --permissions all: the agent may do anything here without asking")
    if record.trust is Trust.PROJECT:
        note(
            "warning: --trust project: the directory's own agent settings, hooks and MCP servers load and may run code"
        )


def report_reply(reply: Reply, *, as_json: bool) -> int:
    closing = closing_line(reply)
    if closing is not None:
        note(closing)
    if as_json:
        print_json(reply.to_json())
    if reply.error is None:
        return 0
    from clew.cli import error_report

    error_report.print_error(reply.error)
    return reply.error.exit_code


class StopSignals:
    """Ctrl-C, kill and a closed terminal: the first signal stops the agent gracefully, the next one kills it."""

    def __init__(self, display: RunDisplay) -> None:
        self.run: Stoppable | None = None
        self._display = display
        self._asked = False
        self._waiting = asyncio.current_task()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        ours = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as after nohup
        for number in ours:
            loop.add_signal_handler(number, self._caught, number)
        try:
            yield
        finally:
            for number in ours:
                loop.remove_signal_handler(number)

    def _caught(self, number: signal.Signals) -> None:
        if self.run is None:
            if self._waiting is not None:
                self._waiting.cancel()
        elif not self._asked:
            self._asked = True
            self._display.note("stopping… (a second Ctrl-C stops it at once)", after_key=number == signal.SIGINT)
            self.run.cancel()
        else:
            self.run.kill()
