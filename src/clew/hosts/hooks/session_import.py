"""Adopts the sessions of an old sessions.json: an object of session keys and session ids."""

from __future__ import annotations

from collections.abc import Mapping

from clew.core.hooks.hook import session_key, split_key
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.hosts.hooks.hooks import Hooks
from clew.hosts.hooks.sessions import sessions_in


class ImportedKey(Record):
    """What became of one entry."""

    key: str
    session_id: str | None
    state: str  # adopted, kept, no_file, no_key, unknown_agent, unknown_repo or failed
    why: str | None = None


async def import_sessions(
    engine: Engine, hooks: Hooks, old: Mapping[str, object], *, replace: bool = False, dry_run: bool = False
) -> list[ImportedKey]:
    """`replace`: also adopts a session whose key has one already; else that one is kept."""
    found = sessions_in(old)
    results = [ImportedKey(key, None, "no_key") for key in old if key not in found]
    for key, session_id in found.items():
        results.append(await _import(engine, hooks, key, session_id, replace=replace, dry_run=dry_run))
    return results


async def _import(
    engine: Engine, hooks: Hooks, key: str, session_id: str, *, replace: bool, dry_run: bool
) -> ImportedKey:
    agent, repo, number = split_key(key)
    known, place = hooks.settings.agent(agent), hooks.settings.repo(repo)
    if known is None:
        return ImportedKey(key, session_id, "unknown_agent")
    if place is None:
        return ImportedKey(key, session_id, "unknown_repo")
    key = session_key(agent, place.name, number)  # as the settings spell it
    try:
        if not replace and await hooks.sessions.get(key) is not None:
            return ImportedKey(key, session_id, "kept")
        if dry_run:
            tree = await hooks.trees.path_of(place.path, key)
            has_file = await engine.find_session(known.agent, tree, session_id) is not None
        else:
            has_file = await hooks.sessions.set(key, session_id)
    except ClewError as error:
        return ImportedKey(key, session_id, "failed", error.message)
    return ImportedKey(key, session_id, "adopted" if has_file else "no_file")
