"""Runs the shell blocks of a command's file, in the work directory, as the user."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping

from clew.engine.process.family import MARK, end_family
from clew.errors import UsageError

TIMEOUT_S = 60.0
MAX_OUTPUT_BYTES = 100_000
NO_OUTPUT = "(The command completed with no output.)"


async def output_of(command: str, name: str, *, cwd: str, environ: Mapping[str, str], mark: str) -> str:
    """What the command prints. Raises UsageError if it fails, takes too long or prints too much.

    Whatever it started has ended when this returns: `mark` finds its processes.
    """
    process = await asyncio.create_subprocess_exec(
        _shell(environ),
        "-c",
        command,
        cwd=cwd,
        env={**environ, MARK: mark},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    shown = " ".join(command.split())[:120]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output = bytearray()
            while chunk := await process.stdout.read(65_536):
                output += chunk
                if len(output) > MAX_OUTPUT_BYTES:
                    raise UsageError(f"A command in /{name} prints more than {MAX_OUTPUT_BYTES:,} bytes: {shown}")
            status = await process.wait()
    except TimeoutError:
        raise UsageError(f"A command in /{name} took longer than {TIMEOUT_S:.0f} s: {shown}") from None
    finally:
        await end_family(mark, process.pid if process.returncode is None else None, grace_s=0)
        with contextlib.suppress(ProcessLookupError):
            await process.wait()
    text = output.decode("utf-8", "replace").rstrip("\n")
    if status != 0:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "no output")
        last = "".join(each if each.isprintable() else " " for each in last)[:200]
        raise UsageError(f"A command in /{name} failed with exit code {status}: {shown}: {last}")
    return text or NO_OUTPUT


def _shell(environ: Mapping[str, str]) -> str:
    """The commands are written for bash, as those of the plain CLI are."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("/") and os.access(f"{folder}/bash", os.X_OK):
            return f"{folder}/bash"
    return "/bin/sh"
