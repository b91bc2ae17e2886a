"""The app server of the real Codex fails while it copies a session: one fall back to a fresh session, nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.runs.events import FellBack
from clew.testing.stage import Stage
from turns.rewind.scene import Scene, scene

pytestmark = pytest.mark.real

COPY = "01a1deea-e111-7000-8000-794707014e7d"
INITIALIZED = """read initialize; echo '{"id":1,"result":{}}'; read initialized; read fork; """
FAULTS = {
    "does not start": "exit 3",
    "is killed": "kill -9 $$",
    "is killed while it copies": f"{INITIALIZED} kill -9 $$",
    "closes its output": f"{INITIALIZED} exec cat > /dev/null",
    "refuses to begin": """read a; echo '{"id":1,"error":{"code":-32600,"message":"too old"}}'; cat""",
    "refuses to copy": f"""{INITIALIZED} echo '{{"id":2,"error":{{"message":"turn not found: x"}}}}'; cat""",
    "answers rubbish": "read a; echo rubbish; printf '\\377\\n[]\\n{}\\n'; exit 0",
    "answers rubbish and ends": f"{INITIALIZED} head -c 100000 /dev/urandom",
    "names no copy": f"""{INITIALIZED} echo '{{"id":2,"result":{{}}}}'; cat""",
    "names something that is no session": (
        f"""{INITIALIZED} echo '{{"id":2,"result":{{"thread":{{"id":"--last"}}}}}}'; cat"""
    ),
    "names a copy that is not there": (
        f"""{INITIALIZED} echo '{{"id":2,"result":{{"thread":{{"id":"{COPY}"}}}}}}'; cat"""
    ),
}


def app_server(stage: Stage, script: str) -> None:
    """Puts a script in the place of `codex app-server`; everything else of Codex is the real one."""
    assert stage.codex is not None
    head, _, rest = stage.codex.read_text().partition("\n")
    stage.codex.write_text(f'{head}\nif [ "$1" = app-server ]; then\n{script}\nexit 1\nfi\n{rest}')


async def prepare(it: Scene) -> None:
    await it.ask()
    await it.ask(it.writes("dropped.txt"))
    await it.ask()
    [_, second, _] = await it.prompts()
    await it.thread.edit(second.id, it.voice.prompt("put better"))
    it.keep()


async def fell_back(it: Scene) -> None:
    """Asks, and expects exactly one refused attempt and a fresh one. What follows is resumed as ever."""
    history, prompt = await it.thread.turns(), it.voice.prompt()
    run = await it.thread.ask(prompt)
    reasons = [event.reason async for event in run if isinstance(event, FellBack)]
    reply = await run
    it.check(history, prompt)
    assert (reasons, reply.fallback) == (["rejected"], True)
    await it.assert_fresh(reply, "rejected")
    attempts = await it.client.attempts(reply.run)
    assert [(attempt.resumed, attempt.outcome) for attempt in attempts] == [(True, "rejected"), (False, "success")]
    assert not it.stage.processes()
    assert [path for path in it.files() if path.stem.endswith(reply.session_id or "-")]
    assert len(it.files()) == len(it.originals) + 1, "and no half of a copy"
    again = await it.ask()
    assert (again.session_resumed, again.session_id) == (True, reply.session_id)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_app_server(codex: Stage, fault: str) -> None:
    async with scene(codex, "codex") as it:
        await prepare(it)
        app_server(codex, FAULTS[fault])
        await fell_back(it)


async def hangs(it: Scene) -> Path:
    """An app server that hangs while it copies. The returned file is there as soon as it does."""
    started = it.stage.folder / "hangs"
    app_server(it.stage, f"{INITIALIZED} sleep 600 & echo $$ > {started}.new; mv {started}.new {started}; sleep 600")
    return started


async def appears(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.02)


async def test_an_app_server_that_hangs_is_ended_after_a_time(codex: Stage, pass_an_hour: Callable[[], None]) -> None:
    async with scene(codex, "codex") as it:
        await prepare(it)
        started = await hangs(it)
        asking = asyncio.create_task(fell_back(it))
        await appears(started)
        pass_an_hour()
        await asking


async def test_a_run_that_is_cancelled_while_the_copy_is_made_stops_at_once(codex: Stage) -> None:
    async with scene(codex, "codex") as it:
        await prepare(it)
        real = codex.codex.read_text() if codex.codex is not None else ""
        started = await hangs(it)
        run = await it.thread.ask(it.voice.prompt())
        await appears(started)
        run.cancel()
        reply = await run.reply()
        assert (reply.status, reply.fallback) == ("cancelled", False)
        assert not codex.processes()
        it.assert_originals_unchanged()
        assert codex.codex is not None
        codex.codex.write_text(real)
        [first, *_] = await it.answers()
        after = await it.ask()
        assert (after.session_resumed, (await it.client.run(after.run)).rewound_to_turn_id) == (True, first.id)
        assert "dropped.txt` was written" in it.told


async def test_an_app_server_that_is_killed_by_somebody_is_a_refusal(codex: Stage) -> None:
    async with scene(codex, "codex") as it:
        await prepare(it)
        started = await hangs(it)
        asking = asyncio.create_task(fell_back(it))
        await appears(started)
        os.kill(int(started.read_text()), signal.SIGKILL)
        await asking
