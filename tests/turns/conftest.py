"""Fixtures of the tests of turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from conftest import make_stage

REAL = pytest.mark.real
pytest.register_assert_rewrite("turns.rewind.scene")  # before a test imports it


@pytest.fixture(params=["scripted", pytest.param("real", marks=REAL), pytest.param("codex", marks=REAL)])
def cast(request: pytest.FixtureRequest, tmp_path: Path, api: ModelApi) -> Iterator[tuple[Stage, str]]:
    """A stage and its agent: the scripted one, the real Claude and the real Codex."""
    is_codex = request.param == "codex"
    with make_stage("real" if request.param == "real" else "scripted", tmp_path, api, codex=is_codex) as stage:
        yield stage, "codex" if is_codex else "claude"
