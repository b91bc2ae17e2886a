"""Sessions by key: concurrent processes lose no entry, and a killed process leaves no partial change."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

import clew
from clew.testing.stage import Stage
from hooks.project import REPO, HookProject
from reviews.test_import import in_the_plain_cli

PROCESSES, EACH = 8, 12
KEY = clew.session_key("boss", REPO, 4)

# Sets the sessions that its command line names as KEY=ID, and prints each key.
SETTER = """
import asyncio, sys, clew
async def main():
    async with clew.open() as client:
        for pair in sys.argv[1:]:
            key, _, session = pair.partition("=")
            assert await client.hooks.sessions.set(key, session)
            print(key, flush=True)
asyncio.run(main())
"""

# Sets one session, and kills itself with kill -9 when the transaction asks for its n-th id.
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
        client.engine.context = client.engine.context.replace(new_id=dying)
        await client.hooks.sessions.set(sys.argv[1], sys.argv[2])
        print("not killed", flush=True)
asyncio.run(main())
"""


@pytest.fixture
def project(scripted: Stage) -> HookProject:
    return HookProject(scripted)


def sessions(stage: Stage, count: int) -> list[str]:
    """Sessions of another tool: one that was really started, and copies of it under other ids."""
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
def setters(project: HookProject) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.rest
async def test_eight_processes_set_sessions_and_no_entry_is_lost(
    project: HookProject, setters: list[subprocess.Popen[str]]
) -> None:
    ids = sessions(project.stage, PROCESSES * EACH)
    wanted = {clew.session_key("boss", REPO, number): session for number, session in enumerate(ids, 1)}
    pairs = [f"{key}={session}" for key, session in wanted.items()]
    async with project.open():
        pass  # creates the database
    setters += [start(project.stage, SETTER, *pairs[place::PROCESSES]) for place in range(PROCESSES)]
    for process in setters:
        out, err = process.communicate(timeout=90)
        assert (process.returncode, len(out.split())) == (0, EACH), err
    async with project.open() as client:
        listed = {each.key.key: each.session_id for each in await client.hooks.sessions.list()}
        assert listed == wanted
        assert {each.state for each in await client.hooks.sessions.list()} == {"resumable"}


@pytest.mark.rest
@pytest.mark.parametrize("before", [False, True], ids=["new", "replaced"])
async def test_a_kill_during_a_write_leaves_the_old_session(project: HookProject, before: bool) -> None:
    """Thread, turns and pin are written in the same transaction as the key."""
    old, new = sessions(project.stage, 2)
    async with project.open() as client:
        if before:
            assert await client.hooks.sessions.set(KEY, old)
        threads = len(await client.threads())
    for point in (1, 2, 3, 4):
        process = start(project.stage, DYING, KEY, new, str(point))
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (-signal.SIGKILL, ""), err
        async with project.open() as client:
            assert await client.hooks.sessions.get(KEY) == (old if before else None)
            assert len(await client.threads()) == threads, "nothing is left of it"
            assert await client.engine.store.call(lambda store: store.check()) == []
    async with project.open() as client:
        assert await client.hooks.sessions.set(KEY, new), "and it can be set afterwards"
        assert await client.hooks.sessions.get(KEY) == new


@pytest.mark.rest
async def test_a_session_that_was_reported_as_set_survives_a_kill(
    project: HookProject, setters: list[subprocess.Popen[str]]
) -> None:
    ids = sessions(project.stage, 24)
    keys = [clew.session_key("boss", REPO, number) for number in range(1, len(ids) + 1)]
    printed: list[str] = []
    for killed_after in (1, 3, 2):
        left = [pair for pair in zip(keys, ids, strict=True) if pair[0] not in printed]
        process = start(project.stage, SETTER, *(f"{key}={session}" for key, session in left))
        setters.append(process)
        assert process.stdout is not None
        printed += [process.stdout.readline().strip() for _ in range(killed_after)]
        process.kill()
        printed += process.stdout.read().split()
    assert len(printed) >= 6
    async with project.open() as client:
        listed = {each.key.key: each.session_id for each in await client.hooks.sessions.list()}
    expected = dict(zip(keys, ids, strict=True))
    assert set(printed) <= set(listed)
    assert all(expected[key] == session for key, session in listed.items()), "each is stored completely, or not at all"


async def test_the_public_calls_work_together(project: HookProject) -> None:
    session, other = sessions(project.stage, 2)
    reviewer = clew.session_key("reviewer", REPO, 4)
    async with project.open() as client:
        hooks = client.hooks
        assert KEY == "boss:charles/peon:4"
        assert await hooks.sessions.get(KEY) is None
        assert await hooks.sessions.set(KEY, session) is True
        assert await hooks.sessions.set(reviewer, other) is True
        assert await hooks.sessions.set(clew.session_key("boss", REPO, 5), str(uuid.uuid4())) is False, "it has no file"
        assert await hooks.sessions.get("boss:Charles/PEON:4") == session, "on a forge, case does not matter"
        assert await hooks.sessions.drop(KEY) is True
        assert await hooks.sessions.drop(KEY) is False
        assert await hooks.sessions.set(KEY, session) is True
        assert await hooks.sessions.drop_issue(REPO, 4) == [KEY, reviewer]
        assert await hooks.sessions.drop_issue(REPO, 4) == []
        with pytest.raises(clew.NotFound):
            await hooks.sessions.set("nobody:charles/peon:4", session)
        with pytest.raises(clew.UsageError):
            await hooks.sessions.get("boss")
    with pytest.raises(ValueError, match="no session key"):
        clew.session_key("boss", "../..", 4)


async def test_a_session_of_another_key_cannot_be_adopted(project: HookProject) -> None:
    [session] = sessions(project.stage, 1)
    async with project.open() as client:
        assert await client.hooks.sessions.set(KEY, session)
        with pytest.raises(clew.Conflict, match="belongs to a thread already"):
            await client.hooks.sessions.set(clew.session_key("boss", REPO, 5), session)
        assert await client.hooks.sessions.get(KEY) == session
        assert len(await client.threads()) == 1
