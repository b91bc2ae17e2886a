"""Runs a command on a terminal of a given width, and returns what a user sees."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from typing import Any

import forkserver
from clew.api.client import Client
from clew.testing.stage import MODEL, Stage


def on_terminal(stage: Stage, *args: str, columns: int = 80) -> tuple[int, str]:
    """Returns the exit code, and everything that was written to the terminal."""
    master, slave = pty.openpty()
    process = forkserver.start(
        args,
        env={**stage.environ, "CLEW_MODEL": MODEL, "TERM": "xterm-256color", "COLUMNS": str(columns)},
        cwd=stage.work,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.DEVNULL,
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # Linux reports so that the other end is closed
        while piece := os.read(master, 65_536):
            seen += piece
    os.close(master)
    return process.wait(60), seen.decode().replace("\r\n", "\n")


async def rows_of(client: Client, *names: str) -> list[Any]:
    """All rows of these threads, to check that nothing changes them."""
    return await client.engine.store.call(
        lambda store: [store.threads.dump(store.threads.require(name).id) for name in names]
    )
