"""Builds the hosts that need each other: a job of a hook needs its work tree.

Each host is built when it is first used. Most commands never need hooks: they neither load them nor fail because the
settings of hooks are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from clew import config
from clew.engine.engine import Engine

if TYPE_CHECKING:
    from clew.core.jobs.job import Job
    from clew.core.rules.rules import RulesSource
    from clew.hosts.hooks.hooks import Hooks
    from clew.hosts.jobs.jobs import Jobs


class Hosts:
    """The hosts of one client."""

    def __init__(self, engine: Engine, settings: config.Settings, home: Path, environ: Mapping[str, str]) -> None:
        """`environ` is the whole environment, with the secrets that agents do not get."""
        self._engine = engine
        self._settings = settings
        self._home = home
        self._environ = environ

    @cached_property
    def jobs(self) -> Jobs:
        from clew.core.hooks.hook import KIND
        from clew.hosts.jobs.jobs import Jobs
        from clew.hosts.jobs.runner import JobRunner

        max_running = self._settings.of("jobs.most_at_once")
        runner = JobRunner(self._engine, max_running=max_running, preparations={KIND: _HookPreparation(self)})
        return Jobs(self._engine, runner)

    @cached_property
    def hooks(self) -> Hooks:
        """Raises ConfigError when the settings are wrong."""
        from clew.wiring.hooks import open_hooks

        return open_hooks(self._engine, self._home, self._environ)


class _HookPreparation:
    """Prepares the jobs of hooks. Hooks are loaded when the first of these jobs runs."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def prepare(self, job: Job) -> None:
        await self._hosts.hooks.preparation.prepare(job)

    async def rules_of(self, job: Job) -> RulesSource | None:
        return await self._hosts.hooks.preparation.rules_of(job)
