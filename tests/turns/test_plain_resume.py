"""The estimate of the cost with a plain `--resume` every turn, compared with the real cost, with the real CLI.

The same conversation runs twice: with a fresh or a rewound session in the middle, which gives the estimate; and always
resumed, which gives the real cost, because Clew then does what a plain `--resume` does.
"""

from __future__ import annotations

import pytest

from clew.api.client import Client
from clew.core.runs.run import Run
from clew.testing.stage import Stage

pytestmark = pytest.mark.real

NEAR = 0.15
TURNS = 4
WORDS = "and some more words " * 40
TOOL = '!tool Bash {"command": "seq 2000"}'


async def conversation(
    client: Client, stage: Stage, name: str, *, fresh: int | None = None, rewound: int | None = None
) -> list[Run]:
    thread = await client.thread(name, cwd=stage.work, permissions="all")
    runs = []
    for n in range(TURNS):
        tail = TOOL if n in (0, TURNS - 1) else "!big 600"
        if n == rewound:
            [*_, asked, _] = await thread.turns()
            await thread.edit(asked.id, f"{asked.text} put better")
        reply = await (await thread.ask(f"{name} {n} {WORDS}\n{tail}", fresh_session=n == fresh))
        assert reply.session_resumed is (n > 0 and n != fresh)
        runs.append(await client.run(reply.run))
    return runs


async def test_the_estimate_is_near_what_a_plain_resume_costs(real: Stage) -> None:
    async with real.open() as client:
        truth = await conversation(client, real, "one")
        broken = await conversation(client, real, "two", fresh=2)
    for run in truth:
        assert run.plain_resume_usd == pytest.approx(run.cost_usd), "it was resumed plainly"
        assert run.plain_context_tokens == run.context_tokens
    for estimated, exact in zip(broken[2:], truth[2:], strict=True):
        assert estimated.plain_resume_usd == pytest.approx(exact.cost_usd, rel=NEAR)
        assert estimated.plain_context_tokens == pytest.approx(exact.context_tokens, rel=NEAR)
        assert (estimated.context_tokens or 0) < (exact.context_tokens or 0), (
            "without what the tool said, it is smaller"
        )
    assert broken[2].plain_resume_usd != pytest.approx(broken[2].cost_usd, rel=NEAR), "else this would tell nothing"


async def test_a_rewound_session_counts_as_the_one_that_a_plain_resume_would_have_continued(real: Stage) -> None:
    async with real.open() as client:
        truth = await conversation(client, real, "one")
        rewound = await conversation(client, real, "two", rewound=2)
    assert [run.rewound_to for run in rewound] == [None, None, 2, None]
    for estimated, exact in zip(rewound[2:], truth[2:], strict=True):
        assert estimated.plain_resume_usd == pytest.approx(exact.cost_usd, rel=NEAR)
        assert estimated.plain_context_tokens == pytest.approx(exact.context_tokens, rel=NEAR)
    # The edited turn and its answer are sent again, and written to the cache: that is what a plain resume saves.
    assert rewound[2].cost_usd > (rewound[2].plain_resume_usd or 0)
