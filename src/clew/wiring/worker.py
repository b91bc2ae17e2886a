"""Builds workers. It is a module of its own, because it imports the queue engine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew import config
from clew.core.history import text_digest
from clew.engine.durable.worker import HEARTBEAT_S, SILENCE_S, Worker, WorkerSettings
from clew.engine.engine import Engine
from clew.hosts.hooks.hooks import EVENT, REPLY, Hooks
from clew.hosts.jobs.jobs import Jobs
from clew.system.folders import make_private

QUEUE_FILE = "queue.db"
WORKERS_DIR = "workers"


def open_worker(
    engine: Engine,
    jobs: Jobs,
    hooks: Hooks,
    settings: config.Settings,
    home: Path,
    worker_id: str,
    concurrency: int,
    *,
    hooks_only: bool = False,
    heartbeat_s: float = HEARTBEAT_S,
    silence_s: float = SILENCE_S,
) -> Worker:
    """A worker on the engine's store. Its queues are in the same database, or in a file beside the store's.

    `hooks_only`: it runs only the jobs of hooks, and leaves other jobs to other workers.
    """
    # A worker must not claim more jobs than agents may run here, because another worker could run them.
    at_once = min(concurrency, engine.settings.max_agents)
    url = settings.of("store")
    file = None if url else str(home / QUEUE_FILE)
    return Worker(
        engine.store,
        engine.context,
        WorkerSettings(worker_id, url, file, hooks_only, at_once, heartbeat_s=heartbeat_s, silence_s=silence_s),
        {EVENT: hooks.handle, REPLY: hooks.replies.post},
        Hooks.queued_work,
        lambda job_id, slot: jobs.runner.run_claimed(job_id, worker_id, slot),
    )


@contextmanager
def worker_name(home: Path, machine: str) -> Iterator[str]:
    """A name that no other worker of this machine has at the same time. A restarted worker gets the same name."""
    import fcntl

    folder = home / WORKERS_DIR
    make_private(folder)
    for number in itertools.count(1):
        handle = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        try:
            yield f"{machine}/{text_digest(os.path.realpath(home))[:8]}/{number}"
        finally:
            os.close(handle)
        return
