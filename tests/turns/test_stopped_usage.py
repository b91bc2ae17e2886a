"""The usage and cost of a run that ends in the middle of a text, as far as the stream reported them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import forkserver
from clew.api.client import Client, Reply, Thread
from clew.core.costs.savings import total_savings
from clew.core.costs.usage import Usage
from clew.core.runs.events import TextStreamed, ToolFinished
from clew.core.runs.run import Run
from clew.testing.model.scripts import Slow, ToolUse
from clew.testing.stage import MODEL, Stage

DRIVER = Path(__file__).with_name("driver.py")
SLOWLY = "!slow 400 0.05"
STOPPED = {"cancel": "cancelled", "timeout": "timed_out", "kill": "failed"}


async def price_of_a_unit(client: Client, thread: Thread, prompt: str = "one") -> float:
    """The unit price of a complete run, as the agent reports it."""
    first = await (await thread.ask(prompt))
    assert first.cost_usd > 0
    return first.cost_usd / first.usage.units


async def stopped(
    client: Client, thread: Thread, prompt: str, how: str, pass_an_hour: Callable[[], None] | None = None
) -> Run:
    run = await thread.ask(prompt, timeout_s=600)
    async for event in run:
        if isinstance(event, TextStreamed) and how == "cancel":
            run.cancel()
        elif isinstance(event, TextStreamed) and how == "timeout" and pass_an_hour is not None:
            pass_an_hour()
            how = "timed out"
        elif isinstance(event, TextStreamed) and how == "kill":
            attempts = await client.engine.store.call(lambda store: store.runs.attempts(run.id))
            assert attempts[-1].pid is not None
            os.kill(attempts[-1].pid, signal.SIGKILL)
            how = "killed"
    await run.reply()
    return await client.run(run.id)


def shown(stage: Stage, since: int) -> tuple[int, int]:
    """The tokens that the model API counted: those read from the cache, and the others."""
    accounts = [request.cache for request in stage.api.main_requests[since:]]
    read = sum(each.read_tokens for each in accounts)
    return read, sum(each.prompt_tokens for each in accounts) - read


def told(usage: Usage) -> tuple[int, int]:
    return usage.cache_read_input_tokens, usage.new_tokens


async def text_is_stored(client: Client) -> None:
    """Waits until text of the newest run, which is in another process, is stored."""
    async with asyncio.timeout(60):
        while True:
            [run, *_] = await client.runs(limit=1)
            events = await client.engine.store.call(lambda store, run=run: store.events.of_run(run.id))
            if run.status == "running" and any(isinstance(each.event, TextStreamed) for each in events):
                return
            await asyncio.sleep(0.05)  # the run is in another process, so it must be polled


@pytest.mark.rest
@pytest.mark.parametrize("how", STOPPED)
async def test_tokens_that_were_read_are_counted_and_priced_once(
    stage: Stage, pass_an_hour: Callable[[], None], how: str
) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        unit_usd = await price_of_a_unit(client, thread)
        before = len(stage.api.main_requests)
        run = await stopped(client, thread, SLOWLY, how, pass_an_hour)
        assert run.status == STOPPED[how]
        assert told(run.usage) == shown(stage, before)
        assert run.cost_usd == pytest.approx(unit_usd * run.usage.units, rel=0.02)
        assert (run.estimate_usd or 0) >= run.cost_usd

        before = len(stage.api.main_requests)
        after: Reply = await (await thread.ask("two"))
        assert told(after.usage) == shown(stage, before), "nothing of it comes back with a later total"
        assert after.cost_usd == pytest.approx(unit_usd * after.usage.units, rel=0.02)
        assert total_savings(await client.engine.store.call(lambda store: store.runs.stats())).unpriced_runs == 0


async def test_after_a_tool_complete_and_interrupted_messages_are_both_counted(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        unit_usd = await price_of_a_unit(client, thread)
        before = len(stage.api.main_requests)
        stage.api.script.extend([ToolUse("Bash", {"command": "echo done"}), Slow("word " * 400, words_per_s=20)])
        run = await thread.ask("two")
        used = False
        async for event in run:
            used = used or isinstance(event, ToolFinished)
            if used and isinstance(event, TextStreamed):
                run.cancel()
        reply = await run.reply()
        assert reply.status == "cancelled"
        assert len(stage.api.main_requests) == before + 2
        assert told(reply.usage) == shown(stage, before)
        assert reply.cost_usd == pytest.approx(unit_usd * reply.usage.units, rel=0.02)


async def test_without_a_known_price_the_cost_stays_unknown(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await stopped(client, thread, SLOWLY, "cancel")
        assert told(run.usage) == shown(stage, 0)
        assert run.cost_usd == 0
        assert total_savings(await client.engine.store.call(lambda store: store.runs.stats())).unpriced_runs == 1


async def test_usage_is_known_too_when_clew_itself_is_killed(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        unit_usd = await price_of_a_unit(client, thread)
        before = len(stage.api.main_requests)
        words, environ = [stage.work, SLOWLY, MODEL], {**stage.environ, "CLEW_MODEL": MODEL}
        with forkserver.start(words, script=DRIVER, env=environ, stdout=subprocess.DEVNULL) as dying:
            try:
                await text_is_stored(client)
            finally:
                dying.kill()
    async with stage.open() as client:
        [run] = client.recovered
        assert run.status == "interrupted"
        assert told(run.usage) == shown(stage, before)
        assert run.cost_usd == pytest.approx(unit_usd * run.usage.units, rel=0.02)
