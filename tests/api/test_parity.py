"""What the command line can do, Python and HTTP can do: each command has a row in `parity.py`, and each row is true."""

from __future__ import annotations

import operator
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import clew
from api.parity import TABLE, Row
from clew.cli.commands import cli
from clew.core.thread import Permissions
from clew.mcp.bounds import Bounds
from clew.mcp.server import make_server
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


def resolved(client: clew.Client, path: str) -> Any:
    """What the path names: of the client, or of a module."""
    if path.startswith("client."):
        return operator.attrgetter(path.removeprefix("client."))(client)
    return pkgutil.resolve_name(path)


async def tools(client: clew.Client) -> Any:
    bounds = Bounds(cwd="/", roots=("/",), permissions=Permissions.READ_ONLY)
    return await make_server(client, bounds).list_tools()


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert sorted(TABLE) == sorted(commands(cli))


@pytest.mark.parametrize("command", TABLE)
async def test_the_calls_of_a_row_exist_or_it_says_why_there_are_none(command: str, tmp_path: Path) -> None:
    row: Row = TABLE[command]
    assert bool(row.api) != bool(row.why_no_api), "name the call, or say why there is none"
    assert bool(row.http) != bool(row.why_no_http), "name the route, or say why there is none"
    async with clew.open(tmp_path, environ={}) as client:
        for path in row.api:
            assert callable(resolved(client, path)), path
        assert set(row.http) <= routes()
        assert row.mcp is None or row.mcp in {tool.name for tool in await tools(client)}
