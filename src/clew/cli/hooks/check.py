"""`clew hooks check`: finds what would otherwise fail when an event arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import one_line, plural
from clew.cli.ui.printing import print_json, say
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client

LINE_CHARS = 400


@click.command()
@AS_JSON
@client_command(reads=True)
async def check(client: Client, as_json: bool) -> int:
    """Check the settings of hooks, every template in both forms, and this machine.

    Of secrets and tokens it prints only whether they are set. Exit code 0: nothing would fail when an event arrives,
    but there may be warnings; 2: something would fail.

    \b
      clew hooks check
      clew hooks check --json | jq -r '.problems[]'
    """
    from clew.api import hook_check

    found = await hook_check.check(client)
    if as_json:
        print_json(found.to_json())
        return 0 if found.ok else UsageError.exit_code
    for good in found.good:
        say(f"ok       {one_line(f'{good.what}: {good.words}', LINE_CHARS)}")
    for words in found.warnings:
        say(f"warning  {one_line(words, LINE_CHARS)}")
    for words in found.problems:
        say(f"problem  {one_line(words, LINE_CHARS)}")
    say("nothing would fail" if found.ok else plural(len(found.problems), "problem"))
    return 0 if found.ok else UsageError.exit_code
