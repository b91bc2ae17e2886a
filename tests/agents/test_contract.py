"""The adapter contract, on the real Claude CLI, the scripted one (which must behave the same) and the real Codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.agents.codex import Codex
from clew.testing.adapter_contract import CODEX_DIRECTIVES, CONTRACT, Check, Subject
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from conftest import make_stage


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_contract(stage: Stage, check: Check) -> None:
    await check(Subject(Claude(), stage.environ, stage.work, MODEL))


@pytest.mark.real
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_contract_on_codex(tmp_path: Path, api: ModelApi, check: Check) -> None:
    with make_stage("scripted", tmp_path, api, codex=True) as stage:
        await check(Subject(Codex(), stage.environ, stage.work, CODEX_MODEL, directives=CODEX_DIRECTIVES))
    assert not api.refused_hosts
