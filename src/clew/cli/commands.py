"""The table of commands."""

from __future__ import annotations

from typing import Any

import click

from clew.cli.lazy import LazyGroup

TABLE = {
    "ask": ("clew.cli.ask:ask", "Ask an agent, in a new thread or in one that goes on."),
    "threads": ("clew.cli.threads:threads", "List, search, change, archive, export, import and compare threads."),
    "sessions": ("clew.cli.sessions:sessions", "List the agents' own sessions, and adopt them into threads."),
    "runs": ("clew.cli.runs:runs", "List, show, watch, answer and stop runs, also those of other processes."),
    "review": ("clew.cli.review:review", "Review changes in rounds: start, follow, list, show, export, import."),
    "pair": ("clew.cli.pair:pair", "An instructor plans, a worker does, round by round; resume it anywhere."),
    "jobs": ("clew.cli.jobs:jobs", "Submit, list, show, watch, retry and cancel jobs: work that outlives a cut."),
    "hooks": ("clew.cli.hooks:hooks", "Agents that issues and pull requests wake: check, fire, list, reset."),
    "work": ("clew.cli.work:work", "Carry out jobs until Ctrl-C."),
    "mcp": ("clew.cli.mcp:mcp", "Serve reviews and conversations to an agent, as an MCP server."),
    "serve": ("clew.cli.serve:serve", "Serve the page and the HTTP API on this machine."),
    "stats": ("clew.cli.stats:stats", "How often sessions were resumed, what it cost, what it saved."),
    "doctor": ("clew.cli.doctor:doctor", "Check agents, store and settings, and say how to mend them."),
    "config": ("clew.cli.config:config", "Show the settings and where each comes from."),
    "demo": ("clew.cli.demo:demo", "A five-turn tour, offline. Ends with what resume saved."),
    "completion": ("clew.cli.completion:completion", "Print the shell completion script."),
}


def _say_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from clew import __version__

        click.echo(f"clew {__version__}")
        ctx.exit()


# Not click.version_option: that one looks the version up in the package's metadata, which takes long.
@click.group(cls=LazyGroup, table=TABLE, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Print the version."
)
def cli(**_: Any) -> None:
    """Keeps the thread of a conversation with a coding agent: the next turn picks up where the last one stopped.

    \b
      clew ask "Why does the login fail?"         a new thread
      clew ask -c "And on the other page?"        this directory's latest goes on
      clew ask -t fix-login "Mend it."            the thread of that name
    """
