"""The text that a command reads from stdin: its prompt, or what is piped in beside it."""

from __future__ import annotations

import sys

from clew.cli.ui.printing import note
from clew.errors import UsageError

MAX_INPUT_BYTES = 50_000_000  # more on stdin is refused: it could never be a prompt
PIPE_WAIT_S = 3  # how long a pipe beside an argument may be silent at first, as in `claude -p`
FIRST_WAIT_S = 1  # and how long before the user is told
WAITING = "waiting for what is piped in"
SILENT = (
    f"nothing came on stdin within {PIPE_WAIT_S} s: continuing without it (< /dev/null avoids the wait; "
    "of a slower command, give the output as a file: clew ask … < FILE)"
)


def read_parts(argument: str | None, what: str, command: str) -> tuple[str, str]:
    """The argument, and what is piped in beside it; without an argument, or if it is -, the text on stdin."""
    if argument is None or argument == "-":
        return read_stdin(what, command), ""
    piped = _piped() if argument.strip() else ""
    return argument, piped if piped.strip() else ""


def read_stdin(what: str, command: str) -> str:
    """The text on stdin. `command`: the command that the hint shows, without its text argument."""
    hint = f'Give it as an argument, {command} "…", or on stdin, {command} - < file.'
    return _stdin(UsageError(f"There is no {what}.", hint=hint))


def _stdin(missing: UsageError, *, any_encoding: bool = False) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise missing
    return _checked(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), any_encoding=any_encoding)


def _checked(content: bytes, *, any_encoding: bool = False) -> str:
    if len(content) > MAX_INPUT_BYTES:
        raise UsageError(
            f"stdin has more than {MAX_INPUT_BYTES:,} bytes; nothing was sent.",
            hint="Send less, or name the file and let the agent read it.",
        )
    text = content.decode("utf-8", "replace") if any_encoding else ""
    if lost := text.count("\ufffd") - content.count("\ufffd".encode()):
        note(f"what is piped in is not all UTF-8: \ufffd stands in {lost:,} places instead")
        content = text.encode()
    return as_text(content, "stdin")


def _piped() -> str:
    """The text of a file, pipe or socket on stdin. A pipe that stays silent is left alone: CI systems and cron leave
    stdin open."""
    import os
    import select
    import stat

    try:
        handle = sys.stdin.fileno()
        mode = os.fstat(handle).st_mode
    except (AttributeError, OSError, ValueError):  # stdin is closed
        return ""
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return ""  # a terminal, or /dev/null
    if not select.select([handle], [], [], FIRST_WAIT_S)[0]:
        note(WAITING)
        if not select.select([handle], [], [], PIPE_WAIT_S - FIRST_WAIT_S)[0]:
            note(SILENT)
            return ""
    return _stdin(UsageError("stdin is a terminal."), any_encoding=True)


def is_open_pipe(argument: str | None) -> bool:
    """Whether `read_parts` would read a pipe or socket that somebody may still write to."""
    import os
    import select
    import stat

    if argument is not None and not argument.strip():
        return False  # what is beside it is left unread
    try:
        handle = sys.stdin.fileno()
        mode = os.fstat(handle).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        poll = select.poll()
        ended = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
        poll.register(handle, ended)
        return not any(event & ended for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # stdin is closed; or the platform has no poll
        return False


async def parts_of_open_pipe(argument: str | None) -> tuple[str, str]:
    """As `read_parts`, while other tasks go on, and to be cancelled at any time. `is_open_pipe` must hold."""
    handle = sys.stdin.fileno()
    if argument is None or argument == "-":
        return _checked(await _all_of(handle)), ""
    if not await _comes(handle, FIRST_WAIT_S):
        note(WAITING)
        if not await _comes(handle, PIPE_WAIT_S - FIRST_WAIT_S):
            note(SILENT)
            return argument, ""
    piped = _checked(await _all_of(handle), any_encoding=True)
    return argument, piped if piped.strip() else ""


async def _all_of(handle: int) -> bytes:
    """All that comes; no more than is needed to know that it is too much."""
    import os

    content = bytearray()
    while len(content) <= MAX_INPUT_BYTES:
        await _comes(handle)
        piece = os.read(handle, MAX_INPUT_BYTES + 1 - len(content))
        if not piece:
            break
        content += piece
    return bytes(content)


async def _comes(handle: int, timeout_s: float | None = None) -> bool:
    """Waits until something can be read, or the end has come. False: neither within the time."""
    import asyncio

    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(handle, came.set)
    try:
        async with asyncio.timeout(timeout_s):
            await came.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(handle)
    return True


def read_instructions(path: str) -> str:
    if path == "-":
        return _stdin(UsageError("There are no instructions on stdin.", hint="Name a file: --instructions FILE."))
    from clew.api.files import named_path

    try:
        return as_text(named_path(path).read_bytes(), path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint="--instructions needs a text file."
        ) from error


def as_text(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{source} is not UTF-8 text (byte {error.start}).", hint="Only text can be sent to an agent."
        ) from error
    if "\0" in text:
        raise UsageError(f"{source} is not text: it contains NUL bytes.", hint="Only text can be sent to an agent.")
    return text
