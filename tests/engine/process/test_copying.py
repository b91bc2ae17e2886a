"""A copy of a session is made by a process that is ended in every case."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew.engine.process.copying import make_copy
from clew.engine.process.family import family, launcher_name
from clew.errors import AgentFailed, AgentMissing

pytestmark = pytest.mark.process

ENVIRON = {"PATH": os.environ["PATH"], "SOME_API_KEY": "a-secret-of-the-user-0123456789"}


class ShellDialog:
    """With a shell script: `copy ID` ends it with a copy, `refuse WHY` without one, any other line is echoed."""

    def __init__(self, script: str) -> None:
        self.argv: Sequence[str] = ["/bin/sh", "-c", script]
        self.session_id: str | None = None
        self.error = ""

    def begin(self) -> list[bytes]:
        return [b"hello\n"]

    def feed(self, line: bytes) -> list[bytes]:
        verb, _, rest = line.decode().partition(" ")
        match verb:
            case "copy":
                self.session_id = rest
            case "refuse":
                self.error = rest
            case _:
                return [b"echo " + line + b"\n"]
        return []


async def copied(folder: Path, script: str, timeout_s: float = 60) -> str:
    return await make_copy(ShellDialog(script), cwd=str(folder), environ=ENVIRON, mark=str(folder), timeout_s=timeout_s)


async def all_ended(folder: Path) -> bool:
    """Whether the agent's processes end. One that was killed may take a moment on a busy machine. Their parent, which
    is ours, reports the end before it exits itself."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while any(process.name != launcher_name(str(folder)) for process in family(str(folder))):
                await asyncio.sleep(0.02)
            return True
    return False


async def test_the_dialog_is_carried_out_and_the_process_ends_by_itself(tmp_path: Path) -> None:
    script = f'read a; echo "$a"; read b; echo "copy $a-$b"; cat; echo done > {tmp_path}/closed'
    assert await copied(tmp_path, script) == "hello-echo hello"
    assert (tmp_path / "closed").exists(), "it could close its files"
    assert await all_ended(tmp_path)


async def test_a_refusal_is_an_error_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="turn not found") as refused:
        await copied(tmp_path, 'echo "refuse turn not found $SOME_API_KEY"; echo why >&2; cat')
    assert ENVIRON["SOME_API_KEY"] not in refused.value.message
    assert refused.value.stderr_tail == "why"


async def test_a_process_that_exits_without_an_answer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="without an answer") as failed:
        await copied(tmp_path, "exit 3")
    assert failed.value.exit_status == 3


async def test_a_program_that_is_gone_is_an_error(tmp_path: Path) -> None:
    dialog = ShellDialog("")
    dialog.argv = [str(tmp_path / "nowhere")]
    with pytest.raises(AgentMissing):
        await make_copy(dialog, cwd=str(tmp_path), environ=ENVIRON, mark=str(tmp_path))


@pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; sleep 600 & sleep 600"])
async def test_a_process_that_is_silent_is_ended_with_its_children(tmp_path: Path, script: str) -> None:
    with pytest.raises(AgentFailed, match="within"):
        await copied(tmp_path, script, timeout_s=0.2)
    assert await all_ended(tmp_path)


async def test_a_process_that_does_not_exit_is_ended_and_the_copy_counts(tmp_path: Path) -> None:
    assert await copied(tmp_path, "echo copy x; sleep 600") == "x"
    assert await all_ended(tmp_path)


async def test_a_cancel_ends_the_process(tmp_path: Path) -> None:
    task = asyncio.create_task(copied(tmp_path, f"echo started > {tmp_path}/started; sleep 600"))
    async with asyncio.timeout(60):
        while not (tmp_path / "started").exists():
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await all_ended(tmp_path)
