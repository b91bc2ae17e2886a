"""The command `clew config`."""

from __future__ import annotations

import os

import click

from clew.cli.client_runner import current_directory, warn_once
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import harmless
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Show the settings and where each one comes from: flags, then CLEW_*, then clew.toml, then defaults."""


@config.command()
@AS_JSON
def show(as_json: bool) -> None:
    """Show every setting with its value and its source."""
    from clew import config as settings

    values = settings.load(os.environ, current_directory())
    for words in values.warnings:
        warn_once(words)
    if as_json:
        print_json(
            {
                setting.name: {
                    "value": setting.shown(values[setting.name].value),
                    "source": values[setting.name].source,
                    "variable": setting.variable,
                    "help": setting.help,
                }
                for setting in settings.TABLE
            }
        )
        return
    rows = [
        [name, shown_value(settings.BY_NAME[name].shown(value.value)), harmless(value.source)]
        for name, value in values.items()
    ]
    say(columns(["SETTING", "VALUE", "FROM"], rows))


@config.command()
def path() -> None:
    """Print the path of your own clew.toml, the file that may set everything."""
    from clew import config as settings

    found = settings.user_file(os.environ)
    say(str(found or settings.places(os.environ)[-1]))
    if found is None:
        note("(the file does not exist yet)")


def shown_value(value: object) -> str:
    """As it is written in clew.toml, but without quotes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        from clew.config import as_duration

        return as_duration(value)
    if isinstance(value, tuple):
        import json

        return harmless(json.dumps(value, ensure_ascii=False))
    return harmless(str(value))
