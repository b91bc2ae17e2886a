"""Every error that Clew raises on purpose, by who must act.

    ClewError
    ├── UsageError           you: what was asked cannot be done as asked             exit 2
    │   ├── NotFound         … names a thread, a turn or a run that is not there
    │   ├── Conflict         … changes what has gone on, or is over, in the meantime
    │   ├── ConfigError      … a setting that does not parse or does not exist
    │   └── SecretFound      … would take a secret along (`secrets`)
    ├── AgentError           the agent's side
    │   ├── AgentMissing     no binary found                                         exit 3
    │   ├── AuthFailed       the agent is not logged in, or its key is refused       exit 4
    │   ├── UsageLimit       the account's limit is reached (`resets_at`)            exit 5
    │   ├── BillingFailed    the account has nothing left to pay with                exit 10
    │   ├── TimedOut         our wall-clock or idle limit ended it                   exit 6
    │   ├── Cancelled        someone stopped it                                      exit 7
    │   └── AgentFailed      anything else: no answer came                           exit 1
    │       └── WrongModel   … because the model does not exist or may not be used
    ├── Busy                 another run holds the thread, and you would not wait    exit 8
    └── StoreError           the database: unreadable, read-only, full, too new      exit 9

Errors carry fields, not prose to match: `message` is the one line for a person, `hint` says what to do next. The CLI
maps `exit_code`, the server maps the class; neither has rules of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ClewError(Exception):
    """Base of all: one line of `message`, and a `hint` that says what to do."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ClewError):
    code = "usage"
    exit_code = 2


class NotFound(UsageError):
    code = "not_found"


class Conflict(UsageError):
    code = "conflict"


class ConfigError(UsageError):
    code = "config"


class SecretFound(UsageError):
    """What would leave holds secrets; `secrets` says of which kind and where, and not what they are."""

    code = "secret_found"

    def __init__(self, message: str, *, hint: str | None = None, secrets: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message, hint=hint)
        self.secrets = list(secrets)


class AgentError(ClewError):
    """Something on the agent's side; `stderr_tail` holds its last words, if it had any."""

    code = "agent"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        exit_status: int | None = None,
        stderr_tail: str = "",
        resets_at: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_status = exit_status  # the agent process's own, when it ended by itself
        self.stderr_tail = stderr_tail
        self.resets_at = resets_at  # epoch seconds, for a usage limit that says when


class AgentMissing(AgentError):
    code = "agent_missing"
    exit_code = 3


class AuthFailed(AgentError):
    code = "auth"
    exit_code = 4


class UsageLimit(AgentError):
    code = "usage_limit"
    exit_code = 5


class BillingFailed(AgentError):
    code = "billing"
    exit_code = 10


class TimedOut(AgentError):
    code = "timed_out"
    exit_code = 6


class Cancelled(AgentError):
    code = "cancelled"
    exit_code = 7


class AgentFailed(AgentError):
    code = "failed"
    exit_code = 1


class WrongModel(AgentFailed):
    code = "wrong_model"


class Busy(ClewError):
    """Another run holds the thread; `run_id` names it."""

    code = "busy"
    exit_code = 8

    def __init__(self, message: str, *, hint: str | None = None, run_id: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.run_id = run_id


class StoreError(ClewError):
    """The database cannot do it; `kind` is one of locked, read_only, full, corrupt, too_new, unreachable, lost."""

    code = "store"
    exit_code = 9

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        hint: str | None = None,
        passing: bool = False,
        in_doubt: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.passing = passing  # nothing was written, and another try may fare better: a server that is restarted
        self.in_doubt = in_doubt  # the connection broke in the very commit: it may be written, or not
