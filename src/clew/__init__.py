"""Clew keeps the thread of a conversation with a coding agent: cheaply when it can, correctly always.

Names are imported when they are first used, so that `import clew` and the command line start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing and the errors would take longer to load than what hands a command over to a resident
if TYPE_CHECKING:
    from clew.api.client import Answered as Answered
    from clew.api.client import Client as Client
    from clew.api.client import Reply as Reply
    from clew.api.client import Run as Run
    from clew.api.client import Thread as Thread
    from clew.api.client import open as open
    from clew.core.costs.usage import Usage as Usage
    from clew.core.explanation import Explanation as Explanation
    from clew.core.history import Turn as Turn
    from clew.core.hooks.hook import session_key as session_key
    from clew.core.images import ImageContent as ImageContent
    from clew.core.runs.events import AgentRetried as AgentRetried
    from clew.core.runs.events import AttemptStarted as AttemptStarted
    from clew.core.runs.events import Compacted as Compacted
    from clew.core.runs.events import Event as Event
    from clew.core.runs.events import FellBack as FellBack
    from clew.core.runs.events import MessageSaid as MessageSaid
    from clew.core.runs.events import QuestionAnswered as QuestionAnswered
    from clew.core.runs.events import QuestionAsked as QuestionAsked
    from clew.core.runs.events import QuestionWithdrawn as QuestionWithdrawn
    from clew.core.runs.events import RunEnded as RunEnded
    from clew.core.runs.events import RunQueued as RunQueued
    from clew.core.runs.events import SessionStarted as SessionStarted
    from clew.core.runs.events import TextStreamed as TextStreamed
    from clew.core.runs.events import TextWithdrawn as TextWithdrawn
    from clew.core.runs.events import TokensCounted as TokensCounted
    from clew.core.runs.events import ToolFinished as ToolFinished
    from clew.core.runs.events import ToolStarted as ToolStarted
    from clew.core.runs.events import Warned as Warned
    from clew.core.runs.options import Person as Person
    from clew.core.runs.permissions import Answer as Answer
    from clew.core.runs.permissions import Scope as Scope
    from clew.core.runs.question import Question as Question
    from clew.core.thread import Permissions as Permissions
    from clew.core.thread import Trust as Trust
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

_NAMES_OF = {
    "clew.api.client": ("Answered", "Client", "Reply", "Run", "Thread", "open"),
    "clew.core.runs.events": (
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
    "clew.core.explanation": ("Explanation",),
    "clew.core.history": ("Turn",),
    "clew.core.hooks.hook": ("session_key",),
    "clew.core.images": ("ImageContent",),
    "clew.core.runs.permissions": ("Answer", "Scope"),
    "clew.core.runs.question": ("Question",),
    "clew.core.thread": ("Permissions", "Trust"),
    "clew.core.runs.options": ("Person",),
    "clew.core.costs.usage": ("Usage",),
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
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

__all__ = [*sorted(_MODULE_OF), "__version__"]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return __all__
