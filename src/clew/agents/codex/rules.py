"""A project's rules for Codex that it does not load in an untrusted directory (measured, see docs/agents.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew.agents.rules import rule_files
from clew.system.work_trees import repository


def project_rules(work_dir: str) -> Iterator[Path]:
    """The nearest first, up to the repository's root. In each folder, only the first of the two names counts."""
    for folder in repository(Path(work_dir)):
        yield from islice(rule_files(folder, "AGENTS.override.md", "AGENTS.md"), 1)
