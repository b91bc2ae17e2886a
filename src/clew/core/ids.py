"""One type for each kind of id, so that a type checker tells them apart."""

from __future__ import annotations

from typing import NewType

SHORT_ID = 8  # characters of an id that are shown; a command accepts them instead of the whole id

ThreadId = NewType("ThreadId", str)
TurnId = NewType("TurnId", str)
RunId = NewType("RunId", str)
AttemptId = NewType("AttemptId", str)
PinId = NewType("PinId", str)
SessionId = NewType("SessionId", str)
