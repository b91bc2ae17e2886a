"""A job's files between its runs: they are saved as checkpoints, and compared before the job continues."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from clew.core.ids import SHORT_ID
from clew.core.jobs.job import Job
from clew.engine.settings import RuntimeContext
from clew.errors import ClewError, Conflict
from clew.git.checkpoints import Checkpoints

log = logging.getLogger("clew.hosts.jobs.jobs")


class FilesChanged(Conflict):
    """The files changed while the job did not run, or it is not known whether they did."""

    def __init__(self, message: str, hint: str, paths: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.paths = tuple(paths)


class JobFiles:
    def __init__(self, context: RuntimeContext) -> None:
        self._context = context

    def of(self, cwd: str, job_id: str) -> Checkpoints:
        return Checkpoints(cwd, job_id, self._context.environ, clock=self._context.clock)

    async def check(self, job: Job) -> None:
        """Saves the files before a run. Raises FilesChanged if they have changed since the job's last run.

        If the last run was cut off, its changes are saved as the job's own. If a checkpoint cannot be written (a full
        disk), this raises StoreError, and the job waits until one can be written.
        """
        if not job.checkpoint:
            return
        checkpoints = self.of(job.cwd, job.id)
        is_first = job.run_id is None
        if is_first or await checkpoints.last() is None:
            if not is_first and not job.keep_files:
                raise FilesChanged(
                    "This repository does not have the job's checkpoints, so Clew cannot tell whether the files are as "
                    "the job left them.",
                    "Check the files, then accept them with clew jobs retry --keep.",
                )
            await checkpoints.save("start")
            return
        is_concluded = job.saved_run_id == job.run_id
        difference = await checkpoints.difference()
        conflicts = difference.unmerged
        if is_concluded:
            conflicts = tuple(dict.fromkeys((*difference.unmerged, *difference.changed)))
        if conflicts and not job.keep_files:
            shown = ", ".join(conflicts[:5]) + (f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else "")
            raise FilesChanged(
                f"Files are not as the job left them: {shown}.",
                "clew jobs retry --restore restores them (and saves the present files first); --keep accepts them.",
                conflicts,
            )
        await checkpoints.save("kept" if is_concluded else "cut_off")

    async def save(self, job: Job, why: str) -> None:
        """Saves a checkpoint. If that fails (a full disk), logs a warning, and the job continues without it."""
        if not job.checkpoint:
            return
        try:
            await self.of(job.cwd, job.id).save(why)
        except ClewError as error:
            log.warning("no checkpoint of job %s: %s", job.id[:SHORT_ID], error.message)
