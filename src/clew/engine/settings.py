"""What the engine is told from outside: it reads no environment, no home directory and no clock of its own accord."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from clew.core.decision import Policy
from clew.core.events import QuestionAsked
from clew.core.ids import TurnId
from clew.core.permissions import Answer
from clew.core.run import Owner
from clew.core.thread import Thread

Person = Callable[[QuestionAsked], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    path: str | None = None  # of the binary; None: looked for
    model: str | None = None  # when neither the request nor the thread names one


@dataclass(frozen=True, slots=True)
class EngineSettings:
    policy: Policy = field(default_factory=Policy)
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)
    max_agents: int = 4  # running at once on this machine; each takes about 300 MB
    timeout_s: float | None = 1800.0  # wall clock of a run; waiting for a person does not count
    idle_s: float | None = 900.0  # nothing came from the agent for so long
    lease_s: float = 30.0  # a holder that has not been heard of for so long is gone
    poll_s: float = 0.15  # how often a waiting run looks, and a running one looks for a cancel
    interrupt_s: float = 3.0  # what an agent gets to stop by itself before it is ended
    grace_s: float = 2.0  # between TERM and KILL
    exit_s: float = 10.0  # what an agent gets to exit after its result


@dataclass(frozen=True, slots=True)
class Surroundings:
    """This process and its world, handed in by the composition root."""

    environ: Mapping[str, str]
    owner: Owner
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn, as a host asks for it."""

    thread: Thread
    text: str
    agent: str
    model: str | None = None
    standing: str | None = None
    force_fresh: bool = False
    retry_of: TurnId | None = None  # an earlier user turn, asked again; what follows it is archived
    enable_resume: bool | None = None  # over the policy's
    timeout_s: float | None = None  # over the settings'
    wait: bool = True  # for the thread, when another run holds it
    person: Person | None = None  # who answers the agent's questions; None: nobody
