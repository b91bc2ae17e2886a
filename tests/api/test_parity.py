"""What the command line can do, Python and HTTP can do: each command has a row in `parity.py`, and each row is true."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import click
import pytest

from api.parity import TABLE, Row
from clew.cli.commands import cli
from clew.mcp.server import Tools
from clew.server.app import api_routers, http_routes


def commands(group: click.Group, *above: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            if found.invoke_without_command:
                yield " ".join((*above, name))
            yield from commands(found, *above, name)
        else:
            yield " ".join((*above, name))


def routes() -> set[str]:
    return {f"{method} {route.path}" for route in http_routes(api_routers()) for method in route.methods}


def resolved(path: str) -> Any:
    """The callable of that path: a module, then attributes."""
    module, *names = path.split(".")
    found: Any = importlib.import_module(module)
    for place, name in enumerate(names, 1):
        if not hasattr(found, name):
            found = importlib.import_module(".".join([module, *names[:place]]))
        else:
            found = getattr(found, name)
    return found


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert sorted(TABLE) == sorted(commands(cli))


@pytest.mark.parametrize("command", TABLE)
def test_the_calls_of_a_row_exist_or_it_says_why_there_are_none(command: str) -> None:
    row: Row = TABLE[command]
    assert bool(row.api) != bool(row.why_no_api), "name the call, or say why there is none"
    assert bool(row.http) != bool(row.why_no_http), "name the route, or say why there is none"
    for path in row.api:
        assert callable(resolved(path)), path
    assert set(row.http) <= routes()
    assert row.mcp is None or callable(getattr(Tools, row.mcp))
