"""The composition root of hooks: the settings of the user's own file, the forges' APIs, the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clew import config, hooks_config
from clew.core.hook import Forge
from clew.engine.engine import Engine
from clew.errors import ConfigError
from clew.hosts.forge_api import ForgeApi
from clew.hosts.hooks import Hooks
from clew.hosts.own_secrets import own_secrets


def open_hooks(engine: Engine, home: Path, environ: Mapping[str, str]) -> Hooks:
    """`environ` is the whole one: tokens are in no agent's. Raises ConfigError."""
    settings = hooks_config.load(environ)

    def api_of(forge: Forge) -> ForgeApi | None:
        token = hooks_config.keys_of(forge, environ).token
        return ForgeApi(forge, settings.url(forge), token) if token is not None else None

    def secrets() -> dict[str, str]:
        return own_secrets(environ, home, config.user_file(environ))

    return Hooks(engine, settings, home, api_of, secrets=secrets)


def check(hooks: Hooks) -> None:
    """What must be found before an event arrives. Raises ConfigError."""
    problems = hooks.skills.check()
    if problems:
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise ConfigError(f"{problems[0]}{more}", hint="clew hooks check lists them all.")
