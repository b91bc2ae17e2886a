"""The table of commands."""

from __future__ import annotations

from typing import Any

import click

from clew.cli.command_groups import LazyGroup

ENDS_PROCESS = "the process ends as soon as the command has ended"  # as the object of click's context

TABLE = {
    "ask": ("clew.cli.ask:ask", "Ask an agent, in a new thread or an existing one."),
    "open": ("clew.cli.open:open_", "Open a thread in its agent's own CLI, on the session that holds it."),
    "chat": ("clew.cli.chat.chat:chat", "Ask in a loop, with a prompt that has history and completion."),
    "threads": (
        "clew.cli.threads.threads:threads",
        "List, search, change, sync, archive, export, import and compare threads.",
    ),
    "sessions": ("clew.cli.sessions:sessions", "List the agents' own sessions, and adopt them as threads."),
    "runs": ("clew.cli.runs.runs:runs", "List, show, watch, answer and stop runs, including those of other processes."),
    "review": (
        "clew.cli.reviews.review:review",
        "Review changes in rounds: start, follow, list, show, export, import.",
    ),
    "pair": (
        "clew.cli.pairs.pair:pair",
        "Have an instructor plan and a worker carry it out, round by round; can be resumed.",
    ),
    "jobs": (
        "clew.cli.jobs.jobs:jobs",
        "Submit, list, show, watch, retry and cancel jobs: work that survives a crash.",
    ),
    "hooks": (
        "clew.cli.hooks.hooks:hooks",
        "Check, fire, list and reset hooks: agents started by issues and pull requests.",
    ),
    "work": ("clew.cli.jobs.work:work", "Run jobs until Ctrl-C."),
    "mcp": ("clew.cli.daemon.mcp:mcp", "Offer reviews and conversations to an agent, as an MCP server."),
    "up": ("clew.cli.daemon.background:up", "Start the daemon in the background: the page, the API, the resident."),
    "down": ("clew.cli.daemon.background:down", "End the daemon."),
    "status": ("clew.cli.daemon.background:status", "Show the daemon, and what it keeps ready."),
    "serve": ("clew.cli.daemon.serve:serve", "Serve the page and the HTTP API on this machine."),
    "stats": ("clew.cli.stats:stats", "Show how often sessions were resumed, what the runs cost, and what was saved."),
    "doctor": ("clew.cli.setup.doctor:doctor", "Check agents, store and settings, and say how to fix what is wrong."),
    "config": ("clew.cli.setup.config:config", "Show the settings and where each one comes from."),
    "demo": ("clew.cli.demo.demo:demo", "Run a five-turn tour, offline, that ends with what resuming saved."),
    "completion": ("clew.cli.setup.completion:completion", "Print the shell completion script."),
}


def _print_version(ctx: click.Context, _param: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        from clew import __version__

        click.echo(f"clew {__version__}")
        ctx.exit()


# Not click.version_option: it looks the version up in the package's metadata, which is slow.
@click.group(cls=LazyGroup, table=TABLE, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def cli(**_: Any) -> None:
    """Keeps the conversation with a coding agent, so that the next turn continues where the last one stopped.

    \b
      clew ask "Why does the login fail?"         start a new thread
      clew ask -c "And on the other page?"        continue the latest thread of this directory
      clew ask -t fix-login "Fix it."             continue the thread of that name, or create it
    """
