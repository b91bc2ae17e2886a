"""Jobs and workers, as rows and back."""

from __future__ import annotations

import json
from typing import NamedTuple

from clew.core.jobs.job import Job, JobStatus, Limits, ProgressMarker, StartMode
from clew.core.runs.run import Owner
from clew.core.thread import Permissions
from clew.store.records import Row, dumps, flat, from_columns, record_from


class StoredWorker(NamedTuple):
    """A process that runs jobs, with its last heartbeat."""

    id: str
    owner: Owner
    concurrency: int
    started_at: float
    heartbeat_at: float
    stopped_at: float | None
    hooks_only: bool = False  # it runs only jobs of hooks


def job_row(job: Job) -> Row:
    return {
        **flat(job, without=("start_mode", "limits", "conflicts", "allowed_tools")),
        "wish": None if job.start_mode is None else job.start_mode.value,
        "allowed_tools": dumps(list(job.allowed_tools)),
        "limits": dumps(job.limits.as_dict()),
        "conflicts": dumps(list(job.conflicts)),
    }


def job_from(row: Row) -> Job:
    return from_columns(
        Job,
        row,
        permissions=Permissions(row["permissions"]),
        status=JobStatus(row["status"]),
        start_mode=None if row["wish"] is None else StartMode(row["wish"]),
        limits=record_from(Limits, json.loads(row["limits"])),
        checkpoint=bool(row["checkpoint"]),
        keep_files=bool(row["keep_files"]),
        cancel_requested=bool(row["cancel_requested"]),
        conflicts=tuple(json.loads(row["conflicts"])),
        allowed_tools=tuple(json.loads(row["allowed_tools"])),
    )


def worker_from(row: Row) -> StoredWorker:
    owner = Owner(row["host"], row["pid"], row["pid_started"])
    return from_columns(StoredWorker, row, owner=owner, hooks_only=bool(row["hooks_only"]))


def marker_from(row: Row) -> ProgressMarker:
    body = {} if row["body"] is None else json.loads(row["body"])
    return ProgressMarker(row["n"], row["at"], str(body.get("text", "")), row["run_id"], row["message_id"] or None)
