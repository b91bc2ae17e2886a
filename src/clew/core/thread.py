"""A thread's own record: who answers in it, where, and what the agent may do there."""

from __future__ import annotations

import re
from enum import StrEnum

from clew.core.history import Visibility
from clew.core.ids import ThreadId
from clew.core.record import Record


class Permissions(StrEnum):
    """What the agent may do without asking."""

    ASK = "ask"  # nothing: requests go to a person, and are declined where there is none
    EDITS = "edits"  # edit files in the work directory
    READ_ONLY = "read-only"  # a fixed list of reading tools, and no others
    ALL = "all"  # everything


WIDTH = (Permissions.READ_ONLY, Permissions.ASK, Permissions.EDITS, Permissions.ALL)  # each allows more than the last


def narrower(one: Permissions, other: Permissions) -> Permissions:
    return min(one, other, key=WIDTH.index)


class Trust(StrEnum):
    """Whose agent settings, hooks and MCP servers may load. A repository's own hooks run code."""

    USER = "user"  # the user's own only
    PROJECT = "project"  # the work directory's as well


class How(StrEnum):
    """By what a thread came of others."""

    FORK = "fork"
    REPLAY = "replay"
    MERGE = "merge"


class Source(Record):
    """A thread that another came of, as it was called then. It may be gone by now."""

    id: ThreadId
    name: str


class Origin(Record):
    """How a thread came of others."""

    how: How
    of: tuple[Source, ...]
    round: int | None = None  # the last one that it took along; None: all of them


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
    standing: str | None = None  # text that holds for the whole thread: a skill, a rubric, a memory
    kind: str = "chat"
    origin: Origin | None = None  # None: it was begun by itself
    created_at: float = 0.0
    updated_at: float = 0.0


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")
KINDS = ("chat", "pair", "review", "job", "hook")  # who asks in it


def name_from(prompt: str) -> str:
    """A short name out of the prompt's first words; the store makes it unique."""
    words = re.findall(r"[a-z0-9]+", prompt.lower())[:4]
    return "-".join(words)[:40].strip("-") or "thread"


def is_word(value: str) -> bool:
    """It may go on a command line: as one word, and as no option."""
    return value.isprintable() and not value.startswith("-")
