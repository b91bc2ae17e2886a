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


class Trust(StrEnum):
    """Whose agent settings, hooks and MCP servers may load. A repository's own hooks run code."""

    USER = "user"  # the user's own only
    PROJECT = "project"  # the work directory's as well


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
    created_at: float = 0.0
    updated_at: float = 0.0


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


def name_from(prompt: str) -> str:
    """A short name out of the prompt's first words; the store makes it unique."""
    words = re.findall(r"[a-z0-9]+", prompt.lower())[:4]
    return "-".join(words)[:40].strip("-") or "thread"
