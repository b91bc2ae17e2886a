"""The daemon's socket: who is answered, what is given to whom, and what happens to an agent that nobody has."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import random
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from clew.engine.process.family import end_family, is_alive, is_stopped
from clew.engine.warm.server import PoolServer
from engine.warm.house import ANSWERS, SESSION, STAYS, VERSION, House, answer, next_line

pytestmark = pytest.mark.process

NOBODY = 65534


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def kept(house: House, script: str = ANSWERS) -> int:
    """The pid of an agent that the pool keeps."""
    process = await house.spawn(script)
    assert await answer(process, "zero") == b"answer to zero"
    await house.pool.keep(process, SESSION)
    return process.pid


async def test_an_agent_is_used_by_one_process_after_the_other(house: House) -> None:
    await house.serve()
    first = await house.start(["key"], ["spawn"], ["ask", "one"], ["keep"])
    assert await first.said() == {"key": True, "owner": os.getpid()}
    pid = (await first.said())["pid"]
    assert await first.said() == {"answer": "answer to one"}
    assert await first.said() == {"kept": [pid]}
    assert await first.ended() == 0
    for word in ("two", "three"):
        later = await house.start(["key"], ["take"], ["ask", word], ["keep"])
        await later.said()
        assert await later.said() == {"pid": pid}
        assert await later.said() == {"answer": f"answer to {word}"}
        assert await later.said() == {"kept": [pid]}
        assert await later.ended() == 0
    await house.pool.close()
    await house.gone()
    assert not is_alive(pid, None) and house.ended == [house.mark]


@pytest.mark.parametrize("difference", [{"launch": "other"}, {"leaf": None}, {"session_id": "other"}])
async def test_a_session_that_differs_gets_nothing_and_ends_the_agent(house: House, difference: dict[str, str]) -> None:
    await house.serve()
    pid = await kept(house)
    remote = house.remote()
    assert await remote.take(SESSION.replace(**difference)) is None
    await house.gone()
    assert not is_alive(pid, None) and house.ended == [house.mark]
    assert await remote.take(SESSION) is None


async def test_of_two_that_take_at_once_one_gets_the_agent(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    both = await asyncio.gather(house.remote().take(SESSION), house.remote().take(SESSION))
    [taken] = [process for process in both if process is not None]
    assert taken.pid == pid and await answer(taken, "one") == b"answer to one"
    assert not await house.pool.kept()
    await taken.end(grace_s=1)


async def test_what_a_client_asks_besides(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    remote = house.remote()
    assert await remote.key() == await house.pool.key() and remote.owner == house.owner
    assert await remote.holds("thread") and not await remote.holds("other")
    [shown] = await remote.kept()
    assert (shown.thread_id, shown.pid) == ("thread", pid) and shown.rss_bytes > 0
    await remote.discard("other")
    assert await remote.holds("thread")
    await remote.discard("thread")
    assert not await remote.holds("thread")
    await house.gone()
    assert not is_alive(pid, None)


# Deaths

TAKE_ENDS = {
    "take_asked": "by the daemon",
    "agent_received": "by the daemon",
    "agent_taken": "by recovery",
}


@pytest.mark.parametrize("point", TAKE_ENDS)
async def test_an_agent_whose_taker_is_killed_is_ended(house: House, point: str) -> None:
    """It would stay although its input ends. As soon as the taker has confirmed that it has the agent, it is an agent
    of that process like any other, and the next Clew ends it by its mark."""
    await house.serve()
    pid = await kept(house, STAYS)
    files = open_files()
    taker = await house.start(["key"], ["take"], die_at=point)
    assert await taker.ended() == -signal.SIGKILL
    if TAKE_ENDS[point] == "by recovery":
        assert is_alive(pid, None) and not house.ended
        assert await end_family(house.mark, pid, grace_s=1, orphaned=True) >= 2
    await house.gone()
    assert not await house.pool.kept()
    async with asyncio.timeout(60):
        while TAKE_ENDS[point] == "by the daemon" and house.ended != [house.mark]:
            await asyncio.sleep(0.02)
        while open_files() >= files:  # those of the agent are closed
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("point", list(TAKE_ENDS))
async def test_an_ordinary_agent_whose_taker_is_killed_exits_by_itself(house: House, point: str) -> None:
    await house.serve()
    await kept(house)
    taker = await house.start(["key"], ["take"], die_at=point)
    assert await taker.ended() == -signal.SIGKILL
    await house.gone()


@pytest.mark.parametrize(("point", "stays"), [("agent_released", False), ("keep_asked", True), ("agent_given", True)])
async def test_an_agent_is_kept_as_soon_as_the_daemon_was_asked_to(house: House, point: str, stays: bool) -> None:
    await house.serve()
    giver = await house.start(["key"], ["spawn"], ["ask", "one"], ["keep"], die_at=point)
    await giver.said()
    pid = (await giver.said())["pid"]
    assert await giver.ended() == -signal.SIGKILL
    if not stays:
        await house.gone()
        assert not await house.pool.kept()
        return
    await house.holds(True)
    process = await house.remote().take(SESSION)
    assert process is not None and process.pid == pid
    assert await answer(process, "two") == b"answer to two"
    await process.end(grace_s=1)


async def test_an_agent_whose_daemon_is_killed_exits_by_itself(house: House) -> None:
    daemon = await house.start(["serve"], ["wait"])
    assert await daemon.said() == {"serves": daemon.pid}
    remote = house.remote()
    assert await remote.key() is not None and remote.owner.pid == daemon.pid
    process = await house.spawn()
    assert await answer(process, "one") == b"answer to one"
    await remote.keep(process, SESSION)
    assert [each.pid for each in await remote.kept()] == [process.pid] and is_alive(process.pid, None)
    await daemon.kill()
    await house.gone()
    assert await remote.take(SESSION) is None and await remote.key() is None


async def test_an_agent_that_is_kept_does_not_notice_that_its_first_terminal_closes(house: House) -> None:
    await house.serve()
    ours, its = pty.openpty()
    steps = (["terminal", os.ttyname(its)], ["key"], ["spawn"], ["ask", "one"], ["keep"], ["wait"])
    first = await house.start(*steps)
    said = [await first.said() for _ in range(4)]
    os.close(its)
    os.close(ours)
    assert await first.ended() == -signal.SIGHUP
    process = await house.remote().take(SESSION)
    assert process is not None and process.pid == said[1]["pid"]
    assert await answer(process, "two") == b"answer to two"
    await process.end(grace_s=1)


async def test_an_agent_that_dies_while_it_is_kept_leaves_the_pool(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    os.kill(pid, signal.SIGKILL)
    await house.holds(False)
    assert await house.remote().take(SESSION) is None
    await house.gone()


async def test_a_suspended_agent_is_ended_when_it_is_asked_for(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(60):
        while not is_stopped(pid, None):
            await asyncio.sleep(0.02)
    assert await house.remote().take(SESSION) is None
    await house.gone()
    assert not is_alive(pid, None) and house.ended == [house.mark]


async def test_an_agent_that_writes_something_while_it_is_kept_is_ended(house: House) -> None:
    await house.serve()
    await kept(house, f"trap 'echo by itself' USR1; {ANSWERS}")
    [agent] = await house.pool.kept()
    os.kill(agent.pid, signal.SIGUSR1)
    await house.holds(False)
    await house.gone()


async def test_an_agent_that_cannot_be_handed_over_is_ended(house: House) -> None:
    """It has closed its stderr, so its exit could not be told from its silence."""
    await house.serve()
    pid = await kept(house, f"exec 2>&-; {ANSWERS}")
    async with asyncio.timeout(60):
        while not house.pool._kept[SESSION.session_id].process._launched.stderr.at_eof():
            await asyncio.sleep(0.02)
    assert await house.remote().take(SESSION) is None
    await house.gone()
    assert not is_alive(pid, None) and house.ended == [house.mark]


# The socket


async def test_only_its_user_can_connect(house: House) -> None:
    await house.serve()
    assert house.path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in house.path.parent.iterdir()] == ["pool"]


async def test_a_program_that_is_started_inherits_no_descriptor(house: House) -> None:
    """Neither from the process that keeps an agent, nor from one that has taken it."""
    await house.serve()
    pid = await kept(house)
    remote = house.remote()
    assert await remote.key() is not None
    shows = "ls /proc/self/fd"
    for take in (False, True):
        taken = await remote.take(SESSION) if take else None
        assert not take or (taken is not None and taken.pid == pid)
        process = await house.spawn(f"{shows}; read -r line", mark=f"{house.mark}-other")
        assert [await next_line(process) for _ in range(4)] == [b"0", b"1", b"2", b"3"], "ls holds the folder open"
        assert process.is_quiet
        await process.end(grace_s=1)
        if taken is not None:
            await taken.end(grace_s=1)


IS_ANSWERED = """
import os, socket, sys
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    try:
        connection.sendall(bytes.fromhex(sys.argv[3]))
        print("answered" if connection.recv(1) else "refused")
    except ConnectionError:
        print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_even_if_the_file_is_open_to_all(house: House) -> None:
    await house.serve()
    house.path.parent.chmod(0o755)
    house.path.chmod(0o666)
    hello = json.dumps({"op": "hello"}).encode()
    for user, said in ((0, "answered"), (NOBODY, "refused")):
        command = [sys.executable, "-c", IS_ANSWERED, str(house.path), str(user)]
        asking = await asyncio.create_subprocess_exec(
            *command, (struct.pack("!I", len(hello)) + hello).hex(), stdout=subprocess.PIPE
        )
        assert (await asking.communicate())[0].decode().strip() == said


CONFINED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"


async def test_an_agent_is_no_way_out_of_a_sandbox(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    through = [sys.executable, "-c", CONFINED]  # with PR_SET_NO_NEW_PRIVS
    confined = await house.start(["key"], ["take"], ["spawn"], ["keep"], through=through, mark=f"{house.mark}-2")
    assert (await confined.said())["key"] is False
    assert await confined.said() == {"pid": None}
    assert await confined.said()
    assert await confined.said() == {"kept": []}
    assert await confined.ended() == 0
    assert [each.pid for each in await house.pool.kept()] == [pid]


async def test_a_socket_that_a_dead_daemon_left_is_replaced_and_that_of_a_living_one_is_not(house: House) -> None:
    daemon = await house.start(["serve"], ["wait"])
    await daemon.said()
    server = PoolServer(house.pool, house.path, VERSION)
    with pytest.raises(OSError, match="in use"):
        await server.start()
    assert [each.name for each in house.path.parent.iterdir()] == ["pool"]
    assert await house.remote().key() is not None
    await daemon.kill()
    assert house.path.exists()
    server = await house.serve()
    assert await house.remote().key() == await house.pool.key()
    await server.close()
    assert not house.path.exists()


async def test_rubbish_closes_its_connection_and_harms_nothing_else(house: House) -> None:
    await house.serve()
    pid = await kept(house)
    remote = house.remote()
    assert await remote.holds("thread")
    files = open_files()
    for number in range(200):
        await asyncio.to_thread(send_rubbish, house.path, random.Random(number))
    assert await remote.holds("thread")
    async with asyncio.timeout(60):
        while open_files() > files:  # their connections and descriptors are closed
            await asyncio.sleep(0.02)
    process = await remote.take(SESSION)
    assert process is not None and process.pid == pid
    await process.end(grace_s=1)


AGENT = {"mark": "m", "pid": os.getpid(), "started": 1.0, "top": 1, "top_started": 1.0}
WRONG = [
    {},
    {"op": "end"},
    {"op": ["hello"]},
    {"op": "holds"},
    {"op": "discard", "thread_id": 1},
    {"op": "take"},
    {"op": "take", "session": {**SESSION.as_dict(), "leaf": 1}},
    {"op": "take", "session": {**SESSION.as_dict(), "more": "x"}},
    {"op": "keep", "session": SESSION.as_dict()},
    {"op": "keep", "session": SESSION.as_dict(), "agent": AGENT},
    {"op": "keep", "session": SESSION.as_dict(), "agent": {**AGENT, "pid": "1"}},
]


def send_rubbish(path: Path, choose: random.Random) -> None:
    """One connection. Returns when the server has closed it, or has nothing more to wait for."""
    data = choose.choice(
        [b"null", b"[" * 60_000, b"{", choose.randbytes(99), *(json.dumps(each).encode() for each in WRONG)]
    )
    size = choose.choice([len(data), len(data), len(data), len(data) + 5, 1 << 31, 0])
    frame = struct.pack("!I", size) + data
    descriptors = [choose.choice([0, 1, 2])] * choose.randrange(7)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        try:
            if descriptors:
                socket.send_fds(connection, [frame], descriptors)
            else:
                connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b"", "an answer to rubbish"
        except ConnectionError:
            pass
