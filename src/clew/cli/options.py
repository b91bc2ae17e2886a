"""Options that several commands share, and the completion of their values."""

from __future__ import annotations

import os
from typing import Any, Literal, overload

import click

from clew.cli.ui.printing import be_plain
from clew.errors import UsageError

MAX_NAMES = 1000


@overload
def seconds(option: str, given: str) -> float: ...
@overload
def seconds(option: str, given: str, *, none: bool) -> float | None: ...
def seconds(option: str, given: str, *, none: bool = False) -> float | None:
    """A duration that was given on the command line. `none`: the word "none" is allowed, too. Raises UsageError."""
    from clew.api.settings import duration, span

    try:
        return duration(given) if none and given.strip() else span(given)
    except ValueError as error:
        words = str(error).partition(":")[0]
        hint = f"Write 90s, 30m, 2h{', 7d or none' if none else ' or 7d'}."
        raise UsageError(f"{option} {given} {words}.", hint=hint) from None


def _timeout(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Checks the value here, so that the error names the option. It is parsed later, as a setting."""
    if value is not None:
        seconds("--timeout", value, none=True)
    return value


def age(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The seconds of an option such as `--older-than 7d`."""
    return None if value is None else seconds(f"--{param.human_readable_name.replace('_', '-')}", value)


def _plain(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        be_plain()


PLAIN = click.option(
    "--plain",
    is_flag=True,
    expose_value=False,
    callback=_plain,
    help="Print answers on a terminal as the agent wrote them, without rendering their Markdown.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
REPLY_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object instead of the answer.")
LIMIT = click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Show at most this many."
)
SINCE = click.option(
    "--since", metavar="DURATION", callback=age, help="Only the last 2h, 7d, …; a bare number is seconds."
)
INSTRUCTIONS = click.option(
    "--instructions",
    metavar="FILE",
    help="Instructions for the thread from now on, from a file (- = stdin; an empty file removes them).",
)
OF_AGENT = click.option("--agent", metavar="AGENT", help="Only those of this agent.")
OF_PROJECT = click.option(
    "--project", metavar="DIR", help="Only those of this directory and of the directories below it."
)
NO_WAIT = click.option("--no-wait", is_flag=True, help="Exit at once, with 8, if another run is active in the thread.")
TIMEOUT = click.option(
    "--timeout",
    metavar="DURATION",
    callback=_timeout,
    help="Stop the run after this time: 90s, 30m, 2h, none; a bare number is seconds.  [default: the setting timeout]",
)
CONTINUE = click.option(
    "-c",
    "--continue",
    "continue_",
    is_flag=True,
    help="Continue the latest thread of this directory, or else of its repository.",
)
CWD = click.option(
    "--cwd",
    metavar="DIR",
    help="The work directory; an existing thread moves there.  [default: the thread's; for a new thread, this one]",
)
PERMISSIONS = click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    help="What the agent may do without asking. `all` means everything.  "
    "[default: the thread's; for a new thread, ask]",
)
TRUST = click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose agent settings, hooks and MCP servers are loaded. Those of a project can run code.  "
    "[default: the thread's; for a new thread, user]",
)
VISIBILITY = click.option(
    "--visibility",
    type=click.Choice(["shared", "own"]),
    help="What agents see of each other's turns in a new thread; `clew threads set` changes it.  [default: shared]",
)


def complete_thread(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Names of threads, for the shell."""
    return _completed(incomplete, "threads")


def complete_pair(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Names of pairs, for the shell."""
    return _completed(incomplete, "pairs")


def complete_review(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """`latest` and the ids of reviews, for the shell; the newest first."""
    return _completed(incomplete, "reviews", "latest")


def _completed(incomplete: str, what: Literal["threads", "pairs", "reviews"], *more: str) -> list[str]:
    """The names that begin with what was typed. Never creates a store, and never fails."""
    from clew.api.settings import store_file
    from clew.cli.client_runner import with_client
    from clew.errors import ClewError

    try:
        if not store_file(os.environ).exists():
            return []
        found = with_client(lambda client: client.views.names(what, MAX_NAMES), quiet=True, reads=True)
    except (ClewError, OSError):
        return []
    return [name for name in (*more, *found) if name.startswith(incomplete)]
