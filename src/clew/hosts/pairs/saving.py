"""The state file of a pair, written from what the store has of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from clew.core.pairs.pair import PairPart
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.pairs import state as pair_state
from clew.hosts.pairs.live import sessions_of
from clew.store.store import Store


def iso(at: float | None) -> str | None:
    if at is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"


def saved_pair(store: Store, pair_id: str) -> pair_state.SavedPair:
    pair = store.pairs.require(pair_id)
    return pair_state.SavedPair(
        pair,
        tuple(store.pairs.rounds(pair_id)),
        {part: store.turns.history(pair.thread_of(part)) for part in PairPart},
        {part: sessions_of(store, pair.thread_of(part)) for part in PairPart},
    )


def write(whole: pair_state.SavedPair, environ: Mapping[str, str]) -> Path:
    """Raises OSError."""
    return pair_folder.write(whole.pair.cwd, whole.pair.id, pair_state.worded(whole, environ, iso))


def not_written(path: Path, error: OSError) -> str:
    """For a person."""
    why = f"{error.filename} is no folder" if isinstance(error, FileExistsError) else error.strerror
    return f"{path} was not written: {why}"
