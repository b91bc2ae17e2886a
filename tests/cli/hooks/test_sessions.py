"""Sessions by key are safe: many processes at once lose nothing, and one that dies in the midst leaves nothing half."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

import clew
from clew.testing.stage import Stage
from hooks.house import REPO, House
from reviews.test_import import in_the_plain_cli

PROCESSES, EACH = 8, 12
KEY = clew.session_key("boss", REPO, 4)

# Sets the sessions that it is told on its command line, KEY=ID, and says so.
SETTER = """
import asyncio, sys, clew
async def main():
    async with clew.open() as client:
        for pair in sys.argv[1:]:
            key, _, session = pair.partition("=")
            assert await client.hooks.set_session(key, session)
            print(key, flush=True)
asyncio.run(main())
"""

# The same, and dies by kill -9 when the transaction asks for its so-manieth id.
DYING = """
import asyncio, os, signal, sys, clew
from clew.engine.settings import new_id
async def main():
    async with clew.open() as client:
        left = int(sys.argv[3])
        def dying():
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return new_id()
        client.engine.around = client.engine.around.replace(new_id=dying)
        await client.hooks.set_session(sys.argv[1], sys.argv[2])
        print("not killed", flush=True)
asyncio.run(main())
"""


@pytest.fixture
def house(scripted: Stage) -> House:
    return House(scripted)


def sessions(stage: Stage, count: int) -> list[str]:
    """Of another tool: one that was really begun, and copies of it under ids of their own."""
    first = in_the_plain_cli(stage, stage.work, "The old skill.")
    [path] = stage.session_files()
    made = [first]
    for _ in range(count - 1):
        made.append(str(uuid.uuid4()))
        path.with_name(f"{made[-1]}.jsonl").write_text(path.read_text().replace(first, made[-1]))
    return made


def start(stage: Stage, code: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, *args]
    return subprocess.Popen(command, env=stage.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def setters(house: House) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.rest
async def test_sets_from_eight_processes_lose_no_entry(house: House, setters: list[subprocess.Popen[str]]) -> None:
    ids = sessions(house.stage, PROCESSES * EACH)
    wanted = {clew.session_key("boss", REPO, number): session for number, session in enumerate(ids, 1)}
    pairs = [f"{key}={session}" for key, session in wanted.items()]
    async with house.open():
        pass  # the database is made
    setters += [start(house.stage, SETTER, *pairs[place::PROCESSES]) for place in range(PROCESSES)]
    for process in setters:
        out, err = process.communicate(timeout=90)
        assert (process.returncode, len(out.split())) == (0, EACH), err
    async with house.open() as client:
        listed = {each.key.key: each.session_id for each in await client.hooks.sessions()}
        assert listed == wanted
        assert {each.state for each in await client.hooks.sessions()} == {"resumable"}


@pytest.mark.rest
@pytest.mark.parametrize("before", [False, True], ids=["new", "replaced"])
async def test_a_kill_in_the_midst_of_a_write_leaves_what_was_there(house: House, before: bool) -> None:
    """Its thread, its turns and its pin are begun in the same transaction as the key."""
    old, new = sessions(house.stage, 2)
    async with house.open() as client:
        if before:
            assert await client.hooks.set_session(KEY, old)
        threads = len(await client.threads())
    for point in (1, 2, 3, 4):
        process = start(house.stage, DYING, KEY, new, str(point))
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (-signal.SIGKILL, ""), err
        async with house.open() as client:
            assert await client.hooks.get_session(KEY) == (old if before else None)
            assert len(await client.threads()) == threads, "no half of a session is left"
            assert await client.engine.database.call(lambda store: store.check()) == []
    async with house.open() as client:
        assert await client.hooks.set_session(KEY, new), "and it can be set afterwards"
        assert await client.hooks.get_session(KEY) == new


@pytest.mark.rest
async def test_what_was_said_to_be_set_is_there_after_a_kill(
    house: House, setters: list[subprocess.Popen[str]]
) -> None:
    ids = sessions(house.stage, 24)
    keys = [clew.session_key("boss", REPO, number) for number in range(1, len(ids) + 1)]
    told: list[str] = []
    for killed_after in (1, 3, 2):
        left = [pair for pair in zip(keys, ids, strict=True) if pair[0] not in told]
        process = start(house.stage, SETTER, *(f"{key}={session}" for key, session in left))
        setters.append(process)
        assert process.stdout is not None
        told += [process.stdout.readline().strip() for _ in range(killed_after)]
        process.kill()
        told += process.stdout.read().split()
    assert len(told) >= 6
    async with house.open() as client:
        listed = {each.key.key: each.session_id for each in await client.hooks.sessions()}
    expected = dict(zip(keys, ids, strict=True))
    assert set(told) <= set(listed)
    assert all(expected[key] == session for key, session in listed.items()), "whole, or not at all"


async def test_the_public_calls_go_round(house: House) -> None:
    session, other = sessions(house.stage, 2)
    reviewer = clew.session_key("reviewer", REPO, 4)
    async with house.open() as client:
        hooks = client.hooks
        assert KEY == "boss:charles/peon:4"
        assert await hooks.get_session(KEY) is None
        assert await hooks.set_session(KEY, session) is True
        assert await hooks.set_session(reviewer, other) is True
        assert await hooks.set_session(clew.session_key("boss", REPO, 5), str(uuid.uuid4())) is False, "it has no file"
        assert await hooks.get_session("boss:Charles/PEON:4") == session, "forges do not tell upper case from lower"
        assert await hooks.drop_session(KEY) is True
        assert await hooks.drop_session(KEY) is False
        assert await hooks.set_session(KEY, session) is True
        assert await hooks.drop_all_for_issue(REPO, 4) == [KEY, reviewer]
        assert await hooks.drop_all_for_issue(REPO, 4) == []
        with pytest.raises(clew.NotFound):
            await hooks.set_session("nobody:charles/peon:4", session)
        with pytest.raises(clew.UsageError):
            await hooks.get_session("boss")
    with pytest.raises(ValueError, match="no session key"):
        clew.session_key("boss", "../..", 4)


async def test_a_session_of_another_key_is_not_taken_away(house: House) -> None:
    [session] = sessions(house.stage, 1)
    async with house.open() as client:
        assert await client.hooks.set_session(KEY, session)
        with pytest.raises(clew.Conflict, match="belongs to a thread already"):
            await client.hooks.set_session(clew.session_key("boss", REPO, 5), session)
        assert await client.hooks.get_session(KEY) == session
        assert len(await client.threads()) == 1
