"""The command `clew hooks`."""

from __future__ import annotations

import click

from clew.cli.command_groups import LazyGroup

TABLE = {
    "check": ("clew.cli.hooks.check:check", "Check the settings, every template, and this machine."),
    "fire": ("clew.cli.hooks.fire:fire", "Show what an event would start, or handle it."),
    "events": ("clew.cli.hooks.listing:events", "List the events of forges, with their state."),
    "sessions": ("clew.cli.hooks.listing:sessions", "List the sessions by key."),
    "import-sessions": ("clew.cli.hooks.change:import_sessions", "Adopt the sessions of an old sessions.json."),
    "reset": ("clew.cli.hooks.change:reset", "Drop a session: its next event starts a fresh one."),
    "sweep": ("clew.cli.hooks.change:sweep", "Drop the sessions whose clean-up event was missed."),
}


@click.group(cls=LazyGroup, table=TABLE)
def hooks() -> None:
    """Agents that are woken by issues and pull requests, each in its own work tree and thread.

    \b
      clew hooks check                            check the settings and the skills
      clew hooks fire event.json --dry-run        show which agent would be woken, with which prompt
      clew serve                                  receive what the forge sends, and work on it

    docs/hooks.md shows the settings.
    """
