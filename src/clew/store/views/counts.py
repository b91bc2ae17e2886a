"""Counts of the whole store, for monitoring."""

from __future__ import annotations

from clew.store.database.database import Database
from clew.store.records import RunTotals, each, run_totals_from


class Counts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def by_outcome(self) -> list[RunTotals]:
        """The sums over all ended runs, by kind of thread, agent, whether resumed, the reason if not, and outcome."""
        return each(run_totals_from, self._database.all("run_totals"))

    def live_runs(self) -> int:
        """The number of runs that are queued, running or waiting."""
        return self._database.number("count_live_runs")

    def jobs(self) -> dict[str, int]:
        """The number of jobs by status, without statuses that no job has."""
        return {str(row["status"]): int(row["n"]) for row in self._database.all("count_jobs")}
