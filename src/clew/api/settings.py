"""The settings: where they are read from, every setting with its value and source, and durations as users write them.

`client.settings` are those of an open store. This module needs no store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from clew.config import TABLE as TABLE
from clew.config import Settings as Settings
from clew.config import as_duration as as_duration
from clew.config import duration as duration
from clew.config import home as home
from clew.config import load as load
from clew.config import places, user_file
from clew.config import span as span
from clew.core.record import Record

if TYPE_CHECKING:
    from clew.api.wire import setup as wire


class UserFile(Record):
    """The user's own clew.toml, the file that may set everything."""

    path: Path
    exists: bool


def user_settings_file(environ: Mapping[str, str]) -> UserFile:
    """The user's own file, or where it would be. Raises ConfigError if CLEW_CONFIG names a file that does not exist."""
    found = user_file(environ)
    return UserFile(found or places(environ)[-1], found is not None)


def store_file(environ: Mapping[str, str]) -> Path:
    """The database, unless the setting `store` names another one. It need not exist."""
    from clew.wiring.engine import STORE_FILE

    return home(environ) / STORE_FILE


def shown(settings: Settings) -> list[wire.ConfigSetting]:
    """Every setting with its value and source, in the order of the reference. No value contains a password."""
    from clew.api.wire import setup as wire

    return [
        wire.ConfigSetting.of(
            each, settings[each.name], value=each.shown(settings[each.name].value), variable=each.variable
        )
        for each in TABLE
    ]
