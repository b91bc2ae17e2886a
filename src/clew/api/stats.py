"""The figures of runs by what they were for: the kind of work, the project, the agent, the model, or the day."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.api.thread import choice
from clew.core.costs.savings import Savings, savings_by, total_savings
from clew.core.costs.usage import MONEY_DIGITS, StatRow
from clew.core.durations import DAY_S
from clew.core.record import Record
from clew.system.work_trees import project_of

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.thread import Thread


class Dimension(StrEnum):
    """By what runs are grouped."""

    KIND = "kind"  # of the thread: chat, job, review, hook, pair
    PROJECT = "project"  # the repository of the thread's directory, or the directory where there is none
    AGENT = "agent"
    MODEL = "model"
    DAY = "day"  # on which the run was asked for, in UTC


class StatGroup(Record):
    """The figures of the runs that have one name in common."""

    name: str | None  # None: the model is not known
    savings: Savings

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **figures_json(self.savings)}


class GroupedStats(Record):
    by: Dimension
    groups: tuple[StatGroup, ...]  # the dearest first; days in their order
    total: Savings

    def to_json(self) -> dict[str, Any]:
        """The object that `clew stats --by` prints."""
        return {
            "by": self.by.value,
            "groups": [group.to_json() for group in self.groups],
            "total": figures_json(self.total),
        }


def figures_json(savings: Savings) -> dict[str, Any]:
    return {
        "runs": savings.runs,
        "decided": savings.decided,
        "resumed": savings.resumed,
        "resume_rate": savings.resume_rate,
        "usage": savings.usage.as_dict(),
        "cost_usd": round(savings.cost_usd, MONEY_DIGITS),
        "unpriced_runs": savings.unpriced_runs,
        "transcript_usd": round(savings.transcript_usd, MONEY_DIGITS),
        "saved_usd": round(savings.saved_usd, MONEY_DIGITS),
        "saved_share": savings.saved_share,
        "estimated_runs": savings.estimated_runs,
    }


async def stats_by(
    client: Client, by: Dimension | str, *, thread: Thread | None = None, since: float | None = None
) -> GroupedStats:
    """The figures of all runs, or of a thread's, or of those since that time (epoch seconds), in groups.

    Raises UsageError when `by` is not a Dimension.
    """
    dimension = choice(Dimension, by)
    by_project = dimension is Dimension.PROJECT
    rows = await client.stats(thread=thread, since=since, by_directory=by_project)
    projects = await asyncio.to_thread(_projects, rows) if by_project else {}
    return grouped(rows, dimension, projects)


def _projects(rows: Iterable[StatRow]) -> dict[str | None, str]:
    """By directory: its project. Clew's own work trees belong to the repository that they were made from."""
    return {each: project_of(Path(each)) for each in {row.directory for row in rows} if each is not None}


def grouped(rows: list[StatRow], by: Dimension, projects: dict[str | None, str]) -> GroupedStats:
    keys: dict[Dimension, Callable[[StatRow], str | None]] = {
        Dimension.KIND: lambda row: row.kind,
        Dimension.PROJECT: lambda row: projects.get(row.directory, row.directory),
        Dimension.AGENT: lambda row: row.agent,
        Dimension.MODEL: lambda row: row.model,
        Dimension.DAY: lambda row: datetime.fromtimestamp(row.day * DAY_S, UTC).date().isoformat(),
    }
    groups = [StatGroup(name, savings) for name, savings in savings_by(rows, keys[by]).items()]
    if by is Dimension.DAY:
        groups.sort(key=lambda group: group.name or "")
    else:
        groups.sort(key=lambda group: (-group.savings.cost_usd, -group.savings.runs, group.name or ""))
    return GroupedStats(by, tuple(groups), total_savings(rows))
