"""Every test of work trees has repositories of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from git.worktrees.repositories import Repositories


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path)
