"""A thread's own record: who answers in it, where, and what the agent may do there."""

from __future__ import annotations

import re
from enum import StrEnum

from clew.core.history import Visibility
from clew.core.ids import ThreadId
from clew.core.record import Record
from clew.core.runs.tool_rules import ToolRule


class Permissions(StrEnum):
    """What the agent may do without asking."""

    ASK = "ask"  # nothing: requests go to a person, and are declined if there is nobody to ask
    EDITS = "edits"  # edit files in the work directory
    READ_ONLY = "read-only"  # a fixed list of tools that only read
    ALL = "all"  # everything


NARROWEST_FIRST = (Permissions.READ_ONLY, Permissions.ASK, Permissions.EDITS, Permissions.ALL)


def narrower(one: Permissions, other: Permissions) -> Permissions:
    return min(one, other, key=NARROWEST_FIRST.index)


class Trust(StrEnum):
    """Whose agent settings, hooks and MCP servers may load. A repository's own hooks run code."""

    USER = "user"  # the user's own only
    PROJECT = "project"  # the work directory's as well


class OriginKind(StrEnum):
    """The operation that made a thread from others."""

    FORK = "fork"
    REPLAY = "replay"
    MERGE = "merge"


class SourceThread(Record):
    """A thread from which another was made. It may have been deleted since."""

    id: ThreadId
    name: str  # at that time


class Origin(Record):
    """How a thread was made from others."""

    how: OriginKind
    of: tuple[SourceThread, ...]
    round: int | None = None  # the last round that was copied; None: all rounds


class Thread(Record):
    """The conversation that Clew owns. The launch profile (permissions, trust) is fixed per thread."""

    id: ThreadId
    name: str
    cwd: str  # absolute, links resolved
    agent: str
    model: str | None  # None until a flag, a setting or the first run has named one
    permissions: Permissions = Permissions.ASK
    trust: Trust = Trust.USER
    visibility: Visibility = Visibility.SHARED
    standing: str | None = None  # text that applies to the whole thread: a skill, a rubric, a memory
    kind: str = "chat"
    origin: Origin | None = None  # None: it was not made from another thread
    tool_rules: tuple[ToolRule, ...] = ()  # what a person has allowed for good; for this machine only
    created_at: float = 0.0
    updated_at: float = 0.0


NAME_CHARS = 80
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARS - 1}}}\Z")


class ThreadKind(Record):
    """What is different about the threads of one host."""

    continued_by: str | None = None  # a sentence about the command that continues the thread; None: a new prompt does
    trust_hint: str = "`clew threads set {name} --trust project` loads them from now on"


_RETRY_JOB = "clew jobs retry tries the job again."

# By kind of thread: each host has its own kind.
KINDS: dict[str, ThreadKind] = {
    "chat": ThreadKind(trust_hint=ThreadKind.trust_hint + ", `--trust project` in a new thread"),
    "pair": ThreadKind("clew pair --resume continues the pair."),
    "review": ThreadKind("clew review follow asks for the next round."),
    "job": ThreadKind(_RETRY_JOB, trust_hint="`clew jobs submit --trust project` loads them"),
    "hook": ThreadKind(_RETRY_JOB),
}


def kind_of(thread: Thread) -> ThreadKind:
    """The entry of KINDS, or the default: a host outside of Clew may give its threads a kind of its own."""
    return KINDS.get(thread.kind) or ThreadKind()


def name_from(prompt: str) -> str:
    """A short name from the prompt's first words; the store makes it unique."""
    words = re.findall(r"[a-z0-9]+", prompt.lower())[:4]
    return "-".join(words)[:40].strip("-") or "thread"


def is_safe_argument(value: str) -> bool:
    """Whether the value can be an argument on a command line: it is printable, and is not taken for an option."""
    return value.isprintable() and not value.startswith("-")
