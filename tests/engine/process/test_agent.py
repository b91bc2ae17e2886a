"""An agent's process: how it starts, how its end is reported, and that nothing that it started outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

from clew.engine.process import launching
from clew.engine.process.agent import AgentProcess
from clew.engine.process.family import family, is_alive, launcher_name
from clew.errors import AgentFailed, AgentMissing, ClewError

pytestmark = pytest.mark.process

ENVIRON = {"PATH": os.environ["PATH"]}
# A process that tries to leave its family: it has another session, no mark in its environment and no parent.
ESCAPES = "(env -i setsid sh -c 'echo $$ > {pid}; exec sleep 60' </dev/null &)"


async def spawn(folder: Path, script: str) -> AgentProcess:
    return await AgentProcess.spawn(["/bin/sh", "-c", script], cwd=str(folder), environ=ENVIRON, mark=str(folder))


async def signals_of_a_child() -> list[str]:
    """The signals that a child of this process blocks and ignores at its start: a container may ignore some."""
    script = "grep -E 'SigIgn|SigBlk' /proc/self/status"
    child = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=asyncio.subprocess.PIPE)
    return (await child.communicate())[0].decode().splitlines()


async def written(path: Path) -> int:
    async with asyncio.timeout(60):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.02)
    return int(path.read_text())


async def test_a_process_without_its_environment_and_parents_is_ended(tmp_path: Path) -> None:
    process = await spawn(tmp_path, f"{ESCAPES.format(pid=tmp_path / 'pid')}; exec sleep 600")
    pid = await written(tmp_path / "pid")
    await process.end(grace_s=5)
    assert not is_alive(pid, None)
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGTERM


async def test_an_agent_with_full_pipes_that_was_started_directly_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a launcher. Its pipes are full, and asyncio would wait for their end."""
    monkeypatch.setattr(launching, "is_possible", lambda: False)
    process = await spawn(tmp_path, "exec yes")
    async with asyncio.timeout(60):
        while len(process._launched.stdout._buffer) < 1 << 17:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        await process.end(grace_s=5)
        assert await process.wait() == -signal.SIGTERM


async def test_such_a_process_is_ended_too_when_the_agent_has_ended(tmp_path: Path) -> None:
    """The agent's end is reported at once, even if it left a process; and that process is reaped."""
    process = await spawn(tmp_path, f"{ESCAPES.format(pid=tmp_path / 'pid')}; exit 3")
    pid = await written(tmp_path / "pid")
    async with asyncio.timeout(60):
        assert await process.wait() == 3
    assert process.exit_status == 3 and is_alive(pid, None)
    await process.end(grace_s=5)
    assert not Path(f"/proc/{pid}").exists(), "nor is it a zombie"
    assert family(str(tmp_path)) == []


async def test_an_agent_starts_with_the_usual_signals_and_descriptors(tmp_path: Path) -> None:
    shows = "env; ps -o pid=,sid=,pgid= $$; trap; cat /proc/self/status | grep -E 'SigIgn|SigBlk'; ls /proc/self/fd"
    process = await spawn(tmp_path, f"cat; {shows}")
    await process.send(b"hello\n")
    process.close_stdin()
    lines = [line.decode() async for line in process.lines()]
    assert await process.wait() == 0
    await process.end(grace_s=1)
    assert lines[0] == "hello"
    environ = {line for line in lines if "=" in line and not line.startswith(("PWD=", "SHLVL=", "_=", "OLDPWD="))}
    assert environ == {f"PATH={ENVIRON['PATH']}", f"CLEW_ATTEMPT={tmp_path}"}
    [ids] = [line.split() for line in lines if len(line.split()) == 3 and "".join(line.split()).isdigit()]
    assert set(ids) == {str(process.pid)}, "the leader of a session of its own"
    assert [line for line in lines if line.startswith("Sig")] == await signals_of_a_child()
    assert [line for line in lines if line.isdigit()] == ["0", "1", "2", "3"], "and ls holds the folder open"


@pytest.mark.parametrize(
    ("name", "content", "mode", "error"),
    [
        ("gone", None, 0, AgentMissing("{path} is gone.", hint="Run clew doctor.")),
        ("shut", "#!/bin/sh", 0o600, AgentFailed("{path} cannot be started: Permission denied.")),
        ("odd", "words", 0o700, AgentFailed("{path} cannot be started: Exec format error.")),
    ],
)
async def test_a_program_that_cannot_be_started_raises_a_clear_error(
    tmp_path: Path, name: str, content: str | None, mode: int, error: ClewError
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    with pytest.raises(type(error)) as raised:
        await AgentProcess.spawn([str(path)], cwd=str(tmp_path), environ=ENVIRON, mark="m")
    assert raised.value.message == error.message.format(path=path)
    with pytest.raises(AgentFailed, match=r"The work directory .* is gone"):
        await AgentProcess.spawn(["/bin/true"], cwd=str(tmp_path / "nowhere"), environ=ENVIRON, mark="m")


async def test_an_agent_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    process = await spawn(tmp_path, "sleep 600 & echo $! > pid; wait")
    pid = await written(tmp_path / "pid")
    [above] = [each for each in family(str(tmp_path)) if each.name == launcher_name(str(tmp_path))]
    os.kill(above.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
        await process.end(grace_s=5)
    assert not is_alive(pid, None) and not is_alive(process.pid, process.started)


KEY = "sk-ant-api03-" + "x1Y2z3" * 6
ON_STDERR = {
    "by value": ("refused: correct-horse-battery\n", "refused: [redacted: value of MY_TOKEN]"),
    "by shape": (f"refused: {KEY} is not valid\n", "refused: [redacted: Anthropic API key] is not valid"),
    "nothing secret, of Claude": (
        "No conversation found with session ID: 01a1dfdb-189e-7681-b079-d4ea71ee7974\n",
        "No conversation found with session ID: 01a1dfdb-189e-7681-b079-d4ea71ee7974",
    ),
    "nothing secret, of Codex": (
        "Error: thread/resume failed: no rollout found for thread id 01a1dfdb-189e-7681-b079-d4ea71ee7974\n",
        "Error: thread/resume failed: no rollout found for thread id 01a1dfdb-189e-7681-b079-d4ea71ee7974",
    ),
}


async def said_on_stderr(said: str) -> str:
    environ = {"PATH": os.environ["PATH"], "MY_TOKEN": "correct-horse-battery"}
    process = await AgentProcess.spawn(["/bin/sh", "-c", "cat >&2"], cwd="/", environ=environ, mark="m-stderr")
    try:
        await process.send(said.encode())
        process.close_stdin()
        await process.wait()
        return process.stderr_tail
    finally:
        await process.end(grace_s=1)


@pytest.mark.parametrize("case", ON_STDERR)
async def test_the_stderr_tail_has_no_secret(case: str) -> None:
    said, kept = ON_STDERR[case]
    assert await said_on_stderr(said) == kept


async def test_a_secret_that_the_cut_of_the_stderr_tail_splits_is_removed() -> None:
    after = "x" * 60 + "\n"
    for count in range(120, 126):  # the tail is cut within the key, or beside it
        kept = await said_on_stderr(f"{KEY}\n" * 40 + after * count + f"{KEY}\n" + after * (7_990 // 61))
        assert "x1Y2z3" not in kept and len(kept) <= 8_000


async def test_a_launcher_that_was_killed_is_started_again(tmp_path: Path) -> None:
    first = await spawn(tmp_path, "read line; exit 4")
    launcher = launching._Launcher._one
    assert launcher is not None
    os.kill(launcher._process.pid, signal.SIGKILL)
    launcher._process.wait()
    second = await spawn(tmp_path, "exit 5")
    assert await second.wait() == 5 and launching._Launcher._one is not launcher
    await second.end(grace_s=1)
    first.close_stdin()
    assert await first.wait() == 4, "the parents that it had forked continue"
    await first.end(grace_s=1)


async def test_a_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    for _ in range(20):
        starting = asyncio.create_task(spawn(tmp_path, "sleep 600"))
        for _ in range(random.randrange(8)):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).end(grace_s=0)
    async with asyncio.timeout(60):
        while family(str(tmp_path)):
            await asyncio.sleep(0.02)
