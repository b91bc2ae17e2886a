"""Fault points: named points in a turn at which a test can make something happen, usually the death of the process.

In production no hook is installed, and a point costs one comparison. The names are part of the testing kit's contract.
`POINTS` lists those that every turn may pass, in order.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "prompt_stored",
    "lease_taken",
    "decided",
    "spawned",
    "prompt_sent",
    "session_started",
    "text_streamed",
    "tool_started",
    "question_asked",
    "result_read",
    "process_ended",
    "outcome_known",
    "outcome_stored",
)
# Passed only if an agent is kept between two turns. Such an agent does not pass `process_ended`.
WARM_POINTS = ("agent_kept", "agent_retired")
# Passed between `decided` and `spawned`, but only if the agent copies a session by a dialog before the turn.
COPY_POINTS = ("copy_started", "copy_made")
# Passed in a process that takes an agent from the daemon before the turn, and gives it back after it.
TAKE_POINTS = ("take_asked", "agent_received", "agent_taken")
KEEP_POINTS = ("agent_released", "keep_asked", "agent_given")

_hook: Callable[[str], None] | None = None


def install(hook: Callable[[str], None] | None) -> None:
    """For tests: `hook` is called with the name of every point that a turn passes."""
    global _hook
    _hook = hook


def passed(point: str) -> None:
    if _hook is not None:
        _hook(point)
