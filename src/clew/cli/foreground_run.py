"""One run on the command line, from its start to its exit code. `ask`, `threads retry` and `runs answer` share it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from clew.cli.display import Display, closing_line
from clew.cli.keyboard import Keyboard
from clew.cli.output import harmless, note, print_json
from clew.core.thread import Permissions, Trust
from clew.errors import Conflict, UsageLimit

if TYPE_CHECKING:
    from typing import Protocol

    from clew.client import Reply, Run, Thread
    from clew.engine.settings import Person

    class Stoppable(Protocol):
        """What a person may stop: a run, a round of a review."""

        def cancel(self) -> None: ...
        def kill(self) -> None: ...


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def converse(
    thread: Thread,
    start: Callable[[Person | None], Awaitable[Run]],
    *,
    as_json: bool,
    agent: str | None = None,
) -> int:
    """Starts the run, shows it, and returns the exit code. Ctrl-C stops it gently."""
    return conclude(await carry_out(thread, start, as_json=as_json, agent=agent), as_json=as_json)


async def carry_out(
    thread: Thread,
    start: Callable[[Person | None], Awaitable[Run]],
    *,
    as_json: bool,
    agent: str | None = None,
) -> Reply:
    """Starts the run and shows it to its end."""
    _tell_circumstances(thread)
    display = Display(agent or thread.record.agent, as_json=as_json)
    stop = Stop(display)
    keyboard = Keyboard.find()
    with stop.listening(), contextlib.closing(keyboard) if keyboard else contextlib.nullcontext():
        run = await start(_person(display, keyboard) if keyboard else None)
        stop.run = run
        display.start()
        try:
            async for event in run:
                display.show(event)
            return await run.reply()
        finally:
            await display.close()


async def wait_for_limit(thread: Thread, reply: Reply, *, as_json: bool) -> Reply:
    """While the account's usage limit ends the run: waits until it resets, and continues in the same session."""
    while isinstance(reply.error, UsageLimit):
        limited = reply
        closing = closing_line(limited)
        note(harmless(" ".join(limited.error.message.split()) if limited.error else ""))
        if closing is not None:
            note(closing)

        async def start(person: Person | None, run: str = limited.run) -> Run:
            return await thread.continue_after_limit(run, person=person)

        try:
            reply = await carry_out(thread, start, as_json=as_json, agent=limited.agent)
        except Conflict as error:  # another prompt was asked in the thread in the meantime
            note(harmless(error.message))
            return limited
    return reply


def _person(display: Display, keyboard: Keyboard) -> Person:
    from clew.cli.person import TerminalPerson

    return TerminalPerson(display, keyboard)


def _tell_circumstances(thread: Thread) -> None:
    """What holds for this run and may not be what one thinks."""
    record = thread.record
    if record.cwd != os.path.realpath("."):
        note(f"in {harmless(record.cwd)}")
    if record.permissions is Permissions.ALL:
        note("warning: --permissions all: the agent may do anything here without asking")
    if record.trust is Trust.PROJECT:
        note(
            "warning: --trust project: the directory's own agent settings, hooks and MCP servers load and may run code"
        )


def conclude(reply: Reply, *, as_json: bool) -> int:
    closing = closing_line(reply)
    if closing is not None:
        note(closing)
    if as_json:
        print_json(reply.to_json())
    if reply.error is None:
        return 0
    from clew.cli import failure

    failure.say(reply.error)
    return reply.error.exit_code


class Stop:
    """Ctrl-C, kill and a closed terminal: the first asks the agent to stop, the next one ends it at once."""

    def __init__(self, display: Display) -> None:
        self.run: Stoppable | None = None
        self._display = display
        self._asked = False
        self._waiting = asyncio.current_task()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        ours = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup sets it
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
            self._display.note("stopping… (once more: at once)", after_key=number == signal.SIGINT)
            self.run.cancel()
        else:
            self.run.kill()
