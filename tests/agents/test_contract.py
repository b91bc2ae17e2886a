"""The adapter contract, on the real Claude CLI and on the scripted one: so the scripted one cannot drift."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from clew.agents.claude import Claude
from clew.testing.adapter_contract import CONTRACT, Subject
from clew.testing.stage import MODEL, Stage


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_contract(stage: Stage, check: Callable[[Subject], Awaitable[None]]) -> None:
    await check(Subject(Claude(), stage.environ, stage.work, MODEL))
