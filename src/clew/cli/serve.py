"""`clew serve`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import note, say
from clew.cli.session import with_client

if TYPE_CHECKING:
    from clew.client import Client


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address.  [default: the setting serve.host]")
@click.option("--port", metavar="PORT", help="Listen on this port; 0: any free one.  [default: the setting serve.port]")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--new-token", is_flag=True, help="Make another token: old links and cookies stop working.")
@click.option("--allow-remote", is_flag=True, help="Allow an address that other machines can reach.")
@click.option("--allow-host", "allow_hosts", metavar="NAME", multiple=True, help="Answer to this host name too.")
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="Work only in directories below this one; may be given again.  [default: the setting serve.roots]",
)
@click.option("--verbose", is_flag=True, help="Log every request, by its route, on stderr.")
def serve(
    host: str | None,
    port: str | None,
    open_page: bool,
    new_token: bool,
    allow_remote: bool,
    allow_hosts: tuple[str, ...],
    roots: tuple[str, ...],
    verbose: bool,
) -> None:
    """Serve the page and the HTTP API (docs/http.md) until Ctrl-C. Prints one address, with its token."""
    import asyncio  # noqa: F401 - whole, with TLS: with_client would load it without, and the server library wants it

    flags: dict[str, Any] = {"serve.host": host, "serve.port": port, "serve.roots": list(roots) or None}

    async def work(client: Client) -> None:
        from clew.server import daemon, token

        held = client.settings
        address = daemon.Address(held.of("serve.host"), held.of("serve.port"), allow_remote, allow_hosts)
        daemon.set_up_logs(verbose=verbose)
        listening = daemon.bound(address)
        secret = token.new_token(client.home) if new_token else token.load_token(client.home)

        def tell(url: str, invitation: str) -> None:
            say(url)
            sys.stdout.flush()
            if open_page and not _opened(invitation):
                note("clew: no browser could be started; open the address yourself")

        await daemon.serve(client, address, listening, secret, roots=held.of("serve.roots") or (), tell=tell)

    with_client(work, **flags)


def _opened(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)
