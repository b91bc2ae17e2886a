"""How errors are reported: a line and a hint on stderr, and with --json an object on stdout."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.cli.ui.formatting import harmless, local_time
from clew.cli.ui.printing import note, print_json
from clew.core.costs.usage import NO_USAGE
from clew.errors import Cancelled, ClewError, SecretFound, UsageError, UsageLimit

# What `ask --json` prints when there was no run: the same keys as a reply has.
NO_REPLY: dict[str, Any] = {
    "thread": None,
    "run": None,
    "agent": None,
    "model": None,
    "status": None,
    "text": "",
    "session_id": None,
    "session_resumed": False,
    "reason": None,
    "fallback": False,
    "usage": NO_USAGE.as_dict(),
    "cost_usd": 0.0,
    "rewound_to": None,
}


def report(raised: BaseException, args: Sequence[str]) -> int:
    """Prints what a command raised in the form that was asked for, and returns its exit code."""
    error = _as_clew_error(raised, args)
    if error.exit_code == UsageError.exit_code and not error.hint:
        error.hint = f"Try {command_of(args)} --help."
    print_error(error)
    if wants_json(args):
        body = error_object(error)
        asks = list(args[:1]) == ["ask"] and "--explain" not in _options(args)
        replies = asks or list(args[:2]) == ["threads", "retry"]
        reply = {**NO_REPLY, "thread": named_thread(args), "error": body, "warnings": []}
        print_json(reply if replies else {"error": body})
    return error.exit_code


def error_object(error: ClewError) -> dict[str, Any]:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return body | ({"secrets": error.secrets} if isinstance(error, SecretFound) else {})


def command_of(args: Sequence[str]) -> str:
    """The command that the arguments name, such as `clew threads import`, or as much of it as exists."""
    import click

    from clew.cli.commands import cli

    found: click.Command = cli
    path = ["clew"]
    for word in args:
        context = click.Context(found)
        if not isinstance(found, click.Group) or (below := found.get_command(context, word)) is None:
            break
        found = below
        path.append(word)
    return " ".join(path)


def print_error(error: ClewError) -> None:
    note(f"clew: {harmless(' '.join(error.message.split()))}")
    if isinstance(error, UsageLimit) and error.resets_at is not None:
        note(f"  It resets at {local_time(error.resets_at)}.")
    if error.hint:
        note(f"  {harmless(' '.join(error.hint.split()))}")


def _as_clew_error(raised: BaseException, args: Sequence[str]) -> ClewError:
    """Any exception other than Clew's own errors, click's errors and Ctrl-C is a bug in Clew."""
    import click

    if isinstance(raised, ClewError):
        return raised
    if isinstance(raised, click.ClickException):
        context = raised.ctx if isinstance(raised, click.UsageError) else None
        # click gives no context if an option lacks its value
        path = context.command_path if context is not None else command_of(args)
        words = raised.format_message().replace("is not a valid integer range", "is not a whole number")
        return UsageError(words, hint=f"Try {path} --help.")
    if isinstance(raised, (click.Abort, KeyboardInterrupt)):
        return Cancelled("Stopped.")
    if os.environ.get("CLEW_DEBUG"):
        traceback.print_exception(raised)
    written = _write_traceback(raised)
    hint = f"The traceback is in {written}." if written else "CLEW_DEBUG=1 shows the traceback."
    return ClewError(f"internal error: {type(raised).__name__}: {raised}"[:500], hint=hint)


def _write_traceback(error: BaseException) -> Path | None:
    """Writes the traceback to a file that only the owner can read. None: it could not be written."""
    from clew.api.files import make_private
    from clew.api.settings import home as clew_home

    try:
        home = clew_home(os.environ)
        make_private(home)
        path = home / f"error-{int(time.time())}-{os.getpid()}.txt"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"Python {sys.version}\n\n")
            traceback.print_exception(error, file=file)
    except OSError:
        return None
    return path


def named_thread(args: Sequence[str]) -> str | None:
    """The thread that the unparsed arguments name, if any."""
    if list(args[:2]) == ["threads", "retry"]:
        return next((word for word in args[2:] if not word.startswith("-")), None)
    options = _options(args)
    for place, word in enumerate(options):
        if word in ("-t", "--thread"):
            return next(iter(options[place + 1 : place + 2]), None)
        if word.startswith("--thread="):
            return word.removeprefix("--thread=")
        if word.startswith("-t"):
            return word.removeprefix("-t")
    return None


def wants_json(args: Sequence[str]) -> bool:
    """Checks the unparsed arguments, since the error may be that they cannot be parsed."""
    return "--json" in _options(args)


def _options(args: Sequence[str]) -> Sequence[str]:
    return args[: args.index("--")] if "--" in args else args
