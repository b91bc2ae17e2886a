"""Makes the work tree of a hook's job, or updates it, before the job's first run. Each session key has its own."""

from __future__ import annotations

import logging

from clew.core.hooks.hook import Update, split_key
from clew.core.hooks.settings import HookRepo, HookSettings
from clew.core.jobs.job import Job
from clew.core.rules.rules import RulesSource
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
        repo = self._repo(purpose.key)
        tree = await self._trees.open(
            repo.path,
            purpose.key,
            branch=purpose.branch,
            start=_base(repo),
            remote=repo.remote,
            fetch=purpose.fetch_ref,
            update=Update(purpose.tree_update),
        )
        for note in tree.notes:
            log.info("%s: %s", purpose.key, note)

    async def rules_of(self, job: Job) -> RulesSource | None:
        """The rules of the branch that the repository's work trees start at: anybody may have changed those of a pull
        request. They are read from the repository's own objects, because the agent can change the tree."""
        purpose = await self._engine.store.call(lambda store: store.hooks.job(job.id))
        if purpose is None:
            return None
        try:
            repo = self._repo(purpose.key)
            commit = await self._trees.base(repo.path, start=_base(repo), remote=repo.remote)
        except UsageError as error:
            log.info("%s: no rules: %s", purpose.key, error.message)
            return RulesSource(job.cwd, "")
        return RulesSource(repo.path, commit or "")

    def _repo(self, key: str) -> HookRepo:
        _, name, _ = split_key(key)
        repo = self._settings.repo(name)
        if repo is None:
            raise UsageError(
                f"The settings no longer have the repository {name}.", hint="See hooks.repos in clew.toml."
            )
        return repo


def _base(repo: HookRepo) -> str | None:
    """The branch's whole name: `origin/main` may also be a tag, or the name of another branch."""
    return f"refs/remotes/{repo.remote}/{repo.branch}" if repo.branch else None
