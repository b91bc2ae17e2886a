"""Where a project keeps its rules for Claude, which `--setting-sources user` leaves out (measured, see docs/agents.md).

The CLI reads them in the work directory and in every folder above it, whether or not there is a repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from clew.agents.rules import holds_markdown, is_folder, rule_files
from clew.core.rules.rules import RuleLayout

LAYOUT = RuleLayout(
    names=("CLAUDE.md", ".claude/CLAUDE.md"),
    instead=("AGENTS.md",),
    folders=(".claude/rules",),
    local=("CLAUDE.local.md",),
    imports=True,
    copies=".claude/rules",
)


def project_rules(config_dir: str, work_dir: str) -> Iterator[Path]:
    """The nearest first. The user's own settings folder is left out, because its rules are always loaded."""
    users = Path(os.path.realpath(config_dir))
    here = Path(work_dir)
    for folder in (here, *here.parents):
        yield from rule_files(folder, "CLAUDE.md", "CLAUDE.local.md")
        settings = folder / ".claude"
        if settings != users and is_folder(settings):
            yield from rule_files(settings, "CLAUDE.md")
            if is_folder(settings / "rules") and holds_markdown(settings / "rules"):
                yield settings / "rules"
