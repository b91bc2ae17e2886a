"""Long calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from clew.api.wire.failures import Failure as Failure
from clew.api.wire.shape import Doc, Shape, Time


class FoundSecret(Shape):
    """A secret, without the secret itself."""

    kind: Annotated[str, Doc("What it is", example="GitHub token")]
    where: Annotated[str, Doc("Where it is", example="turn 3")]
    turn: Annotated[str | None, Doc("The id of the turn, if it is in one")]
    count: int


class OperationFailure(Failure):
    secrets: Annotated[list[FoundSecret], Doc("With `secret_found`: the kind and the place of each secret")]


class OperationFile(Shape):
    """A file that the operation made."""

    name: str
    media_type: str
    size_bytes: int
    address: Annotated[str, Doc("Where to download it")]


class Operation(Shape):
    """A long call, such as an export or a push."""

    id: str
    kind: Annotated[str, Doc("export, import, push, pull, replay, …")]
    subjects: Annotated[list[str], Doc("What it works on")]
    status: Literal["running", "done", "failed", "cancelled"]
    last_seq: Annotated[int, Doc("The number of its newest event")]
    message: Annotated[str, Doc("Its newest progress")]
    error: OperationFailure | None
    result: Annotated[
        dict[str, Any] | None,
        Doc("When it is done; the call that started it says what it holds, and whether it has one if it fails"),
    ]
    file: OperationFile | None
    started_at: Time
    ended_at: Time | None


class OperationList(Shape):
    items: list[Operation]


class OperationEvent(Shape):
    """A step of an operation; `ended` is the last one."""

    seq: int
    at: Time
    kind: Literal["progress", "warning", "ended"]
    message: str
    done: int | None
    total: int | None
    data: dict[str, Any] | None
