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
    from clew.api import settings

    values = settings.load(os.environ, current_directory())
    for words in values.warnings:
        warn_once(words)
    found = settings.shown(values)
    if as_json:
        objects = [each.to_json() for each in found]
        print_json({each.pop("name"): each for each in objects})
        return
    rows = [[each.name, shown_value(each.value), harmless(each.source)] for each in found]
    say(columns(["SETTING", "VALUE", "FROM"], rows))


@config.command()
def path() -> None:
    """Print the path of your own clew.toml, the file that may set everything."""
    from clew.api.settings import user_settings_file

    file = user_settings_file(os.environ)
    say(str(file.path))
    if not file.exists:
        note("(the file does not exist yet)")


def shown_value(value: object) -> str:
    """As it is written in clew.toml, but without quotes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        from clew.api.settings import as_duration

        return as_duration(value)
    if isinstance(value, list | tuple):
        import json

        return harmless(json.dumps(value, ensure_ascii=False))
    return harmless(str(value))
