"""Two machines, with different homes and directories, and one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from transfer.machines import clew, two_machines


@pytest.fixture
def machines(tmp_path: Path, api: ModelApi) -> Iterator[list[Stage]]:
    with two_machines(tmp_path, api) as both:
        yield both


@pytest.fixture
def a(machines: list[Stage]) -> Stage:
    assert clew(machines[0], "ask", "-t", "t", "first question").code == 0
    return machines[0]


@pytest.fixture
def b(machines: list[Stage]) -> Stage:
    return machines[1]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/remote"
