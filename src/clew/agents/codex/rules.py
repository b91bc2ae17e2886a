"""Where a project keeps its rules for Codex, which reads them in trusted directories alone (see docs/agents.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew.agents.rules import rule_files
from clew.core.rules.rules import RuleLayout
from clew.system.work_trees import repository

LAYOUT = RuleLayout(names=(), instead=("AGENTS.override.md", "AGENTS.md"))


def project_rules(work_dir: str) -> Iterator[Path]:
    """The nearest first, up to the repository's root. In each folder, only the first of the two names counts."""
    for folder in repository(Path(work_dir)):
        yield from islice(rule_files(folder, "AGENTS.override.md", "AGENTS.md"), 1)
