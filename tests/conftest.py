"""Fixtures are factories: a stage with the real Claude CLI or with the scripted one."""

from __future__ import annotations

import asyncio
import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage, real_claude, real_codex
from residents import Resident

pytest_plugins = ["failure_report", "lanes", "pytester"]
pytest.register_assert_rewrite("clew.testing.store_contract")  # before any test imports it
# A slow example only means that the machine is busy.
settings.register_profile("clew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clew")


def pytest_unconfigure() -> None:
    Resident.close_all()


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with ModelApi() as api:
        yield api


@pytest.fixture(params=["scripted", pytest.param("real", marks=pytest.mark.real)])
def stage(request: pytest.FixtureRequest, tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    """Runs the test on both agents: what holds for the scripted one must hold for the real one."""
    with make_stage(request.param, tmp_path, api) as stage:
        yield stage


@pytest.fixture
def scripted(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    with make_stage("scripted", tmp_path, api) as stage:
        yield stage


@pytest.fixture
def real(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    with make_stage("real", tmp_path, api) as stage:
        yield stage


@pytest.fixture
def codex(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    """The real Codex CLI, beside the scripted agent."""
    with make_stage("scripted", tmp_path, api, codex=True) as stage:
        yield stage
    assert not api.refused_hosts, "it made outgoing connections"


@pytest.fixture
def both_real(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    """The real Claude and the real Codex."""
    with make_stage("real", tmp_path, api, codex=True) as stage:
        yield stage
    assert not api.refused_hosts, "it made outgoing connections"


@functools.cache
def _scripted_claude() -> Path:
    """One scripted agent for each pytest worker."""
    folder = Path(tempfile.mkdtemp(prefix="clew-agent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return scripted_agent.install(folder)


@contextmanager
def make_stage(kind: str, folder: Path, api: ModelApi, *, codex: bool = False) -> Iterator[Stage]:
    """A stage. When the test ends, nothing that its agents started may still run."""
    binary = real_claude() if kind == "real" else _scripted_claude()
    stage = Stage(folder, api, binary, codex=real_codex() if codex else None)
    yield stage
    left = stage.processes()
    assert not left, f"processes left running: {left}"


@pytest.fixture
def pass_an_hour(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Advances the running loop's clock, so that a time-out does not depend on how slow the machine is."""

    def pass_an_hour() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 3600)

    return pass_an_hour


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One real server for each pytest worker; every test creates its own database. Its folder is not pytest's: another
    pytest that starts closes that to other users, and under root the server is one."""
    with (
        tempfile.TemporaryDirectory(prefix="clew-postgres-", ignore_cleanup_errors=True) as folder,
        PostgresServer(Path(folder, "data")) as server,
    ):
        yield server
