"""The loop of a chat: a prompt, its run, and again, until the user leaves.

Rules
1. Only leaving ends the loop: Ctrl-D, /exit, or a signal that ends a process. Ctrl-C stops a run, or clears the prompt.
2. An error of a run is printed as `clew ask` prints it, and the loop continues.
3. Nothing typed is lost: a prompt that was not stored, or that was stopped while it waited, is in the next prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from clew.api.thread import check_name, check_prompt
from clew.cli.ask import AskOptions, new_thread, note_unclaimed
from clew.cli.chat.commands import EXIT, NEW, THREADS, Offered, help_text, own_command
from clew.cli.chat.prompt import ChatPrompt
from clew.cli.error_report import print_error
from clew.cli.foreground_run import (
    STOP_SIGNALS,
    StopSignals,
    follow,
    note_context,
    person_at_terminal,
    report_reply,
)
from clew.cli.threads.session import act_on_session
from clew.cli.ui.formatting import agent_words, ago, harmless, joined, one_line
from clew.cli.ui.printing import note
from clew.cli.ui.run_display import RunDisplay, session_words
from clew.cli.ui.terminal_input import TerminalInput, keeping_typed_keys, pasting_in_marks
from clew.core.expansion.invocation import session_command
from clew.core.record import replace
from clew.core.runs.run import RunStatus
from clew.errors import Cancelled, ClewError, Conflict, NotFound

if TYPE_CHECKING:
    from clew.api.client import Client, Run, Thread
    from clew.core.runs.options import Person

LISTED = 15  # threads
NAME_CHARS = 40  # of a thread in the list
NO_THREAD = "new thread"
LEAVE = "Ctrl-D leaves the chat."


class ChatLoop:
    """`thread` is None until the first prompt creates it. `standing` are instructions for the chat's threads."""

    def __init__(self, client: Client, options: AskOptions, thread: Thread | None, standing: str | None) -> None:
        self._client = client
        self._options = options
        self._thread = thread
        self._standing = standing
        self._is_begun = False  # something was asked in this thread, in this chat
        self._prompt = ChatPrompt(client, self._work_dir)
        self._asking: asyncio.Task[bool] | None = None
        self._stop: StopSignals | None = None  # of the run that is shown
        self._is_ended = False  # a signal ended the chat
        self._task = asyncio.current_task()

    @property
    def _work_dir(self) -> str:
        return self._thread.record.cwd if self._thread is not None else os.path.realpath(self._options.cwd or ".")

    async def run(self) -> None:
        note("/help shows the keys and commands; Ctrl-D leaves")
        offered = ""
        with self._listening(), keeping_typed_keys():
            while True:
                try:
                    typed = await self._read(offered)
                except KeyboardInterrupt:
                    offered = ""
                    note(LEAVE)
                    continue
                except EOFError:
                    break
                command = own_command(typed)
                if command is not None and command[0] is EXIT:
                    break
                with pasting_in_marks():
                    offered = await self._finish(self._work_of(typed), typed)
        if self._thread is not None:
            note(f"clew chat {harmless(self._thread.name)} continues here")

    async def _read(self, offered: str) -> str:
        thread, given = self._thread, self._options
        agent = given.agent or (thread.record.agent if thread is not None else self._client.settings.of("agent"))
        model = given.model or (thread.record.model if thread is not None else self._client.settings.model_of(agent))
        self._prompt.name = thread.name if thread is not None else given.thread or NO_THREAD
        self._prompt.about = agent_words(agent, model)
        self._prompt.go_to(self._work_dir)
        self._prompt.completer.agent = agent
        return await self._prompt.read(offered + TerminalInput.take_typed_ahead())

    def _work_of(self, typed: str) -> Coroutine[Any, Any, bool]:
        if (command := own_command(typed)) is not None:
            return self._obey(*command)
        return self._change_session(typed) if session_command(typed) is not None else self._ask(typed)

    async def _finish(self, work: Coroutine[Any, Any, bool], typed: str) -> str:
        """Does the work, which is False if it did not use what was typed. Returns what the next prompt begins with."""
        self._asking = asyncio.create_task(work)
        try:
            await asyncio.wait({self._asking})
            if self._is_ended:
                raise Cancelled("Stopped.")
            return "" if self._asking.result() else typed
        except ClewError as error:
            if self._is_ended:
                raise
            print_error(error)
        except asyncio.CancelledError:
            if not self._asking.cancelled():
                raise
            note("stopped before it was asked")
        finally:
            self._asking = self._stop = None
        return typed

    async def _ask(self, text: str) -> bool:
        """True: the prompt is a turn of the thread. One that was cancelled while it waited for another run is not."""
        thread = await self._current_thread(text)
        display = RunDisplay(self._options.agent or thread.record.agent, as_json=False)
        self._stop = stop = StopSignals(display)
        with person_at_terminal(display) as person:
            reply = await follow(display, stop, self._start(thread, text, person))
        report_reply(reply, as_json=False)
        return reply.status != RunStatus.CANCELLED or session_words(reply) is not None

    async def _start(self, thread: Thread, text: str, person: Person | None) -> Run:
        """The one place where what was typed becomes a turn."""
        run = await thread.ask(
            text,
            agent=self._options.agent,
            model=self._options.model,
            instructions=None if self._is_begun else self._standing,
            person=person,
            expand=True,
        )
        self._is_begun = True
        return run

    async def _current_thread(self, text: str) -> Thread:
        """The thread as it is now, since it can be changed elsewhere during a chat. A new one is created."""
        check_prompt(text)
        if self._thread is None:
            self._thread = await new_thread(self._client, self._options, text)
        else:
            self._thread = await self._client.find(self._thread.record.id)
        if not self._is_begun:
            record = self._thread.record
            note_context(record.cwd, record.permissions, record.trust)
            await note_unclaimed(self._client, self._thread)
        return self._thread

    async def _change_session(self, text: str) -> bool:
        """`/clear` and `/compact`, as `clew ask` carries them out."""
        await act_on_session(self._thread and await self._client.find(self._thread.record.id), text)
        return True

    async def _obey(self, command: Offered, argument: str) -> bool:
        if command is NEW:
            await self._begin_new(argument or None)
        elif command is THREADS and argument:
            thread = await self._client.find(argument)
            self._client.check_agent(self._options.agent or thread.record.agent)
            self._go_to(thread, thread.name)
            note(f"continuing {harmless(thread.name)}")
        elif command is THREADS:
            await self._list_threads()
        else:
            note(help_text())
        return True

    async def _begin_new(self, name: str | None) -> None:
        if name is not None:
            check_name(name)
            with contextlib.suppress(NotFound):
                await self._client.find(name)
                raise Conflict(f"There is a thread named {name}.", hint=f"/threads {name} continues it.")
        self._go_to(None, name)
        note("the next prompt begins a new thread")

    def _go_to(self, thread: Thread | None, name: str | None) -> None:
        self._thread, self._is_begun = thread, False
        self._options = replace(self._options, thread=name, continue_=False)

    async def _list_threads(self) -> None:
        found = await self._client.threads(cwd=self._work_dir, limit=LISTED)
        for thread in found:
            record = thread.record
            words = joined(ago(record.updated_at), agent_words(record.agent, record.model))
            note(f"{one_line(thread.name, NAME_CHARS):<{NAME_CHARS}}  {words}")
        if not found:
            note("This directory has no threads yet.")

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """For the whole chat, so that there is no moment at which a signal ends it without order."""
        loop = asyncio.get_running_loop()
        ours = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in ours:
            loop.add_signal_handler(number, self._caught, number)
        try:
            yield
        finally:
            for number in ours:
                loop.remove_signal_handler(number)

    def _caught(self, number: signal.Signals) -> None:
        self._is_ended = self._is_ended or number != signal.SIGINT
        if self._stop is not None:
            self._stop.caught(number)
        elif self._asking is not None:
            self._asking.cancel()
        elif not self._is_ended:
            self._prompt.interrupt()
        elif self._task is not None:
            self._task.cancel()
