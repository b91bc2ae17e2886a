"""A random script of turns and faults. After every turn the oracle compares what the model was shown with the thread.

Every prompt and every answer is a unique token, so everything that is missing, stale or shown twice is noticed. A run
can be repeated with `CLEW_SOAK_SEED`; `CLEW_SOAK_SECONDS` makes it longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from clew.api.client import Client
from clew.core.history import Role, Turn
from clew.core.runs.events import TextStreamed
from clew.engine.faults import POINTS
from clew.errors import ClewError, StoreError
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected
from soak import damage
from soak.damage import Disk
from turns.world import Other

SECONDS = float(os.environ.get("CLEW_SOAK_SECONDS", "60"))
DRIVER = Path(__file__).parent.parent / "turns" / "driver.py"
TIMEOUT_S = 120


def new_seed() -> int:
    return int(os.environ.get("CLEW_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))


class Mismatch(AssertionError):
    """The oracle has found a difference. The message has everything that is needed to reproduce it."""


class Script:
    """A script for one thread. `agents` take turns, each with its models; Claude is one of them."""

    def __init__(self, stage: Stage, agents: dict[str, Sequence[str]], seed: int, store: str | None = None) -> None:
        self.stage = stage
        self.agents = agents
        self.dice = random.Random(seed)
        self.voice = TokenModel(stage.api)
        self.disk = Disk(stage)
        self.environ = {"CLEW_STORE": store} if store else {}
        self.done: list[str] = []
        self.seed = seed
        print(f"CLEW_SOAK_SEED={seed}")

    def open(self) -> Any:
        return self.stage.open(environ=self.environ, adapters=[Other()] if "other" in self.agents else [])

    async def run(self, steps: Sequence[Callable[[Script], Awaitable[None]]], seconds: float = SECONDS) -> int:
        """Runs each step at least once, then random steps until the time is over. Returns how many were checked."""
        until, turns = time.monotonic() + seconds, 0
        pending = self.dice.sample(list(steps), len(steps))
        while pending or time.monotonic() < until:
            step = pending.pop() if pending else self.dice.choice(list(steps))
            self.done.append(step.__name__)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await step(self)
                    self.disk.well()
                    self.stage.fault()
                    await self.answered()
            except Exception as error:
                raise Mismatch(f"seed {self.seed}, after {', '.join(self.done[-12:])}: {error!r}") from error
            turns += 1
        return turns

    async def thread(self, client: Client) -> Any:
        return await client.thread("t", cwd=self.stage.work)

    async def answered(self) -> None:
        """A turn without a fault must be answered at the first try, whatever happened before."""
        status, error = await self.turn()
        assert status == "answered", f"a turn after the fault: {status}, {error}"

    async def turn(self, words: str = "", *, cancel: bool = False) -> tuple[str, object]:
        agent = self.dice.choice(list(self.agents))
        model = self.dice.choice(list(self.agents[agent]))
        async with self.open() as client:
            thread = await self.thread(client)
            history, prompt, before = await thread.turns(), self.voice.prompt(words), self._requests
            run = await thread.ask(prompt, agent=agent, model=model)
            if cancel:
                async for event in run:
                    if isinstance(event, TextStreamed):
                        run.cancel()
            reply = await run.reply()
            self.check(before, history, prompt, agent)
            assert [turn.text for turn in await thread.turns()].count(prompt) == 1, "the prompt is in the thread, once"
        return reply.status, reply.error

    @property
    def _requests(self) -> int:
        return len(self.stage.api.main_requests)

    def check(self, before: int, history: Sequence[Turn], prompt: str, agent: str) -> None:
        truth = expected(history, prompt, agent=agent)
        for request in self.stage.api.main_requests[before:]:
            shown = self.voice.tokens_of(request)
            assert shown == truth, f"{agent} was shown {shown}, and the thread says {truth}"

    def files(self) -> list[Path]:
        return [*self.stage.session_files(), *(self.stage.codex_files() if self.stage.codex else ())]

    def newest_file(self) -> Path | None:
        files = sorted(self.files(), key=lambda path: path.stat().st_mtime_ns)
        return self.dice.choice(files[-2:]) if files else None


async def ask(script: Script) -> None:
    await script.turn()


async def stop(script: Script) -> None:
    await script.turn("slowly", cancel=True)


async def fail(script: Script) -> None:
    await script.turn(f"\n!fail {script.dice.choice(['429 rate_limit_error no', '529 overloaded_error busy'])}")


async def edit(script: Script) -> None:
    async with script.open() as client:
        thread = await script.thread(client)
        if turns := await thread.turns():
            await thread.edit(script.dice.choice(turns).id, script.voice.prompt("edited"))


async def truncate(script: Script) -> None:
    async with script.open() as client:
        thread = await script.thread(client)
        if turns := await thread.turns():
            await thread.truncate(script.dice.choice(turns[-4:]).id)


async def retry(script: Script) -> None:
    async with script.open() as client:
        thread = await script.thread(client)
        turns = await thread.turns()
        places = [n for n, turn in enumerate(turns) if turn.role is Role.USER and "!" not in turn.text][-3:]
        if not places:
            return
        place, before = script.dice.choice(places), script._requests
        await (await thread.retry(turns[place].id)).reply()
        script.check(before, turns[:place], turns[place].text, turns[place].agent or "claude")


async def kill(script: Script) -> None:
    """`kill -9` of the whole program at one of the fault points of a turn."""
    point, prompt, before = script.dice.choice(list(POINTS)), script.voice.prompt("slowly"), script._requests
    async with script.open() as client:
        history = await (await script.thread(client)).turns()
    environ = {**script.stage.environ, **script.environ, "CLEW_FAULT": point}
    command = [sys.executable, str(DRIVER), str(script.stage.work), prompt, script.agents["claude"][0]]
    await asyncio.to_thread(subprocess.run, command, env=environ, capture_output=True, timeout=TIMEOUT_S, check=False)
    script.check(before, history, prompt, "claude")


async def harm_a_file(script: Script) -> None:
    how = script.dice.choice(damage.KINDS)
    script.done.append(how.__name__)
    if path := script.newest_file():
        how(path, script.dice)


async def fill_the_disk(script: Script) -> None:
    """During a turn, the session's file may grow only a little more, or not at all."""
    path = script.newest_file()
    script.disk.full_after((path.stat().st_size if path else 0) + script.dice.choice([0, 600, 2000]))
    await script.turn()


async def forbid_writing(script: Script) -> None:
    if path := script.newest_file():
        script.disk.only_readable(path.parent)
        await script.turn()


async def leave_it_unsaved(script: Script) -> None:
    script.stage.fault({"do": "unsaved"})
    await script.turn()


async def cut_connections(script: Script) -> None:
    """The store's server drops all connections during a turn. That turn may fail, but nothing is lost."""
    import psycopg

    def cut() -> None:
        with psycopg.connect(script.environ["CLEW_STORE"], autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'clew' "
                "AND datname = current_database()"
            )

    async def cutting() -> None:
        for _ in range(script.dice.randrange(1, 4)):
            await asyncio.sleep(script.dice.uniform(0.0, 0.4))
            await asyncio.to_thread(cut)

    task = asyncio.create_task(cutting())
    try:
        await script.turn("slowly")
    except StoreError as error:
        script.done.append(f"({error.kind})")
    except ClewError as error:
        script.done.append(f"({error.code})")
    finally:
        await task


CONVERSATION = (ask, stop, fail, edit, truncate, retry, kill)
FILES = (harm_a_file, fill_the_disk, forbid_writing)
