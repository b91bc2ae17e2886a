"""An agent is handed from one reader to another: nothing is lost, and it is ended as completely as before."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew.engine.process import launching
from clew.engine.process.agent import AgentProcess
from clew.engine.process.family import end_family, family, is_alive
from clew.engine.process.handing import AgentInTransit

pytestmark = pytest.mark.process

ENVIRON = {"PATH": os.environ["PATH"], "MY_TOKEN": "correct-horse-battery"}
# Answers every line, and says so on stderr. It exits with 7 when its input ends.
AGENT = 'while read -r line; do echo "answer to $line"; echo "read $line" >&2; done; exit 7'
ESCAPES = "(env -i setsid sh -c 'echo $$ > {pid}; exec sleep 600' </dev/null &)"


async def spawn(folder: Path, script: str) -> AgentProcess:
    return await AgentProcess.spawn(["/bin/sh", "-c", script], cwd=str(folder), environ=ENVIRON, mark=str(folder))


async def answer(process: AgentProcess, said: str) -> bytes:
    await process.send(f"{said}\n".encode())
    return await next_line(process)


async def next_line(process: AgentProcess) -> bytes:
    async with asyncio.timeout(60):
        async for line in process.lines():
            assert isinstance(line, bytes)
            return line
    raise AssertionError("the output has ended")


def handed(process: AgentProcess) -> AgentInTransit:
    transit = process.hand_over()
    assert transit is not None
    return transit


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def gone(mark: Path) -> None:
    """Waits until nothing of the family runs. A killed process needs a moment."""
    async with asyncio.timeout(60):
        while family(str(mark)):
            await asyncio.sleep(0.02)


async def until(path: Path) -> str:
    async with asyncio.timeout(60):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.02)
    return path.read_text().strip()


async def test_an_agent_goes_on_after_it_was_handed_over(tmp_path: Path) -> None:
    first = await spawn(tmp_path, AGENT)
    assert await answer(first, "one") == b"answer to one"
    files = open_files()
    transit = handed(first)
    assert transit.agent.is_running
    second = await AgentProcess.from_handed(transit, ENVIRON)
    assert await answer(second, "two") == b"answer to two"
    assert (second.pid, second.started, second.mark) == (first.pid, first.started, first.mark)
    assert open_files() == files and second.is_quiet and second.rss_bytes
    second.close_stdin()
    assert await second.wait() == 7
    assert "read two" in second.stderr_tail
    await second.end(grace_s=1)
    await gone(tmp_path)


async def test_the_process_that_has_handed_an_agent_over_can_no_longer_end_it(tmp_path: Path) -> None:
    first = await spawn(tmp_path, AGENT)
    transit = handed(first)
    assert first.hand_over() is None
    await first.retire(grace_s=0)
    await first.end(grace_s=0)
    second = await AgentProcess.from_handed(transit, ENVIRON)
    assert await answer(second, "one") == b"answer to one"
    await second.end(grace_s=1)


async def test_what_an_agent_writes_on_its_way_is_read_by_the_next_reader(tmp_path: Path) -> None:
    first = await spawn(tmp_path, "read -r line; echo error: correct-horse-battery >&2; echo late; exec cat")
    transit = handed(first)
    os.write(transit.descriptors[0], b"now\n")
    second = await AgentProcess.from_handed(transit, ENVIRON)
    assert await next_line(second) == b"late"
    second.close_stdin()
    assert await second.wait() == 0
    assert second.stderr_tail == "error: [redacted: value of MY_TOKEN]"
    await second.end(grace_s=1)


async def test_an_exit_on_the_way_is_reported_to_the_next_reader(tmp_path: Path) -> None:
    transit = handed(await spawn(tmp_path, "read -r line; exit 3"))
    os.write(transit.descriptors[0], b"now\n")
    async with asyncio.timeout(60):
        while transit.agent.is_running:
            await asyncio.sleep(0.02)
    process = await AgentProcess.from_handed(transit, ENVIRON)
    assert await process.wait() == 3 and not process.is_quiet
    await process.end(grace_s=1)


async def test_a_killed_parent_on_the_way_is_an_exit_too(tmp_path: Path) -> None:
    transit = handed(await spawn(tmp_path, AGENT))
    os.kill(transit.agent.top, signal.SIGKILL)
    process = await AgentProcess.from_handed(transit, ENVIRON)
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
    await process.end(grace_s=1)


async def test_the_input_of_an_agent_that_nobody_takes_ends(tmp_path: Path) -> None:
    process = await spawn(tmp_path, f"{AGENT.removesuffix('; exit 7')}; echo ended > ended; sleep 600")
    transit = handed(process)
    await asyncio.sleep(0)  # the event loop closes this process's own descriptors
    transit.close()
    assert await until(tmp_path / "ended") == "ended"
    await end_family(str(tmp_path), grace_s=1)  # found by the mark alone, as after a crash
    await gone(tmp_path)
    assert not is_alive(process.pid, process.started)


async def test_everything_that_an_agent_has_started_is_found_after_it_was_handed_over(tmp_path: Path) -> None:
    first = await spawn(tmp_path, f"{ESCAPES.format(pid=tmp_path / 'pid')}; {AGENT}")
    pid = int(await until(tmp_path / "pid"))
    second = await AgentProcess.from_handed(handed(first), {})
    assert second.has_tools_left
    await second.end(grace_s=1)
    await gone(tmp_path)
    assert not is_alive(pid, None) and not is_alive(first.pid, first.started)


@pytest.mark.parametrize(
    "script",
    [
        "read -r line; echo one; echo two; read -r line",
        "read -r line; echo one; while [ ! -e asked ]; do sleep 0.01; done; echo two; read -r line",
        "read -r line; echo one; printf two; read -r line",
        "read -r line; echo one; exec >&-; read -r line",
        "read -r line; echo one",
        "read -r line; echo one; kill -STOP $$",
    ],
    ids=["unread", "unread and late", "unfinished", "closed its output", "exited", "suspended"],
)
async def test_an_agent_that_is_not_quiet_stays_with_its_reader(tmp_path: Path, script: str) -> None:
    process = await spawn(tmp_path, script)
    assert await answer(process, "go") == b"one"
    (tmp_path / "asked").touch()
    async with asyncio.timeout(60):
        while process.is_quiet:
            await asyncio.sleep(0.02)
    assert process.hand_over() is None
    await process.end(grace_s=1)
    await gone(tmp_path)


async def test_nor_is_one_handed_over_that_has_not_read_its_input_or_has_closed_its_stderr(tmp_path: Path) -> None:
    process = await spawn(tmp_path, "exec 2>&-; read -r line; exec sleep 600")
    async with asyncio.timeout(60):
        while not process._launched.stderr.at_eof():
            await asyncio.sleep(0.02)
    assert process.is_quiet and process.hand_over() is None
    await process.end(grace_s=1)
    process = await spawn(tmp_path, AGENT)
    process._launched.stdin.write(b"x" * 10_000_000)
    assert process.is_quiet and process.hand_over() is None
    await process.end(grace_s=1)


async def test_an_agent_that_was_started_directly_cannot_be_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the launcher. It would lose its exit status, and its parent is the process that ends."""
    monkeypatch.setattr(launching, "is_possible", lambda: False)
    process = await spawn(tmp_path, AGENT)
    assert await answer(process, "one") == b"answer to one"
    assert process.hand_over() is None
    assert await answer(process, "two") == b"answer to two"
    await process.end(grace_s=1)


async def test_descriptors_that_are_no_pipes_of_an_agent_are_closed(tmp_path: Path) -> None:
    transit = handed(await spawn(tmp_path, AGENT))
    await asyncio.sleep(0)
    files = open_files()
    agent_input, *pipes = transit.descriptors
    for wrong in ([], pipes, [agent_input, *pipes, agent_input], [*pipes, agent_input]):
        with pytest.raises(OSError, match="not the pipes of an agent"):
            AgentInTransit(transit.agent, [os.dup(each) for each in wrong])
        assert open_files() == files
    process = await AgentProcess.from_handed(transit, {})
    assert await answer(process, "one") == b"answer to one"
    await process.end(grace_s=1)


async def test_other_processes_are_not_taken_for_the_agent(tmp_path: Path) -> None:
    process = await spawn(tmp_path, AGENT)
    transit = handed(process)
    agent = transit.agent
    assert agent.is_running
    for wrong in ({"mark": "m"}, {"pid": os.getpid()}, {"started": 1.0}, {"top": 1}, {"top_started": 1.0}, {"pid": 0}):
        assert not agent.replace(**wrong).is_running
    await (await AgentProcess.from_handed(transit, {})).end(grace_s=1)
    assert not agent.is_running


# Prints the agent's pid, and kills itself while a fork of it lives. The second time, the agent is on its way.
FORKS = """
import asyncio, os, signal, sys
from clew.engine.process.agent import AgentProcess

async def main():
    environ = {"PATH": os.environ["PATH"]}
    process = await AgentProcess.spawn(["/bin/cat"], cwd="/", environ=environ, mark=sys.argv[1])
    transit = process.hand_over() if sys.argv[2] == "handed" else None
    await asyncio.sleep(0)
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["read", "handed"])
async def test_a_fork_does_not_keep_an_agents_input_open(tmp_path: Path, state: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(tmp_path), state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdin is not None and owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert owner.wait() == -signal.SIGKILL
        async with asyncio.timeout(60):
            while is_alive(pid, None) or family(str(tmp_path)):
                await asyncio.sleep(0.02)
