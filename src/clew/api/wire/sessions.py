"""The agents' own sessions."""

from __future__ import annotations

from typing import Annotated

from clew.api.wire.failures import Failure
from clew.api.wire.operations import Operation
from clew.api.wire.shape import Doc, Shape, Time
from clew.api.wire.threads import Thread


class AgentSession(Shape):
    """A session that an agent's own CLI or Clew started, as far as the beginning of its file describes it."""

    id: str
    agent: str
    cwd: str | None
    first_words: str
    changed_at: Time
    size_bytes: int
    file: str
    thread: Annotated[str | None, Doc("The name of the thread that owns it")]


class AgentSessionList(Shape):
    items: list[AgentSession]
    more: Annotated[bool, Doc("There are older ones")]


class Latest(Shape):
    """What a person would continue in a directory."""

    thread: Annotated[Thread | None, Doc("The thread last used there, or else in the repository that contains it")]
    session: Annotated[AgentSession | None, Doc("Without a thread: the newest session of a plain CLI there")]


class AdoptedSession(AgentSession):
    """A session that was to become a thread; in a dry run, that would."""

    adopted: bool
    turns: int
    why: Annotated[str | None, Doc("Why it was not adopted")]


class Adoption(Shape):
    """What became of the sessions that were chosen."""

    items: list[AdoptedSession]
    errors: Annotated[list[Failure], Doc("Sessions that were not found, or whose thread is in use")]


class AdoptOperation(Operation):
    """An adoption that was started."""

    result: Adoption | None  # type: ignore[assignment]  # the same, described in more detail
