"""A conversation under random faults: on the scripted agent, on the real CLIs, on both databases, by the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from clew.api.client import Thread
from clew.testing.model.api import ModelApi
from clew.testing.postgres import PostgresServer
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from conftest import make_stage
from server.daemons import ServeProcess
from soak.script import (
    CONVERSATION,
    FILES,
    SECONDS,
    Script,
    ask,
    cut_connections,
    edit,
    leave_it_unsaved,
    new_seed,
    truncate,
)
from turns.world import MODELS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS * 4 + 600)]


async def test_scripted_agents_take_turns(scripted: Stage) -> None:
    script = Script(scripted, {"claude": MODELS, "other": MODELS}, new_seed())
    assert await script.run([*CONVERSATION, *FILES, leave_it_unsaved])


async def test_on_postgresql(scripted: Stage, postgres: PostgresServer) -> None:
    script = Script(scripted, {"claude": MODELS}, new_seed(), store=postgres.new_store())
    assert await script.run([*CONVERSATION, cut_connections])


@pytest.mark.real
async def test_real_claude(real: Stage) -> None:
    script = Script(real, {"claude": MODELS}, new_seed())
    assert await script.run([*CONVERSATION, *FILES])


@pytest.mark.real
async def test_real_claude_and_real_codex_take_turns(tmp_path: Path, api: ModelApi) -> None:
    with make_stage("real", tmp_path, api, codex=True) as stage:
        script = Script(stage, {"codex": [CODEX_MODEL], "claude": [MODEL]}, new_seed())
        assert await script.run([*CONVERSATION, *FILES])
    assert not api.refused_hosts, "it called the world"


class ServedScript(Script):
    """A daemon carries out the turns, and may die during one of them."""

    daemon: ServeProcess

    async def turn(self, words: str = "", *, cancel: bool = False) -> tuple[str, object]:
        async with self.open() as client:
            history = await (await self.thread(client)).turns()
        prompt, before = self.voice.prompt(words), self._requests
        run = await self.daemon.ask("t", prompt, model=self.dice.choice(MODELS))
        self.check(before, history, prompt, "claude")
        return run["status"], run.get("error")


async def kill_the_daemon(script: Script) -> None:
    assert isinstance(script, ServedScript)
    async with script.open() as client:
        thread: Thread = await script.thread(client)
        history = await thread.turns()
    prompt, before, daemon = script.voice.prompt("slowly"), script._requests, script.daemon
    accepted = await daemon.post("/api/threads/t/runs", {"prompt": prompt})
    await asyncio.sleep(script.dice.uniform(0.0, 1.0))  # it may be at any point of the turn
    daemon.kill()
    daemon.restart()
    await daemon.http.aclose()
    daemon.http = daemon.client()
    assert (await daemon.ended(accepted["id"]))["status"] in ("interrupted", "answered"), (
        "what was accepted is not lost"
    )
    script.check(before, history, prompt, "claude")


async def test_the_daemon(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    script = ServedScript(scripted, {"claude": MODELS}, new_seed())
    script.daemon = start_daemon(scripted)
    await script.daemon.thread("t")
    assert await script.run([ask, edit, truncate, *FILES, leave_it_unsaved, kill_the_daemon])
    with pytest.raises(httpx.HTTPError):
        script.daemon.kill()
        await script.daemon.get("/healthz")
