"""What the engine is told from outside: it reads no environment, no home directory and no clock of its own accord."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from clew.core.decision import Policy, Reason
from clew.core.events import QuestionAsked
from clew.core.ids import RunId, TurnId
from clew.core.permissions import Answer
from clew.core.question import Question
from clew.core.record import Record
from clew.core.run import Owner
from clew.core.thread import Thread

DEFAULT_POLICY = Policy()


def new_id() -> str:
    return os.urandom(16).hex()


def new_uuid() -> str:
    """A random UUID (version 4), without the import of a module that asks the platform for its name."""
    bits = (int.from_bytes(os.urandom(16)) & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62)
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


Person = Callable[[QuestionAsked], Awaitable[Answer]]


class AgentSettings(Record):
    path: str | None = None  # of the binary; None: looked for
    model: str | None = None  # when neither the request nor the thread names one


class EngineSettings(Record):
    policy: Policy = DEFAULT_POLICY
    agents: Mapping[str, AgentSettings] = MappingProxyType({})
    max_agents: int = 4  # running at once on this machine; each takes about 300 MB
    timeout_s: float | None = 1800.0  # wall clock of a run; waiting for a person does not count
    idle_s: float | None = 900.0  # nothing came from the agent for so long
    lease_s: float = 30.0  # a holder that has not been heard of for so long is gone
    poll_s: float = 0.15  # how often a waiting run looks, and a running one looks for a cancel
    interrupt_s: float = 3.0  # what an agent gets to stop by itself before it is ended
    grace_s: float = 2.0  # between TERM and KILL
    exit_s: float = 10.0  # what an agent gets to exit after its result
    hidden: tuple[str, ...] = ()  # absolute paths, Clew's own, that no agent's tools should read
    patience_s: float = 30.0  # of a run with a store that is away


class Surroundings(Record):
    """This process and its world, handed in by the composition root."""

    environ: Mapping[str, str]
    owner: Owner
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id
    new_uuid: Callable[[], str] = new_uuid


class Slots(Record):
    """Places that runs take while they are going on."""

    prefix: str  # of the leases' keys
    most: int


class Ask(Record):
    """One turn, as a host asks for it."""

    thread: Thread
    text: str
    agent: str
    model: str | None = None
    standing: str | None = None
    full: str | None = None  # what a fresh session is told instead of `text`, …
    full_of: TurnId | None = None  # … or instead of that earlier turn's
    done: str | None = None  # what a fresh session is told beside: the work that the last turns do not speak of
    allowed_tools: tuple[str, ...] = ()  # beyond what the thread's permissions allow
    allowed_by: str = "--permissions"  # what a person would have to change to allow more
    force_fresh: bool = False
    fresh_because: Reason | None = None  # of a forced one: what to say instead
    fork: bool = False  # a resumed session is copied first: whoever else may still hold it can spoil nothing
    retry_of: TurnId | None = None  # an earlier user turn, asked again; what follows it is archived
    enable_resume: bool | None = None  # over the policy's
    max_age_s: float | None = None  # of a session, where the policy has no limit
    any_age: bool = False  # whoever asks has judged the session's age: the policy's limit does not count
    timeout_s: float | None = None  # over the settings'
    not_before: float | None = None  # when a usage limit has reset; its session is not too old then
    continues: RunId | None = None  # the run that met that limit: if nothing else was asked since
    wait: bool = True  # for the thread, when another run holds it
    person: Person | None = None  # who answers the agent's questions; None: nobody
    slots: Slots | None = None  # beside this machine's own: a host's limit over all machines
    answers: Question | None = None  # what this prompt answers: of a run that died with its question open
    run_id: RunId | None = None  # that the run is to get; None: a new one
    lasting: bool = False  # a daemon's: queued, it outlives this process; questions wait for an answer from anywhere
