"""Counts of the whole store, for whoever watches it from outside."""

from __future__ import annotations

from clew.store.database.database import Database
from clew.store.records import RunTotals, each, run_totals_from


class Counts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def by_outcome(self) -> list[RunTotals]:
        """What all ended runs came to, by kind of thread, agent, resumed or why not, and outcome."""
        return each(run_totals_from, self._database.all("run_totals"))

    def live_runs(self) -> int:
        """Those that are queued, running or waiting."""
        row = self._database.one("count_live_runs")
        return int(row["n"]) if row is not None else 0

    def jobs(self) -> dict[str, int]:
        """By status; one that no job has is left out."""
        return {str(row["status"]): int(row["n"]) for row in self._database.all("count_jobs")}
