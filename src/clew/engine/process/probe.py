"""Finds out what an agent's binary can do. The result is stored and used until the file changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from clew.agents.adapter import Adapter, Binary
from clew.core.decision import Abilities
from clew.engine.storage.async_store import StoreAccess
from clew.errors import AgentFailed, AgentMissing
from clew.store.store import Store
from clew.system.processes import ended

PROBE_S = 30.0
# Part of the stored key. Raise it when an adapter reads something else from the same help and version: what an older
# Clew stored about a binary is then not used any more.
ABILITIES_VERSION = 3
_seen: dict[str, tuple[str, str, Abilities]] = {}  # by agent: the last binary that this process used


def look_up(store: Store, agent: str, binary: Binary) -> None:
    """Reads what is stored about the binary, in a call that the caller makes anyway: `abilities` then makes none."""
    stamp = _stamp(binary.path)
    if (seen := _seen.get(agent)) is not None and seen[:2] == (binary.path, stamp):
        return
    known = store.key_values.probe(binary.path, stamp)
    if known is not None:
        _seen[agent] = binary.path, stamp, _load(known)


async def abilities(
    adapter: Adapter, binary: Binary, async_store: StoreAccess, environ: Mapping[str, str], now: float
) -> Abilities:
    stamp = _stamp(binary.path)
    if (seen := _seen.get(adapter.name)) is not None and seen[:2] == (binary.path, stamp):
        return _checked(seen[2], adapter, binary)
    known = await async_store.call(lambda store: store.key_values.probe(binary.path, stamp))
    if known is not None:
        found = _load(known)
        _seen[adapter.name] = binary.path, stamp, found
        return _checked(found, adapter, binary)
    help_argv, version_argv = adapter.probe_commands(binary)
    clean = adapter.environment(environ)
    asked = [_output(argv, clean) for argv in (help_argv, version_argv)]
    answers = await asyncio.gather(*asked, return_exceptions=True)  # awaits both, even if one fails
    found = adapter.abilities(*(_text(answer) for answer in answers))
    body = json.dumps({**found.as_dict(), "flags": sorted(found.flags)})
    await async_store.call(lambda store: store.key_values.save_probe(binary.path, stamp, body, now))
    return _checked(found, adapter, binary)


def _text(answer: str | BaseException) -> str:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _checked(found: Abilities, adapter: Adapter, binary: Binary) -> Abilities:
    if not found.is_agent:
        said = " ".join(part for part in (found.version, found.product) if part)
        raise AgentMissing(
            f"{binary.path} is not the {adapter.name} CLI (--version says {said!r}).",
            hint=f"Correct or remove agents.{adapter.name}.path, or what stands first on PATH.",
        )
    return found


def _load(body: str) -> Abilities:
    fields = json.loads(body)
    return Abilities(**{**fields, "flags": frozenset(fields["flags"])})


def _stamp(path: str) -> str:
    try:
        stat = Path(path).stat()
    except OSError:
        return "gone"
    return f"{ABILITIES_VERSION}/{stat.st_mtime_ns}:{stat.st_size}:{stat.st_ino}"


async def _output(argv: list[str], environ: Mapping[str, str]) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environ),
        )
    except OSError as error:
        raise AgentFailed(f"{argv[0]} cannot be started: {error.strerror}.", hint="Run clew doctor.") from error
    try:
        async with asyncio.timeout(PROBE_S):
            output, _ = await process.communicate()
    except BaseException as error:
        # A cancel also ends the process: else the event loop warns about a lost child when it closes.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # Process.kill may reap the process, which is the loop's task
        await ended(process)
        if not isinstance(error, TimeoutError):
            raise
        raise AgentFailed(
            f"{' '.join(argv)} did not answer within {PROBE_S:.0f} s.", hint="Run clew doctor."
        ) from error
    return output.decode("utf-8", "replace")
