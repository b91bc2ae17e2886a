"""A job's files between its runs: kept as checkpoints, and compared before it goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from clew.core.jobs.job import Job
from clew.engine.settings import RuntimeContext
from clew.errors import ClewError, Conflict
from clew.git.checkpoints import Checkpoints

log = logging.getLogger("clew.hosts.jobs.jobs")


class FilesChanged(Conflict):
    """The files are not as the job left them, or nobody can tell."""

    def __init__(self, message: str, hint: str, paths: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.paths = tuple(paths)

    @classmethod
    def at(cls, paths: Sequence[str]) -> FilesChanged:
        shown = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        return cls(
            f"Files are not as the job left them: {shown}.",
            "Put them back with clew jobs retry --restore (what is there is saved first), or go on: --keep.",
            paths,
        )


class JobFiles:
    def __init__(self, context: RuntimeContext) -> None:
        self._context = context

    def of(self, cwd: str, job_id: str) -> Checkpoints:
        return Checkpoints(cwd, job_id, self._context.environ, clock=self._context.clock)

    async def check(self, job: Job) -> None:
        """Saves the files after a run whose end nobody saw; raises FilesChanged when somebody else changed them since.

        A checkpoint that cannot be written now (a full disk) is a StoreError: the job waits until it can.
        """
        if not job.checkpoint:
            return
        kept = self.of(job.cwd, job.id)
        if job.run_id is None:
            await kept.save("start")
            return
        if await kept.last() is None:
            if not job.keep_files:
                raise FilesChanged(
                    "The job's checkpoints are not in this repository (any more): nobody can tell whether the files "
                    "are as it left them.",
                    "Look at the files, then go on with them: clew jobs retry --keep.",
                )
            await kept.save("start")
            return
        seen = job.saved_run_id == job.run_id
        difference = await kept.difference()
        conflicts = difference.unmerged
        if seen:
            conflicts = tuple(dict.fromkeys((*difference.unmerged, *difference.changed)))
        if conflicts and not job.keep_files:
            raise FilesChanged.at(conflicts)
        await kept.save("kept" if seen else "cut_off")

    async def save(self, job: Job, why: str) -> None:
        """A checkpoint that cannot be made (a full disk) is no reason to end the job."""
        if not job.checkpoint:
            return
        try:
            await self.of(job.cwd, job.id).save(why)
        except ClewError as error:
            log.warning("no checkpoint of job %s: %s", job.id[:8], error.message)
