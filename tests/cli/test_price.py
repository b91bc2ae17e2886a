"""A run whose agent reports no price: its cost is unknown, and must not look like zero."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from clew.api.reply import Reply
from clew.cli.stats import _show
from clew.cli.ui.formatting import price
from clew.cli.ui.run_display import closing_line
from clew.core.costs.savings import Savings
from clew.core.costs.usage import Usage

USED = Usage(10, 5, 0, 0)


def test_a_cost_of_zero_with_tokens_used_is_no_price() -> None:
    assert price(0.0, used=True) == "no price"
    assert price(0.0, used=False) == "-"
    assert price(0.5, used=True) == "$0.5000"


def test_the_closing_line_says_so() -> None:
    reply = Reply("t", "r", "codex", None, "answered", "x", "s", True, None, False, USED, 0.0, None)
    assert closing_line(reply) == "resumed · 15 tokens (0 cached) · no price"


def test_stats_count_the_runs_without_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Savings(runs=3, resumed=3, usage=USED, cost_usd=0.25, unpriced_runs=2))
    shown = capsys.readouterr().out
    assert re.search(r"\$0\.2500  as the agents report it\n +no price  for 2 runs: ", shown)
    _show(Savings(runs=2, resumed=2, usage=USED, unpriced_runs=2))
    assert "$0.0000" not in capsys.readouterr().out


@pytest.mark.rest
def test_runs_and_threads_show_it_and_stats_count_it(cli: Any) -> None:
    run = cli.run("ask", "-t", "t", "one", "--json").json["run"]

    async def forget_price() -> None:
        async with cli.stage.open() as client:
            await client.engine.store.call(lambda store: store.runs.update(run, cost_usd=0.0))

    asyncio.run(forget_price())

    assert "no price" in cli.run("runs", "list").out
    assert "cost       no price\n" in cli.run("runs", "show", run).out
    assert "$0.0000" not in cli.run("threads", "list").out
    assert "no price  for 1 run: " in cli.run("stats").out
    assert cli.run("stats", "--json").json["unpriced_runs"] == 1
    assert cli.run("runs", "show", run, "--json").json["cost_usd"] == 0
