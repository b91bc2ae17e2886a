"""`clew hooks`"""

from __future__ import annotations

import click

from clew.cli.lazy import LazyGroup

TABLE = {
    "check": ("clew.cli.hooks_check:check", "Check the settings, every template, and what the machine has."),
    "fire": ("clew.cli.hooks_fire:fire", "Show what an event would set going, or set it going."),
    "events": ("clew.cli.hooks_list:events", "List what forges told, and what became of it."),
    "sessions": ("clew.cli.hooks_list:sessions", "List the sessions by key."),
    "import-sessions": ("clew.cli.hooks_change:import_sessions", "Adopt the sessions of an old sessions.json."),
    "reset": ("clew.cli.hooks_change:reset", "Drop a session: its next event starts afresh."),
    "sweep": ("clew.cli.hooks_change:sweep", "Drop the sessions whose clean-up event was missed."),
}


@click.group(cls=LazyGroup, table=TABLE)
def hooks() -> None:
    """Agents that issues and pull requests wake, each in its own work tree and thread.

    \b
      clew hooks check                            are the settings and the skills in order?
      clew hooks fire event.json --dry-run        who would wake, with which words?
      clew serve                                  receives what the forge sends, and works on it

    docs/hooks.md shows the settings.
    """
