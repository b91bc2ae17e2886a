"""The prompt for an agent whose work was interrupted: by a usage limit, a time-out or a lost machine."""

from __future__ import annotations

CONTINUE = (
    "You were cut off while you worked on the task that you were given last in this conversation. Go on with it where "
    "you stopped: look at what is done already, do not do it again, and finish the rest. Then answer as that task asks."
)
