"""Options that several commands share."""

from __future__ import annotations

import click

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
REPLY_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object instead of the answer.")
NO_WAIT = click.option("--no-wait", is_flag=True, help="Exit at once (8) when another run is going on in the thread.")
TIMEOUT = click.option(
    "--timeout",
    metavar="DURATION",
    help="End the run after so long: 90s, 30m, 2h, none; a bare number is seconds.  [default: the setting timeout]",
)
