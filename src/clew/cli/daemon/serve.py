"""The command `clew serve`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.ui.printing import note, say

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.server.worker import DaemonWork


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address.  [default: the setting serve.host]")
@click.option(
    "--port", metavar="PORT", help="Listen on this port; 0: any free port.  [default: the setting serve.port]"
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--new-token", is_flag=True, help="Create a new token: old links and cookies stop working.")
@click.option("--allow-remote", is_flag=True, help="Allow an address that other machines can reach.")
@click.option(
    "--allow-host", "allow_hosts", metavar="NAME", multiple=True, help="Also answer requests for this host name."
)
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="Work only in this directory and those below it; may be given several times.  "
    "[default: the setting serve.roots]",
)
@click.option(
    "--work",
    "is_worker",
    is_flag=True,
    default=None,
    help="Run all queued jobs, as `clew work` does, not only those that hooks created.  "
    "[default: the setting serve.worker]",
)
@click.option("--verbose", is_flag=True, help="Log every request, by its route, on stderr.")
@click.option(
    "--background", is_flag=True, hidden=True, help="As `clew up` starts it: with a bounded log, and it ends when idle."
)
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
    background: bool,
) -> None:
    """Serve the page and the HTTP API (docs/http.md) until Ctrl-C. Prints one address, with its token.

    It also runs the jobs that hooks create, if there are rules for hooks (docs/hooks.md). Other jobs are left to
    `clew work`, unless --work is given.
    """
    import asyncio  # noqa: F401 - with TLS, which the server library needs; with_client would load it without

    flags: dict[str, Any] = {
        "serve.host": host,
        "serve.port": port,
        "serve.roots": list(roots) or None,
        "serve.worker": is_worker,
    }

    async def work(client: Client) -> None:
        from clew.api.daemons import bounded_log
        from clew.api.hooks import check_templates
        from clew.cli.daemon.resident import ForkServer
        from clew.server import daemon, worker
        from clew.server.routes.page import is_built
        from clew.server.security import token
        from clew.server.security.roots import AllowedRoots
        from clew.web import STATIC

        has_page = is_built(STATIC)
        if not has_page:
            rest = ", and no browser is opened" if open_page else ""
            note(
                f"clew: the page is not built: run make web in the source tree; until then there is only the API{rest}"
            )
        check_templates(client)  # raises now if a template is broken, not only when an event arrives
        _note_idle(client, worker.daemon_work(client))
        held = client.settings
        roots = AllowedRoots(held.of("serve.roots") or ()).paths
        address = daemon.Address(held.of("serve.host"), held.of("serve.port"), allow_remote, allow_hosts)
        daemon.set_up_logs(verbose=verbose)
        listening = daemon.bind(address, new_token=new_token)
        _note_others(client, new_token)
        secret = token.new_token(client.home) if new_token else token.load_token(client.home)

        def announce(url: str, one_time_url: str) -> None:
            say(url)
            sys.stdout.flush()
            if background:
                os.dup2(2, 1)  # `clew up` reads the address, and nothing else
            if open_page and has_page:
                import webbrowser

                if not webbrowser.open(one_time_url):
                    note("clew: no browser could be started; open the address yourself")

        resident = ForkServer(client.home) if held.of("resident") != "off" else None
        idle_s = held.of("resident_idle") if background else None
        async with (
            bounded_log(client.home) if background else contextlib.nullcontext(),
            client.lent_agents(),
        ):
            await daemon.serve(
                client, address, listening, secret, roots=roots, on_ready=announce, beside=resident, idle_s=idle_s
            )

    with_client(work, keep_agents=True, use_daemon=False, **flags)


def _note_idle(client: Client, what: DaemonWork) -> None:
    """Notes that the setting serve.work has no effect, if no job can come."""
    if what.max_jobs and what.hooks_only and not client.hooks.settings.rules:
        note("clew: serve.work limits jobs of hooks, and there are no rules for hooks; --work runs other jobs")


def _note_others(client: Client, new_token: bool) -> None:
    """Names the other daemons of this home. They do no harm, but one of them may have been forgotten."""
    from clew.api.daemons import running_daemons

    for other in running_daemons(client.home):
        where = f"process {other.pid}" + (f", port {other.port}" if other.port else "")
        token = "; it keeps the old token until it is restarted" if new_token else ""
        note(f"clew: another clew serve ({where}) serves the same threads; that does no harm{token}")
