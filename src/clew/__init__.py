"""Clew keeps the thread of a conversation with a coding agent: cheaply when it can, correctly always.

Names are loaded when they are first used, so that `import clew` and the command line start fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.client import Answered as Answered
    from clew.client import Client as Client
    from clew.client import Reply as Reply
    from clew.client import Run as Run
    from clew.client import Thread as Thread
    from clew.client import open as open
    from clew.core.events import AgentRetried as AgentRetried
    from clew.core.events import AttemptStarted as AttemptStarted
    from clew.core.events import Compacted as Compacted
    from clew.core.events import Event as Event
    from clew.core.events import FellBack as FellBack
    from clew.core.events import MessageSaid as MessageSaid
    from clew.core.events import QuestionAnswered as QuestionAnswered
    from clew.core.events import QuestionAsked as QuestionAsked
    from clew.core.events import QuestionWithdrawn as QuestionWithdrawn
    from clew.core.events import RunEnded as RunEnded
    from clew.core.events import RunQueued as RunQueued
    from clew.core.events import SessionStarted as SessionStarted
    from clew.core.events import TextStreamed as TextStreamed
    from clew.core.events import TextWithdrawn as TextWithdrawn
    from clew.core.events import TokensCounted as TokensCounted
    from clew.core.events import ToolFinished as ToolFinished
    from clew.core.events import ToolStarted as ToolStarted
    from clew.core.events import Warned as Warned
    from clew.core.history import Turn as Turn
    from clew.core.hook import session_key as session_key
    from clew.core.permissions import Answer as Answer
    from clew.core.question import Question as Question
    from clew.core.thread import Permissions as Permissions
    from clew.core.thread import Trust as Trust
    from clew.core.usage import Usage as Usage
    from clew.engine.settings import Person as Person
    from clew.errors import AgentError as AgentError
    from clew.errors import AgentFailed as AgentFailed
    from clew.errors import AgentMissing as AgentMissing
    from clew.errors import AuthFailed as AuthFailed
    from clew.errors import BillingFailed as BillingFailed
    from clew.errors import Busy as Busy
    from clew.errors import Cancelled as Cancelled
    from clew.errors import ClewError as ClewError
    from clew.errors import ConfigError as ConfigError
    from clew.errors import Conflict as Conflict
    from clew.errors import NotFound as NotFound
    from clew.errors import SecretFound as SecretFound
    from clew.errors import StoreError as StoreError
    from clew.errors import TimedOut as TimedOut
    from clew.errors import UsageError as UsageError
    from clew.errors import UsageLimit as UsageLimit
    from clew.errors import WrongModel as WrongModel

__version__ = "0.1.0"

_HOME = {
    "clew.client": ("Answered", "Client", "Reply", "Run", "Thread", "open"),
    "clew.core.events": (
        "AgentRetried",
        "AttemptStarted",
        "Compacted",
        "Event",
        "FellBack",
        "MessageSaid",
        "QuestionAnswered",
        "QuestionAsked",
        "QuestionWithdrawn",
        "RunEnded",
        "RunQueued",
        "SessionStarted",
        "TextStreamed",
        "TextWithdrawn",
        "TokensCounted",
        "ToolFinished",
        "ToolStarted",
        "Warned",
    ),
    "clew.core.history": ("Turn",),
    "clew.core.hook": ("session_key",),
    "clew.core.permissions": ("Answer",),
    "clew.core.question": ("Question",),
    "clew.core.thread": ("Permissions", "Trust"),
    "clew.engine.settings": ("Person",),
    "clew.core.usage": ("Usage",),
    "clew.errors": (
        "AgentError",
        "AgentFailed",
        "AgentMissing",
        "AuthFailed",
        "BillingFailed",
        "Busy",
        "Cancelled",
        "ClewError",
        "ConfigError",
        "Conflict",
        "NotFound",
        "SecretFound",
        "StoreError",
        "TimedOut",
        "UsageError",
        "UsageLimit",
        "WrongModel",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*sorted(_MODULE_OF), "__version__"]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return __all__
