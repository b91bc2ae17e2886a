"""How much memory processes use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

KIB = 1024


def memory_of(pids: Iterable[int]) -> int | None:
    """The bytes that these processes use together; what they share counts once. None: this platform does not tell."""
    parts = [part for pid in pids if (part := _proportional(pid)) is not None]
    return sum(parts) if parts else None


def _proportional(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:")), None)
