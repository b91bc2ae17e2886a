"""What an agent is told that was cut off in the midst of its work: by a usage limit, a time-out, a lost machine."""

from __future__ import annotations

CONTINUE = (
    "You were cut off while you worked on the task that you were given last in this conversation. Go on with it where "
    "you stopped: look at what is done already, do not do it again, and finish the rest. Then answer as that task asks."
)
