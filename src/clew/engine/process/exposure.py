"""Finds the agents that can read Clew's own folder. Each finding is a line of `clew doctor` that says what to do."""

from __future__ import annotations

from collections.abc import Iterable

from clew.agents.adapter import PathProtection
from clew.core.hooks.settings import HookSettings
from clew.core.thread import Permissions
from clew.engine.engine import Engine
from clew.engine.process import namespaces

WHAT = "Clew's own folder (the database, the daemon's token)"
RUNS = f"runs commands as you, and can read {WHAT}"
OR_ANOTHER_USER = "or run Clew's agents as another user"


async def risks(engine: Engine, agents: Iterable[str], permissions: str, hooks: HookSettings) -> list[str]:
    """One line for each risk. `permissions` are those that a new thread gets."""
    if not engine.settings.hidden:
        return [f"hide_home is off, so agents can read {WHAT}. Set hide_home = true."]
    found = []
    for name in agents:
        can = await engine.abilities(name, engine.find(name))
        hiding = engine.adapter(name).path_protection(can, Permissions.READ_ONLY)
        if hiding is PathProtection.NONE:
            found.append(f"this {name} cannot be kept from reading {WHAT}. Update it.")
        elif hiding is PathProtection.SANDBOX and not await namespaces.available():
            found.append(
                f"{name}'s sandbox cannot be made here, so it runs no command but under permissions all, and reads "
                f"{WHAT} then. Allow unprivileged user namespaces, or run it as another user."
            )
    if permissions == Permissions.ALL:
        found.append(f"with permissions all an agent {RUNS}. Set permissions to ask or edits, {OR_ANOTHER_USER}.")
    return [*found, *_of_hooks(hooks), *await _of_threads(engine)]


def _of_hooks(hooks: HookSettings) -> list[str]:
    publishing = {rule.agent for rule in hooks.rules if rule.comment}
    return [
        f"hooks.agents.{agent.name} has permissions all, so it {RUNS}"
        + ("; a rule with comment = true publishes what it answers" if agent.name in publishing else "")
        + f". Set its permissions to edits or read-only, {OR_ANOTHER_USER}."
        for agent in hooks.agents
        if agent.permissions is Permissions.ALL
    ]


async def _of_threads(engine: Engine) -> list[str]:
    number, names = await engine.store.call(lambda store: store.threads.with_permissions(Permissions.ALL))
    if not number:
        return []
    who = f"the thread {names[0]} has" if number == 1 else f"{number} threads have"
    those = "" if number == 1 else f" ({', '.join(names)}{', …' if number > len(names) else ''})"
    change = "Change that with clew threads set NAME --permissions ask"
    return [f"{who} permissions all{those}: an agent there {RUNS}. {change}, {OR_ANOTHER_USER}."]
