"""What a person continues in a directory without naming it: the latest thread there, or in the same repository.

A git work tree is a repository of its own here: other files are checked out in it, and another branch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.hosts.chat.agent_sessions import AgentSession, AgentSessions
from clew.store.store import Store
from clew.system.work_trees import repository_root

THREADS_AT_ONCE = 100


async def latest_thread(engine: Engine, cwd: str) -> Thread | None:
    """The thread last used in that directory; if there is none, in the repository that contains the directory."""
    folder = os.path.realpath(cwd)
    found = await engine.store.call(lambda store: store.threads.latest(folder))
    root = None if found is not None else repository_of(folder)
    if found is not None or root is None:
        return found
    return await engine.store.call(lambda store: _latest_in(store, root))


async def newest_session(engine: Engine, cwd: str, allowed: Callable[[str], bool] | None) -> AgentSession | None:
    """The newest session of a plain CLI in that directory, else in its repository. Sessions of threads do not count."""
    folder = os.path.realpath(cwd)
    root = repository_of(folder)
    in_repository: AgentSession | None = None
    async for session in AgentSessions(engine).newest(project=root or folder):
        if session.thread is not None or not Path(session.work_dir).is_dir():
            continue
        if allowed is not None and not allowed(session.work_dir):
            continue
        if os.path.realpath(session.work_dir) == folder:
            return session
        if in_repository is None and root is not None and repository_of(session.work_dir) == root:
            in_repository = session
    return in_repository


def repository_of(folder: str) -> str | None:
    """The root of the repository or work tree that contains the directory (looks at the disk). None: there is none."""
    root = repository_root(Path(os.path.realpath(folder)))
    return None if root is None else str(root)


def _latest_in(store: Store, root: str) -> Thread | None:
    """The thread last used in this repository, and not in another one that is inside it."""
    offset = 0
    while some := store.threads.below(root, limit=THREADS_AT_ONCE, offset=offset):
        for thread in some:
            if repository_of(thread.cwd) == root:
                return thread
        offset += len(some)
    return None
