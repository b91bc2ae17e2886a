"""Builds the host of hooks from the settings in the user's own file and the APIs of the forges."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clew import config
from clew.config import hooks as hooks_config
from clew.core.hooks.hook import Forge
from clew.engine.engine import Engine
from clew.errors import ConfigError
from clew.hosts.hooks.forge.api import ForgeApi
from clew.hosts.hooks.hooks import Hooks
from clew.hosts.hooks.own_secrets import own_secrets


def open_hooks(engine: Engine, home: Path, environ: Mapping[str, str]) -> Hooks:
    """`environ` is the whole environment, with the tokens that agents do not get. Raises ConfigError."""
    settings = hooks_config.load(environ)

    def api_of(forge: Forge) -> ForgeApi | None:
        token = hooks_config.keys_of(forge, environ).token
        return ForgeApi(forge, settings.url(forge), token) if token is not None else None

    def secrets() -> dict[str, str]:
        return own_secrets(environ, home, config.user_file(environ))

    return Hooks(engine, settings, home, api_of, secrets=secrets)


def check(hooks: Hooks) -> None:
    """Raises ConfigError for templates that would fail when an event arrives."""
    problems = hooks.skills.check()
    if problems:
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise ConfigError(f"{problems[0]}{more}", hint="clew hooks check lists all problems.")
