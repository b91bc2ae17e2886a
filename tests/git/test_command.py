"""How git is called: what it says when it fails, in our errors; a call that is cancelled."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from clew.engine.git import Git, last_words
from clew.errors import UsageError


def test_an_error_of_git_quotes_no_password() -> None:
    said = "hint: try again\nfatal: unable to access 'https://bot:s3cr3t-0f-the-b0t@forge.example/x.git/': refused\n"
    words = "unable to access 'https://bot:[redacted: password in an address]@forge.example/x.git/': refused"
    assert last_words(said) == words
    assert last_words("fatal: not a git repository\n") == "not a git repository"


@pytest.mark.process
async def test_a_cancellation_that_comes_as_git_ends_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop that saves a job's files now and then is ended so: it would go on, and the job never end."""
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
async def test_a_git_that_says_much_is_ended_whenever_nobody_listens_any_more(tmp_path: Path, how: str) -> None:
    """Its pipes are full by then. asyncio waits for their end, too, before it says that the process has ended."""
    talker = tmp_path / "git"
    talker.write_text("#!/bin/sh\nexec yes\n")
    talker.chmod(0o700)
    git = Git({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    for _ in range(8):  # how much that is, is a matter of luck
        calling = asyncio.create_task(git.attempt("version", cwd=str(tmp_path), extra={}, limit_s=0.1))
        if how == "cancelled":
            await asyncio.sleep(0.05)
            calling.cancel()
        await asyncio.wait({calling}, timeout=60)
        assert calling.done()
        assert calling.cancelled() or isinstance(calling.exception(), UsageError)
