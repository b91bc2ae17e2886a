"""Writes the state file of a pair from the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clew.core.pairs.pair import PairPart
from clew.hosts.pairs import folder, state
from clew.hosts.pairs.live import sessions_of
from clew.store.store import Store


def saved_pair(store: Store, pair_id: str) -> state.SavedPair:
    pair = store.pairs.require(pair_id)
    return state.SavedPair(
        pair,
        tuple(store.pairs.rounds(pair_id)),
        {part: store.turns.history(pair.thread_of(part)) for part in PairPart},
        {part: sessions_of(store, pair.thread_of(part)) for part in PairPart},
    )


def write(whole: state.SavedPair, environ: Mapping[str, str]) -> Path:
    """Writes the state file, with secrets blanked. Raises OSError."""
    return folder.write(whole.pair.cwd, whole.pair.id, state.state_json(whole, environ))


def not_written(path: Path, error: OSError) -> str:
    """A message for the user: the file was not written, and why."""
    why = f"{error.filename} is not a folder" if isinstance(error, FileExistsError) else error.strerror
    return f"{path} was not written: {why}"
