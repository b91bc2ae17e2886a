"""Counts of the whole store, for whoever watches it from outside."""

from __future__ import annotations

from clew.store.database import Database
from clew.store.records import Tally, each, tally_from


class Tallies(Database):
    def tallies(self) -> list[Tally]:
        """What all ended runs came to, by kind of thread, agent, resumed or why not, and outcome."""
        return each(tally_from, self._all("tallies"))

    def count_live_runs(self) -> int:
        """Those that are queued, running or waiting."""
        row = self._one("count_live_runs")
        return int(row["n"]) if row is not None else 0

    def count_jobs(self) -> dict[str, int]:
        """By status; one that no job has is left out."""
        return {str(row["status"]): int(row["n"]) for row in self._all("count_jobs")}
