"""Options that several commands share."""

from __future__ import annotations

from typing import overload

import click

from clew.errors import UsageError


@overload
def seconds(option: str, given: str) -> float: ...
@overload
def seconds(option: str, given: str, *, none: bool) -> float | None: ...
def seconds(option: str, given: str, *, none: bool = False) -> float | None:
    """A duration that was given on the command line. `none`: it may be none at all. Raises UsageError."""
    from clew import config

    try:
        return config.duration(given) if none and given.strip() else config.span(given)
    except ValueError as error:
        words = str(error).partition(":")[0]
        hint = f"Write 90s, 30m, 2h{', 7d or none' if none else ' or 7d'}."
        raise UsageError(f"{option} {given} {words}.", hint=hint) from None


def _timeout(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Parsed with the settings; refused here in the command line's words."""
    if value is not None:
        seconds("--timeout", value, none=True)
    return value


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
REPLY_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object instead of the answer.")
NO_WAIT = click.option("--no-wait", is_flag=True, help="Exit at once (8) when another run is going on in the thread.")
TIMEOUT = click.option(
    "--timeout",
    metavar="DURATION",
    callback=_timeout,
    help="End the run after so long: 90s, 30m, 2h, none; a bare number is seconds.  [default: the setting timeout]",
)
