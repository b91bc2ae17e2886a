"""What the engine is given from outside: it reads no environment, no home directory and no clock by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from clew.core.decision import Policy
from clew.core.record import Record
from clew.core.rules.rules import FileTree, RulesSource
from clew.core.runs.run import Owner

DEFAULT_POLICY = Policy()


def new_id() -> str:
    return os.urandom(16).hex()


def new_uuid() -> str:
    """A random UUID (version 4). The module `uuid` is not used because its import slows down the start."""
    bits = (int.from_bytes(os.urandom(16)) & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62)
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class AgentSettings(Record):
    path: str | None = None  # the path of the binary; None: search for it
    model: str | None = None  # used if neither the request nor the thread names a model


class EngineSettings(Record):
    policy: Policy = DEFAULT_POLICY
    agents: Mapping[str, AgentSettings] = MappingProxyType({})
    max_agents: int = 4  # agents that run at once on this machine; each takes about 300 MB
    timeout_s: float | None = 1800.0  # wall-clock time of a run, without the time that it waits for a person
    idle_s: float | None = 900.0  # an agent that writes nothing for this long is stopped
    lease_s: float = 30.0  # a holder on another machine that sends no heartbeat for this long is dead
    batch_s: float = 0.05  # how long events that are no change of state may wait until they are stored together
    poll_s: float = 0.15  # how often a waiting run checks if it may start, and a running one if it is cancelled
    interrupt_s: float = 3.0  # how long an agent may take to stop by itself before it is ended
    grace_s: float = 2.0  # the time between SIGTERM and SIGKILL
    exit_s: float = 10.0  # how long an agent may take to exit after its result
    warm_answer_s: float = 5.0  # how long an agent that was kept may take to begin with its next prompt
    warm_ahead: bool = True  # whether an agent may be started before its thread's next prompt is there
    warm_keys: bool = False  # whether an agent may be kept that was started with a credential in its environment
    hidden: tuple[str, ...] = ()  # Clew's own files, as absolute paths: no agent's tools should read them
    rules: bool = True  # whether agents are shown the project's rules where the project is not trusted
    rules_dir: str = ""  # where copies of rules are given to agents, as an absolute path; "": nowhere
    store_retry_s: float = 30.0  # how long a run retries an unavailable store
    images: Path | None = None  # the folder of the prompts' images; None: no prompt can have any


# Takes an environment and a work directory. Returns an environment in which git runs no command that the settings of
# the directory's repository name. Raises UsageError if these commands cannot be switched off.
Guard = Callable[[Mapping[str, str], str], Awaitable[dict[str, str]]]


class RuntimeContext(Record):
    """The engine's process: its environment, identity, clock and source of ids. The composition root provides it."""

    environ: Mapping[str, str]
    owner: Owner
    guard: Guard  # applied to agents' environments
    commit_files: Callable[[RulesSource], FileTree] | None = None  # reads the rules of a commit
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id
    new_uuid: Callable[[], str] = new_uuid
