"""`clew serve`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import note, say
from clew.cli.session import with_client

if TYPE_CHECKING:
    from clew.client import Client
    from clew.server.worker import Work


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
@click.option(
    "--work",
    "is_worker",
    is_flag=True,
    default=None,
    help="Carry out all queued jobs, as `clew work` does, not only those that hooks made.  "
    "[default: the setting serve.worker]",
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
    is_worker: bool | None,
    verbose: bool,
) -> None:
    """Serve the page and the HTTP API (docs/http.md) until Ctrl-C. Prints one address, with its token.

    Jobs that hooks made are carried out too, where there are rules for hooks (docs/hooks.md). Other jobs are left to
    `clew work`, unless --work is given.
    """
    import asyncio  # noqa: F401 - whole, with TLS: with_client would load it without, and the server library wants it

    flags: dict[str, Any] = {
        "serve.host": host,
        "serve.port": port,
        "serve.roots": list(roots) or None,
        "serve.worker": is_worker,
    }

    async def work(client: Client) -> None:
        from clew.hooks_wiring import check
        from clew.server import daemon, token, worker
        from clew.server.page import is_built
        from clew.server.roots import Roots
        from clew.web import STATIC

        has_page = is_built(STATIC)
        if not has_page:
            rest = ", and no browser is opened" if open_page else ""
            note(f"clew: the page is not built: run make web in the source tree; until then only the API answers{rest}")
        check(client.hooks)  # what is missing is found now, not when an event arrives
        _tell_idle(client, worker.work_of(client))
        held = client.settings
        roots = Roots(held.of("serve.roots") or ()).paths
        address = daemon.Address(held.of("serve.host"), held.of("serve.port"), allow_remote, allow_hosts)
        daemon.set_up_logs(verbose=verbose)
        listening = daemon.bound(address, new_token=new_token)
        _tell_others(client, new_token)
        secret = token.new_token(client.home) if new_token else token.load_token(client.home)

        def tell(url: str, invitation: str) -> None:
            say(url)
            sys.stdout.flush()
            if open_page and has_page and not _opened(invitation):
                note("clew: no browser could be started; open the address yourself")

        await daemon.serve(client, address, listening, secret, roots=roots, tell=tell)

    with_client(work, **flags)


def _tell_idle(client: Client, what: Work) -> None:
    """A number of jobs is said, and there will be none."""
    if what.most and what.hooks_only and not client.hooks.settings.rules:
        note("clew: serve.work counts jobs that hooks made, and there are no rules for hooks; --work takes other jobs")


def _tell_others(client: Client, new_token: bool) -> None:
    """Other daemons of this home. They do no harm, but one of them may have been forgotten."""
    from clew.server.presence import serving

    for other in serving(client.home):
        where = f"process {other.pid}" + (f", port {other.port}" if other.port else "")
        token = "; it keeps the old token until it is started again" if new_token else ""
        note(f"clew: another clew serve ({where}) serves the same threads, which does no harm{token}")


def _opened(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)
