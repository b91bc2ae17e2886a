"""A caller's options for one turn.

A surface makes the record once. It reaches the engine as it is, or with the changes that a host makes.
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
    instructions: str | None = None  # the thread's new standing text; "": none; None: unchanged
    fresh_session: bool = False  # this turn uses a fresh session with the whole transcript
    resume: bool | None = None  # overrides the setting `enable_resume`
    timeout_s: float | None = None  # overrides the setting `timeout`
    wait: bool = True  # wait while another run holds the thread; False: raise Busy
    person: Person | None = None  # answers the agent's questions; None: no person is there
    new_run_id: str | None = None  # the id for the new run; None: a random one
    lasting: bool = False  # a daemon's run: while queued it outlives the process; anyone may answer its questions
    expand: bool = False  # the user typed this prompt: `@path` and `/command` in it stand for files
    known: str = ""  # a text that the prompt repeats and the user did not type: what it mentions is not expanded
    attached: str = ""  # data that was piped in beside the prompt: sent after it as it is, never expanded


NO_OPTIONS = TurnOptions()


class TurnKeywords(TypedDict, total=False):
    """The fields of `TurnOptions` as keyword arguments of the Python API."""

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
    expand: bool
    known: str
    attached: str
