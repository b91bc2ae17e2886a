"""The pool's limits: how many processes, how much memory, how long; and what it does with one that misbehaves."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from clew.core.runs.run import Owner
from clew.engine.process.agent import AgentProcess
from clew.engine.process.family import is_alive
from clew.engine.warm.pool import NoWarmAgents, WarmLimits, WarmPool
from clew.engine.warm.session import WarmSession

pytestmark = pytest.mark.process

OWNER = Owner("here", os.getpid(), 1.0)
LEAVES = 'echo ended > "$1"'  # what an agent writes when it ends by itself
WAITS = f"while read -r line; do :; done; {LEAVES}"  # one process: its memory does not change
FORGETFUL = WarmLimits(idle_s=0.05)


class Kept:
    """Processes as agents leave them, each with the file of its session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: list[str] = []

    def pool(self, limits: WarmLimits) -> WarmPool:
        pool = WarmPool(OWNER, limits)
        pool.when_ended(lambda mark: self.ended.append(mark.partition("/")[0]))
        return pool

    def mark(self, name: str) -> str:
        """Not a mark of another test, which may end its processes at the same time."""
        return f"{name}/{self.folder}"

    async def agent(self, name: str, script: str = WAITS) -> tuple[AgentProcess, WarmSession]:
        file = self.folder / f"{name}.jsonl"
        file.write_text("a line\n")
        argv = ["/bin/sh", "-c", script, "sh", str(self.folder / f"{name}.left")]
        process = await AgentProcess.spawn(
            argv, cwd=str(self.folder), environ={"PATH": os.defpath}, mark=self.mark(name)
        )
        async with asyncio.timeout(30):
            while process.rss_bytes < 500_000:  # the program may not be loaded yet
                await asyncio.sleep(0.01)
        return process, WarmSession(name, name, "launch", str(file), file.stat().st_size, "leaf")

    def left_by_itself(self, name: str) -> bool:
        return (self.folder / f"{name}.left").exists()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


async def until_empty(pool: WarmPool) -> None:
    async with asyncio.timeout(30):
        while await pool.kept():
            await asyncio.sleep(0.01)


async def test_it_is_given_once_and_only_for_the_same_session(kept: Kept) -> None:
    pool = kept.pool(WarmLimits())
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    assert await pool.holds("a") and not await pool.holds("b")
    assert await pool.take(session) is process
    assert await pool.take(session) is None
    assert kept.ended == [], "it was given away"
    await process.end(grace_s=0)
    await pool.close()


@pytest.mark.parametrize("change", [{"launch": "other"}, {"leaf": "other"}, {"size_bytes": 1}, {"session_id": "other"}])
async def test_a_turn_that_wants_something_else_ends_it(kept: Kept, change: dict[str, object]) -> None:
    pool = kept.pool(WarmLimits())
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    assert await pool.take(session.replace(**change)) is None
    assert not is_alive(process.pid, process.started)
    assert kept.ended == ["a"]
    await pool.close()


async def test_the_least_recently_used_ends_first(kept: Kept) -> None:
    pool = kept.pool(WarmLimits(max=2))
    first, second, third = [await kept.agent(name) for name in "abc"]
    await pool.keep(*first)
    await pool.keep(*second)
    assert await pool.take(first[1]) is first[0]
    await pool.keep(*first)
    await pool.keep(*third)
    assert [each.thread_id for each in await pool.kept()] == ["a", "c"]
    await pool.close()
    assert sorted(kept.ended) == ["a", "b", "c"]
    assert all(kept.left_by_itself(name) for name in "abc"), "they were asked to leave"


async def test_whoever_starts_one_that_nobody_may_need_waits_while_others_end(kept: Kept) -> None:
    pool = kept.pool(WarmLimits(max=1, grace_s=60))
    process, session = await kept.agent("a", "trap '' HUP; cat > /dev/null; read -r line < \"$1.gate\"")
    gate = kept.folder / "a.left.gate"
    os.mkfifo(gate)
    await pool.keep(process, session)
    await pool.has_room()
    await pool.keep(*await kept.agent("b"))
    room = asyncio.create_task(pool.has_room())
    done, _ = await asyncio.wait({room}, timeout=0.1)
    assert not done and is_alive(process.pid, process.started)
    with await asyncio.to_thread(gate.open, "w") as opened:
        opened.write("go\n")
    await room
    assert kept.ended == ["a"]
    await pool.close()


async def test_the_memory_that_they_hold_is_limited(kept: Kept) -> None:
    pool = kept.pool(WarmLimits(max=9))
    for name in "abc":
        await pool.keep(*await kept.agent(name))
    held = {each.thread_id: each.rss_bytes for each in await pool.kept()}
    assert all(size > 100_000 for size in held.values())
    await pool.close()
    smaller = kept.pool(WarmLimits(max=9, memory_bytes=held["c"] + held["b"] + held["a"] // 2))
    for name in "def":
        await smaller.keep(*await kept.agent(name))
    assert [each.thread_id for each in await smaller.kept()] == ["e", "f"]
    await smaller.close()


async def test_one_that_is_not_used_ends(kept: Kept) -> None:
    pool = kept.pool(FORGETFUL)
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    await until_empty(pool)
    await pool.close()
    assert kept.ended == ["a"] and kept.left_by_itself("a")
    assert not is_alive(process.pid, process.started)


@pytest.mark.parametrize("script", ["sleep 0.1; echo rubbish; cat > /dev/null", "sleep 0.1; exit 3"])
async def test_one_that_writes_or_exits_between_two_turns_ends(kept: Kept, script: str) -> None:
    pool = kept.pool(WarmLimits())
    process, session = await kept.agent("a", script)
    await pool.keep(process, session)
    await until_empty(pool)
    await pool.close()
    assert kept.ended == ["a"]
    assert not is_alive(process.pid, process.started)


async def test_one_whose_session_somebody_continues_is_killed(kept: Kept) -> None:
    """It is not asked to leave: the lines that it would write then may take the session back."""
    pool = kept.pool(WarmLimits(look_s=0.01))
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    with Path(session.file).open("a") as file:
        file.write("another line\n")
    await until_empty(pool)
    await pool.close()
    assert kept.ended == ["a"] and not kept.left_by_itself("a")


async def test_one_that_is_suspended_is_not_given(kept: Kept) -> None:
    pool = kept.pool(WarmLimits(grace_s=0.1))
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    os.kill(process.pid, signal.SIGSTOP)
    async with asyncio.timeout(30):
        while process.is_quiet:
            await asyncio.sleep(0.01)
    assert await pool.take(session) is None
    assert not is_alive(process.pid, process.started)
    await pool.close()
    assert kept.ended == ["a"]


async def test_a_closed_pool_keeps_nothing(kept: Kept) -> None:
    pool = kept.pool(WarmLimits())
    assert await pool.key() is not None
    await pool.close()
    assert await pool.key() is None
    process, session = await kept.agent("a")
    await pool.keep(process, session)
    assert not is_alive(process.pid, process.started)
    assert kept.ended == ["a"]


async def test_without_a_pool_the_process_ends(kept: Kept) -> None:
    nowhere = NoWarmAgents(OWNER)
    process, session = await kept.agent("a")
    await nowhere.keep(process, session)
    assert not is_alive(process.pid, process.started)
    assert (await nowhere.key(), await nowhere.take(session), await nowhere.kept()) == (None, None, [])


def test_each_pool_has_a_key_of_its_own() -> None:
    first, second = (asyncio.run(WarmPool(OWNER, WarmLimits()).key()) for _ in range(2))
    assert first != second and first is not None and len(first) == 32
