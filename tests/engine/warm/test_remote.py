"""A process of Clew without a pool of its own: without a daemon it keeps no agent, and it leaves none behind."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clew.engine.process import launching
from clew.engine.process.family import is_alive
from clew.engine.warm.remote import RemotePool
from engine.warm.house import SESSION, STAYS, House, answer

pytestmark = pytest.mark.process


async def keeps_nothing(house: House, remote: RemotePool) -> None:
    """It behaves like `NoWarmAgents`."""
    assert await remote.key() is None and remote.owner.host == "elsewhere"
    assert await remote.take(SESSION) is None
    assert not await remote.holds("thread") and await remote.kept() == []
    await remote.discard("thread")
    process = await house.spawn(STAYS)
    await remote.keep(process, SESSION)
    await house.gone()
    assert house.ended == [house.mark]


async def test_without_a_daemon_no_agent_is_kept(house: House) -> None:
    await keeps_nothing(house, house.remote())
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(house.path))
    house.ended.clear()
    await keeps_nothing(house, house.remote())


async def test_a_daemon_that_hangs_is_not_waited_for_again(house: House) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(house.path))
        hanging.listen(0)
        remote = house.remote(connect_s=0.05, retry_s=3600)
        assert await remote.key() is None
        asked, _ = hanging.accept()
        with asked:
            assert asked.recv(4)
        hanging.setblocking(False)
        await keeps_nothing(house, remote)
        with pytest.raises(BlockingIOError):
            hanging.accept()


async def test_a_daemon_of_another_version_keeps_nothing(house: House) -> None:
    await house.serve(version="2.0")
    await keeps_nothing(house, house.remote())


async def test_a_daemon_that_starts_later_is_found(house: House) -> None:
    remote = house.remote()
    assert await remote.key() is None
    server = await house.serve()
    assert await remote.key() == await house.pool.key() and remote.owner == house.owner
    await server.close()
    assert await remote.key() is None and remote.owner.host == "elsewhere"


async def test_an_agent_is_ended_if_the_daemon_ended_during_the_turn(house: House) -> None:
    server = await house.serve()
    remote = house.remote()
    assert await remote.key() is not None
    process = await house.spawn(STAYS)
    await server.close()
    await remote.keep(process, SESSION)
    await house.gone()
    assert house.ended == [house.mark]


async def test_an_agent_is_ended_if_the_pool_is_closed(house: House) -> None:
    await house.serve()
    remote = house.remote()
    assert await remote.key() is not None
    await house.pool.close()
    await remote.keep(await house.spawn(STAYS), SESSION)
    await house.gone()
    assert house.ended == [house.mark]
    assert await remote.key() is None


async def test_an_agent_that_was_started_directly_is_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "is_possible", lambda: False)
    await house.serve()
    remote = house.remote()
    assert await remote.key() is not None
    process = await house.spawn(STAYS)
    await remote.keep(process, SESSION)
    await house.gone()
    assert house.ended == [house.mark]
    assert not await house.pool.kept() and await remote.key() is not None, "the daemon is still there"


@asynccontextmanager
async def daemon_that_says(house: House, *answers: Any) -> AsyncIterator[None]:
    """Each connection gets these answers, and no more."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for said in answers:
                [size] = struct.unpack("!I", await reader.readexactly(4))
                await reader.readexactly(size)
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                writer.write(struct.pack("!I", len(data)) + data)
            await reader.read()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_unix_server(begin, house.path):
        yield
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


HELLO = {"version": "1.0", "owner": {"host": "here", "pid": 1, "started": 1.0}, "key": "00"}
NO_AGENT = {"mark": "m", "pid": 1, "started": 1.0, "top": 1, "top_started": 1.0}


@pytest.mark.parametrize(
    "hello",
    [b"x", [], {}, {**HELLO, "version": 1}, {**HELLO, "owner": {}}, {**HELLO, "key": "no"}, {**HELLO, "key": 1}],
    ids=str,
)
async def test_a_daemon_that_greets_with_rubbish_keeps_nothing(house: House, hello: Any) -> None:
    async with daemon_that_says(house, hello):
        await keeps_nothing(house, house.remote())


@pytest.mark.parametrize("said", [b"x", {}, {"kept": False}, {"agent": NO_AGENT}, {"agent": {}}], ids=str)
async def test_an_agent_is_ended_if_the_daemon_answers_rubbish(house: House, said: Any) -> None:
    async with daemon_that_says(house, HELLO, HELLO, said):
        remote = house.remote()
        assert await remote.key() == b"\0"
        await remote.keep(await house.spawn(STAYS), SESSION)
        await house.gone()
        assert house.ended == [house.mark]
        assert await remote.key() == await remote.key() == b"\0"
        assert await remote.take(SESSION) is None


async def test_a_daemon_that_hangs_at_the_end_of_a_turn_gets_no_agent(house: House) -> None:
    """In its queue the agent's input would stay open, and the command would wait until the agent was killed."""
    async with daemon_that_says(house, HELLO):
        remote = house.remote(keep_s=0.05, answer_s=3600, grace_s=3600)
        assert await remote.key() is not None
        await remote.keep(await house.spawn(), SESSION)
        await house.gone()
        assert house.ended == [house.mark]


async def test_a_keep_that_is_cancelled_ends_the_agent(house: House) -> None:
    """The daemon does not answer."""
    async with daemon_that_says(house, HELLO):
        remote = house.remote()
        assert await remote.key() is not None
        keeping = asyncio.create_task(remote.keep(await house.spawn(STAYS), SESSION))
        for _ in range(5):
            await asyncio.sleep(0)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        await house.gone()
        assert house.ended == [house.mark]


async def test_a_take_that_is_cancelled_at_any_point_loses_no_agent(house: House) -> None:
    """Either the agent was taken, or it is ended, or it is still kept."""
    await house.serve()
    for steps in itertools.count():
        if not await house.pool.holds("thread"):
            process = await house.spawn(STAYS, mark=f"{house.mark}-{steps}")
            assert await answer(process, "zero") == b"answer to zero"
            await house.pool.keep(process, SESSION)
        [agent] = await house.pool.kept()
        taking = asyncio.create_task(house.remote().take(SESSION))
        for _ in range(steps):
            await asyncio.sleep(0)
        taking.cancel()
        try:
            taken = await taking
        except asyncio.CancelledError:
            async with asyncio.timeout(60):
                while is_alive(agent.pid, None) and not await house.pool.kept():
                    await asyncio.sleep(0.02)
        else:
            assert taken is not None and taken.pid == agent.pid
            await taken.end(grace_s=0)
            return
