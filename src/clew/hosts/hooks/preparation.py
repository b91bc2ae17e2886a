"""Makes the work tree of a hook's job, or updates it, before the job's first run. Each session key has its own."""

from __future__ import annotations

import logging

from clew.core.hooks.hook import Update, split_key
from clew.core.hooks.settings import HookSettings
from clew.core.jobs.job import Job
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.git.worktrees.worktrees import WorkTrees

log = logging.getLogger("clew.hosts.hooks.preparation")


class WorkTreePreparation:
    """Implements `JobPreparation` of the jobs host for hooks."""

    def __init__(self, engine: Engine, settings: HookSettings, trees: WorkTrees) -> None:
        self._engine = engine
        self._settings = settings
        self._trees = trees

    async def prepare(self, job: Job) -> None:
        purpose = await self._engine.store.call(lambda store: store.hooks.job(job.id))
        if purpose is None:
            return
        _, name, _ = split_key(purpose.key)
        repo = self._settings.repo(name)
        if repo is None:
            raise UsageError(
                f"The settings no longer have the repository {name}.", hint="See hooks.repos in clew.toml."
            )
        tree = await self._trees.open(
            repo.path,
            purpose.key,
            branch=purpose.branch,
            start=f"{repo.remote}/{repo.branch}" if repo.branch else None,
            remote=repo.remote,
            fetch=purpose.fetch_ref,
            update=Update(purpose.tree_update),
        )
        for note in tree.notes:
            log.info("%s: %s", purpose.key, note)
