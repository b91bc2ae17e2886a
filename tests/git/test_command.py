"""How git is called: its errors in our messages, and calls that are cancelled."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git.command import Git, error_text


def test_an_error_of_git_quotes_no_password() -> None:
    said = "hint: try again\nfatal: unable to access 'https://bot:s3cr3t-0f-the-b0t@forge.example/x.git/': refused\n"
    words = "unable to access 'https://bot:[redacted: password in an address]@forge.example/x.git/': refused"
    assert error_text(said) == words
    assert error_text("fatal: not a git repository\n") == "not a git repository"


@pytest.mark.process
async def test_a_cancellation_that_comes_as_git_ends_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop that saves a job's files is ended like this: otherwise it would continue, and the job never end."""
    read = Process.communicate

    async def then_cancelled(process: Process, stdin: bytes | None = None) -> tuple[bytes, bytes]:
        out = await read(process, stdin)
        calling.cancel()
        return out

    monkeypatch.setattr(Process, "communicate", then_cancelled)
    calling = asyncio.create_task(Git({"PATH": "/usr/bin:/bin"}).attempt("version", cwd=str(tmp_path), extra={}))
    await asyncio.wait({calling}, timeout=60)
    assert calling.cancelled()


@pytest.mark.process
@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_git_with_much_output_is_ended_when_its_caller_is_cancelled(tmp_path: Path, how: str) -> None:
    """Its pipes are full by then, and asyncio waits for their end before it reports the process as ended."""
    talker = tmp_path / "git"
    talker.write_text("#!/bin/sh\nexec yes\n")
    talker.chmod(0o700)
    git = Git({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    for _ in range(8):  # how much output that is depends on chance
        calling = asyncio.create_task(git.attempt("version", cwd=str(tmp_path), extra={}, limit_s=0.1))
        if how == "cancelled":
            await asyncio.sleep(0.05)
            calling.cancel()
        await asyncio.wait({calling}, timeout=60)
        assert calling.done()
        assert calling.cancelled() or isinstance(calling.exception(), UsageError)
