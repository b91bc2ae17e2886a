"""Which agents can read Clew's own folder, and what to do about it: each a line for `clew doctor`."""

from __future__ import annotations

from collections.abc import Iterable

from clew.agents.adapter import Hiding
from clew.core.thread import Permissions
from clew.engine import namespaces
from clew.engine.engine import Engine

WHAT = "Clew's own folder (the database, the daemon's token)"


async def risks(engine: Engine, agents: Iterable[str], permissions: str) -> list[str]:
    """`permissions`: those of a new thread."""
    if not engine.settings.hidden:
        return [f"hide_home is off, so agents can read {WHAT}. Set hide_home = true."]
    found = []
    for name in agents:
        can = await engine.abilities(name, engine.find(name))
        hiding = engine.adapter(name).hides(can, Permissions.READ_ONLY)
        if hiding is Hiding.NOT:
            found.append(f"this {name} cannot be kept from reading {WHAT}. Update it.")
        elif hiding is Hiding.SANDBOX and not await namespaces.available():
            found.append(
                f"{name}'s sandbox cannot be made here, so it runs no command but under permissions all, and reads "
                f"{WHAT} then. Allow unprivileged user namespaces, or run it as another user."
            )
    if permissions == Permissions.ALL:
        found.append(
            f"with permissions all an agent runs commands as you, and can read {WHAT}. "
            "Set permissions to ask or edits, or run Clew's agents as another user."
        )
    return found
