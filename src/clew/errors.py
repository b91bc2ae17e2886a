"""Every error that Clew raises on purpose, by its cause.

    ClewError
    ├── UsageError           the request is not valid, or not possible now           exit 2
    │   ├── NotFound         it names a thread, a turn or a run that does not exist
    │   ├── Conflict         what it would change has changed or ended in the meantime
    │   ├── ConfigError      a setting cannot be parsed, or does not exist
    │   └── SecretFound      the data to be sent contains secrets (`secrets`)
    ├── AgentError           the agent failed
    │   ├── AgentMissing     its binary was not found                                exit 3
    │   ├── AuthFailed       it is not logged in, or its key was refused             exit 4
    │   ├── UsageLimit       the account's limit is reached (`resets_at`)            exit 5
    │   ├── BillingFailed    the account has no credit left                          exit 10
    │   ├── TimedOut         Clew's total or idle time limit ended the run           exit 6
    │   ├── Cancelled        somebody stopped the run                                exit 7
    │   └── AgentFailed      anything else: there was no answer                      exit 1
    │       └── WrongModel   the model does not exist, or may not be used
    ├── Busy                 another run holds the thread, and waiting was refused   exit 8
    └── StoreError           the database: unreadable, read-only, full, too new      exit 9

Errors have fields, so that no program has to match their text: `message` is one line for the user, `hint` says what to
do next. The CLI uses `exit_code`, and the server maps the class to a status; neither has rules of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ClewError(Exception):
    """The base class: `message` is one line, `hint` says what to do."""

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
    """`secrets` lists the kind and the place of each, but not the secret itself."""

    code = "secret_found"

    def __init__(self, message: str, *, hint: str | None = None, secrets: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message, hint=hint)
        self.secrets = list(secrets)


class AgentError(ClewError):
    """`stderr_tail` holds the last lines of the agent's stderr, if there were any."""

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
        self.exit_status = exit_status  # the exit status of the agent's process, if it ended by itself
        self.stderr_tail = stderr_tail
        self.resets_at = resets_at  # when the usage limit resets, in epoch seconds, if the agent says so


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
    """`run_id` names the run that holds the thread."""

    code = "busy"
    exit_code = 8

    def __init__(self, message: str, *, hint: str | None = None, run_id: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.run_id = run_id


class StoreError(ClewError):
    """`kind` is one of locked, read_only, full, corrupt, too_new, unreachable, lost."""

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
        self.passing = passing  # nothing was written, and a retry may succeed: perhaps the server is restarting
        self.in_doubt = in_doubt  # the connection broke during the commit, so the data may have been written or not
