"""The estimate of the cost with transcripts, compared with the real cost, with the real CLIs.

The same conversation runs twice: resumed, which gives the estimate, and always fresh, which gives the real cost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.costs.savings import total_savings
from clew.core.runs.run import Run
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from conftest import make_stage

pytestmark = pytest.mark.real

TURNS = 4
NEAR = 0.15
TOOLS = {
    "claude": '!tool Bash {"command": "echo done"}',
    "codex": '!tool exec_command {"cmd": "echo done"}',
}


async def conversation(client: Client, stage: Stage, name: str, *, agent: str, words: str, fresh: bool) -> list[Run]:
    """The turns after the first one, which is the same both times."""
    thread = await client.thread(name, cwd=stage.work, permissions="all")
    runs = []
    for n in range(TURNS):
        tail = TOOLS[agent] if n == TURNS - 1 else "!big 600"
        reply = await (await thread.ask(f"{name} {n} {words}\n{tail}", agent=agent, fresh_session=fresh))
        assert reply.status == "answered"
        assert reply.session_resumed is (n > 0 and not fresh)
        runs.append(await client.run(reply.run))
    return runs[1:]


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("words", ["", "and some more words " * 40], ids=["short", "long"])
async def test_the_estimate_is_near_what_transcripts_cost(
    tmp_path: Path, api: ModelApi, agent: str, words: str
) -> None:
    with make_stage("real", tmp_path, api, codex=agent == "codex") as stage:
        async with stage.open() as client:
            resumed = await conversation(client, stage, "one", agent=agent, words=words, fresh=False)
            truth = await conversation(client, stage, "two", agent=agent, words=words, fresh=True)
            stats = total_savings(await client.engine.store.call(lambda store: store.runs.stats()))
    new_tokens = sum(run.usage.new_tokens for run in truth)
    assert sum(run.estimate_new_tokens or 0 for run in resumed) == pytest.approx(new_tokens, rel=NEAR)
    for estimated, real in zip(resumed, truth, strict=True):
        assert estimated.estimate_new_tokens == pytest.approx(real.usage.new_tokens, rel=NEAR)
        assert (estimated.estimate_usd or 0) >= estimated.cost_usd, "resuming cost less, and is not told otherwise"
        assert estimated.cost_usd <= real.cost_usd
    cost_usd = sum(run.cost_usd for run in truth)
    assert sum(run.estimate_usd or 0 for run in resumed) == pytest.approx(cost_usd, rel=NEAR)
    saved = cost_usd - sum(run.cost_usd for run in resumed)
    assert stats.saved_usd == pytest.approx(saved, rel=2 * NEAR), "and that is what the page and `clew stats` tell"
