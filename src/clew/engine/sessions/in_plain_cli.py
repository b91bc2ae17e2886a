"""The sessions of a thread, each with the command that opens it in the agent's own terminal interface."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from clew.agents.adapter import Adapter, Binary
from clew.core.ids import SessionId
from clew.core.pins import Pin, PinState
from clew.core.record import Record
from clew.core.thread import Thread, is_safe_argument
from clew.engine.sessions.observation import file_of
from clew.errors import AgentMissing
from clew.store.store import Store
from clew.system.programs import on_path

FindBinary = Callable[[str], Binary]


class ThreadSession(Record):
    """A session that the thread uses, or has used."""

    agent: str
    model: str
    id: SessionId
    state: PinState
    cwd: str
    borrowed: bool  # it belongs to another thread: the next turn continues in a copy
    current: bool  # the newest of its agent and model: the one that a turn would resume
    command: str | None  # None: it has no file on this machine, or the agent has no such command


def sessions_of(
    store: Store,
    thread: Thread,
    adapter_of: Callable[[str], Adapter | None],
    find: FindBinary,
    environ: Mapping[str, str],
) -> tuple[ThreadSession, ...]:
    """The thread's sessions, the oldest first. One that is not used any more is left out."""
    pins = store.pins.of_thread(thread.id, retired=False, absorbed=False)
    newest = {(pin.agent, pin.model): pin.id for pin in pins}
    return tuple(
        ThreadSession(
            agent=pin.agent,
            model=pin.model,
            id=pin.session_id,
            state=pin.state,
            cwd=pin.work_dir,
            borrowed=pin.borrowed_at is not None,
            current=newest[pin.agent, pin.model] == pin.id,
            command=_command(pin, adapter_of(pin.agent), find, environ),
        )
        for pin in pins
    )


def _command(pin: Pin, adapter: Adapter | None, find: FindBinary, environ: Mapping[str, str]) -> str | None:
    """The command for a shell. A borrowed session must not be continued: it belongs to another thread."""
    if adapter is None or pin.borrowed_at is not None or pin.runtime.config_dir != adapter.config_dir(environ):
        return None
    if file_of(adapter, pin) is None:
        return None
    try:
        binary = find(pin.agent)
    except AgentMissing:
        return None
    model = pin.model if is_safe_argument(pin.model) else None
    argv = adapter.terminal_command(binary, pin.session_id, model)
    return None if argv is None else shell_command(argv, pin.work_dir, environ)


def shell_command(argv: list[str], cwd: str, environ: Mapping[str, str]) -> str:
    """The command as a person types it: in its directory, and with the program's name alone if PATH leads there."""
    program = Path(argv[0])
    is_found = on_path(program.name, environ) == program
    return f"cd {shlex.quote(cwd)} && {shlex.join([program.name if is_found else argv[0], *argv[1:]])}"
