"""The diff of a proposed edit in the terminal: coloured, and with control characters made visible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from clew.cli.ui.formatting import harmless, plural

if TYPE_CHECKING:
    from clew.core.runs.proposed_edits import ProposedEdit

MAX_LINES = 40  # of a diff, until the user asks for all of it
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def edit_lines(edit: ProposedEdit, *, whole: bool = False) -> list[str]:
    """The name of the file, what is to be known of the diff, and its lines."""
    shown = edit.lines if whole else edit.lines[:MAX_LINES]
    missing = len(edit.lines) - len(shown) + edit.omitted
    lines = [click.style(harmless(edit.path), bold=True), *([edit.note] if edit.note else [])]
    lines += [click.style(harmless(line), fg=COLOURS.get(line[:1])) for line in shown]
    return [*lines, f"… {plural(missing, 'more line')}"] if missing else lines


def is_cut(edits: Sequence[ProposedEdit]) -> bool:
    """Whether `edit_lines` leaves out lines that it would show as a whole."""
    return any(len(edit.lines) > MAX_LINES for edit in edits)
