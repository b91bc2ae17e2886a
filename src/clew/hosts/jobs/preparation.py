"""What must be ready before an agent works on a job: an interface, because each kind of job has its own needs."""

from __future__ import annotations

from typing import Protocol

from clew.core.jobs.job import Job
from clew.core.rules.rules import RulesSource


class JobPreparation(Protocol):
    async def prepare(self, job: Job) -> None:
        """Makes the job's directory ready: before its first run, and again when the directory is gone.

        A worker may die at any point of it, so it must be idempotent. A ClewError ends the job with its message.
        """

    async def rules_of(self, job: Job) -> RulesSource | None:
        """Whose rules the job's agent is shown; None: those of the job's directory."""
