"""What a caller may say about one turn, beside its prompt.

The record is made once, where a surface asks, and reaches the engine unchanged or with what a host decides for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypedDict

from clew.core.record import Record
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer

Person = Callable[[QuestionAsked], Awaitable[Answer]]


class TurnOptions(Record):
    agent: str | None = None  # None: the thread's
    model: str | None = None  # None: the thread's, or the agent's default
    instructions: str | None = None  # the thread's standing text from now on; "": none; None: as it is
    fresh_session: bool = False  # a fresh session with the whole transcript, this once
    resume: bool | None = None  # over the setting `enable_resume`
    timeout_s: float | None = None  # over the setting `timeout`
    wait: bool = True  # for the thread, when another run holds it; False: Busy is raised
    person: Person | None = None  # who answers the agent's questions; None: nobody
    new_run_id: str | None = None  # the id that the run is to get; None: a new one
    lasting: bool = False  # a daemon's: queued, it outlives this process; questions wait for an answer from anywhere


NO_OPTIONS = TurnOptions()


class TurnKeywords(TypedDict, total=False):
    """The same fields as keywords of the Python API."""

    agent: str | None
    model: str | None
    instructions: str | None
    fresh_session: bool
    resume: bool | None
    timeout_s: float | None
    wait: bool
    person: Person | None
    new_run_id: str | None
    lasting: bool
