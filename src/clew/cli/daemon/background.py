"""The commands `clew up`, `clew down` and `clew status`: a daemon in the background."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import load_asyncio_quickly, note_when_slow
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.errors import ClewError, UsageError

if TYPE_CHECKING:
    from clew.api.daemons import RunningDaemon, ServiceFile
    from clew.api.wire.daemons import DaemonStatus

END_S = 60.0  # runs are stopped at the end, which may take a while
MIB = 1 << 20


@click.command()
@click.option(
    "--port", metavar="PORT", help="Listen on this port; 0: any free port.  [default: the setting serve.port]"
)
@click.option("--install", is_flag=True, help="Start nothing, but write a file with which your session starts it.")
@click.option("--dry-run", is_flag=True, help="With --install: print that file and write nothing.")
@click.option("--force", is_flag=True, help="With --install: replace a file that clew did not write.")
@click.option(
    "--kind",
    type=click.Choice(["systemd", "launchd"]),
    help="With --install: which service manager the file is for.  [default: that of the platform]",
)
def up(port: str | None, install: bool, dry_run: bool, force: bool, kind: str | None) -> None:
    """Start the daemon in the background: the page, the API, and the resident.

    The resident carries out `clew ask`, `chat`, `review` and `pair`, which then start at once. `clew status` shows what
    runs, `clew down` ends it. It ends by itself when it was unused for the time of the setting resident_idle.
    """
    load_asyncio_quickly()
    import asyncio

    from clew.api import daemons, settings

    found = settings.load(os.environ)
    home = settings.home(os.environ)
    options = ["--port", port] if port is not None else []
    if install:
        _install(daemons.service(os.environ, options, kind=kind), dry_run=dry_run, force=force)
        return
    if dry_run or force or kind is not None:
        raise UsageError("--dry-run, --force and --kind need --install.")

    async def work() -> None:
        with daemons.starting(home):
            if running := daemons.running_daemons(home):
                say(f"clew serve runs already: {_words(running[0])}")
                return
            started = await note_when_slow("starting the daemon…", daemons.start(os.environ, options))
        if found.of("resident") != "off" and not await daemons.wait_for_resident(os.environ, started.pid):
            note(f"clew: commands are not handed over to it; {daemons.log_of(home)} may say why")
        say(f"{started.url} (process {started.pid})")

    asyncio.run(work())


def _install(file: ServiceFile, *, dry_run: bool, force: bool) -> None:
    from clew.api import daemons

    if dry_run:
        note(f"{file.path} would be:")
        say(file.content.rstrip("\n"))
        return
    daemons.install(file, force=force)
    say(f"wrote {harmless(str(file.path))}")
    say(f"Enable it with: {harmless(file.enable)}")


@click.command()
def down() -> int:
    """End the daemon of this home gracefully: its runs are stopped, and what they have answered is kept."""
    load_asyncio_quickly()
    import asyncio

    from clew.api import daemons, settings

    home = settings.home(os.environ)
    running = daemons.running_daemons(home)
    if not running:
        say("no daemon runs")
        return 0

    left = asyncio.run(note_when_slow("waiting for its end…", daemons.end(home, running, within_s=END_S)))
    for each in running:
        if each in left:
            note(f"clew: process {each.pid} has not ended yet")
            note(f"  It may still be stopping runs. Wait, or end it at once: kill -INT {each.pid}")
        else:
            say(f"ended {_words(each)}")
    return ClewError.exit_code if left else 0


@click.command()
@AS_JSON
def status(as_json: bool) -> None:
    """Show the daemon of this home: its page, since when it runs, and the commands that it carries out."""
    from clew.api import daemons

    found = daemons.status(os.environ)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(found: DaemonStatus) -> None:
    if not found.daemons:
        say("no daemon runs (clew up starts one)")
    for daemon in found.daemons:
        since = f", since {daemon.started_at}" if daemon.started_at else ""
        version = f", version {harmless(daemon.version)}" if daemon.version else ""
        say(f"daemon    process {daemon.pid}{since}{version}")
        if daemon.url:
            say(f"page      {daemon.url}")
    if found.resident is not None:
        say(f"resident  process {found.resident.pid}, {plural(found.resident.commands, 'command')} in progress")
        say(f"socket    {harmless(found.resident.socket)}")
    elif found.daemons:
        say("resident  none that this version of clew can use")
    for agent in found.agents:
        say(f"agent     process {agent.pid}, thread {harmless(agent.thread)}, {agent.memory_bytes // MIB} MiB")
    if found.memory_bytes is not None:
        say(f"memory    {found.memory_bytes // MIB} MiB")


def _words(daemon: RunningDaemon) -> str:
    port = f", http://127.0.0.1:{daemon.port}/" if daemon.port else ""
    return f"process {daemon.pid}{port}"
