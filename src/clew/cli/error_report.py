"""How errors are reported: a line and a hint on stderr, and with --json an object on stdout."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.cli.ui.printing import at_clock, harmless, note, print_json
from clew.errors import ClewError, SecretFound, UsageError, UsageLimit

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
    "usage": {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    },
    "cost_usd": 0.0,
}


def report(error: ClewError, args: Sequence[str]) -> int:
    """Prints the error in the form that was asked for, and returns its exit code."""
    if error.exit_code == UsageError.exit_code and not error.hint:
        error.hint = f"Try {command_of(args)} --help."
    print_error(error)
    if wants_json(args):
        body: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
        if isinstance(error, SecretFound):
            body["secrets"] = error.secrets
        replies = list(args[:1]) == ["ask"] or list(args[:2]) == ["threads", "retry"]
        reply = {**NO_REPLY, "thread": named_thread(args), "error": body, "warnings": []}
        print_json(reply if replies else {"error": body})
    return error.exit_code


def command_of(args: Sequence[str]) -> str:
    """The command that was called, such as `clew threads import`, as far as the arguments name one."""
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
        note(f"  It resets at {at_clock(error.resets_at)}.")
    if error.hint:
        note(f"  {harmless(' '.join(error.hint.split()))}")


def report_unexpected(error: Exception, args: Sequence[str]) -> int:
    """A bug in Clew: its traceback goes to a file that only the owner can read."""
    if os.environ.get("CLEW_DEBUG"):
        traceback.print_exception(error)
    words = f"internal error: {type(error).__name__}: {error}"
    path = _write_traceback(error)
    hint = f"The traceback is in {path}." if path else "CLEW_DEBUG=1 shows the traceback."
    return report(ClewError(words[:500], hint=hint), args)


def _write_traceback(error: Exception) -> Path | None:
    from clew import config
    from clew.system.folders import make_private

    try:
        home = config.home(os.environ)
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
    """Looks at the unparsed arguments: the error may be that they cannot be parsed."""
    return "--json" in _options(args)


def _options(args: Sequence[str]) -> Sequence[str]:
    return args[: args.index("--")] if "--" in args else args
