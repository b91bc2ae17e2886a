"""Steps that must not stop halfway when the task that carries them out is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def finish(step: Awaitable[T]) -> T:
    """Carries out a step that must not stop halfway. If the task is cancelled meanwhile, the step is still finished,
    and its result is returned. `is_cancelled` then says that nothing else should be begun."""
    task = asyncio.ensure_future(step)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:  # perhaps not the first one
            if task.cancelled():
                raise
        except BaseException:  # noqa: BLE001 - the step's own error, which `result` raises
            break
    return task.result()


def is_cancelled() -> bool:
    """Whether somebody has asked the current task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
