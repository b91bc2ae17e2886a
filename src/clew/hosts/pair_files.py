"""The files of a pair's directory when its worker stopped, to tell what somebody else has changed since.

Only in a git work tree: elsewhere nothing is told. Nothing is written there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from clew.core.review import Scope
from clew.engine.changes import Before, Repository
from clew.errors import ClewError
from clew.store.pair_rows import KeptFiles

log = logging.getLogger("clew.hosts.pair")


async def look(cwd: str, environ: Mapping[str, str], run_id: str | None) -> KeptFiles | None:
    """`run_id`: the worker's newest. None: there is nothing to tell by."""
    try:
        diff = await Repository(cwd, environ).diff(Scope.ALL)
    except (ClewError, OSError) as error:
        log.debug("no look at the files: %s", error)
        return None
    return KeptFiles(run_id, diff.base_commit, diff.changes, diff.files)


async def changed_since(kept: KeptFiles, cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Files that are not as they were, by their names in the work tree."""
    repository = Repository(cwd, environ)
    try:
        now = await repository.diff(Scope.ALL, base_commit=kept.base_commit)  # with what was committed since
        return (await repository.since(Before(kept.base_commit, kept.changes, kept.files), now)).paths
    except (ClewError, OSError) as error:
        log.debug("no look at the files: %s", error)
        return ()
