"""Codex's rules of a project: what it leaves out in a directory that is not trusted (measured, see docs/agents.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew.agents.codex.command import repository
from clew.agents.rules import of_names


def project_rules(work_dir: str) -> Iterator[Path]:
    """The nearest first, up to the repository's root. Of each folder one file counts."""
    for folder in repository(Path(work_dir)):
        yield from islice(of_names(folder, "AGENTS.override.md", "AGENTS.md"), 1)
