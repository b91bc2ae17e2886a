"""What the engine is given from outside. It reads no environment, no home directory and no clock by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from clew.core.decision import Policy
from clew.core.record import Record
from clew.core.runs.run import Owner

DEFAULT_POLICY = Policy()


def new_id() -> str:
    return os.urandom(16).hex()


def new_uuid() -> str:
    """A random UUID (version 4), without the import of a module that asks the platform for its name."""
    bits = (int.from_bytes(os.urandom(16)) & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62)
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class AgentSettings(Record):
    path: str | None = None  # of the binary; None: it is searched for
    model: str | None = None  # where neither the request nor the thread names one


class EngineSettings(Record):
    policy: Policy = DEFAULT_POLICY
    agents: Mapping[str, AgentSettings] = MappingProxyType({})
    max_agents: int = 4  # at once on this machine; each takes about 300 MB
    timeout_s: float | None = 1800.0  # wall clock of a run, without the time that it waits for a person
    idle_s: float | None = 900.0  # an agent that writes nothing for so long is stopped
    lease_s: float = 30.0  # a holder on another machine that sends no heartbeat for so long is dead
    poll_s: float = 0.15  # how often a waiting run looks whether it may start, and a running one for a cancel
    interrupt_s: float = 3.0  # that an agent gets to stop by itself before it is ended
    grace_s: float = 2.0  # between TERM and KILL
    exit_s: float = 10.0  # that an agent gets to exit after its result
    hidden: tuple[str, ...] = ()  # absolute paths of Clew's own, which no agent's tools should read
    store_retry_s: float = 30.0  # for which a run retries a store that is away


# Takes an environment and a work directory. Returns the environment in which git runs no command that the settings of
# the directory's repository name. Raises UsageError when those cannot be switched off.
Guard = Callable[[Mapping[str, str], str], Awaitable[dict[str, str]]]


class RuntimeContext(Record):
    """What the engine knows of its process: environment, identity, clock and ids. Given by the composition root."""

    environ: Mapping[str, str]
    owner: Owner
    guard: Guard  # for agents' environments
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id
    new_uuid: Callable[[], str] = new_uuid
