"""Journeys in a real browser: Debian's Chromium, the real `clew serve`, the scripted agent. Nothing is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser.house import CHROMIUM, FLAGS, House, Visitor, visiting
from clew.testing import scripted_agent
from clew.testing.model_api import ModelApi
from clew.testing.stage import Stage, real_codex
from clew.web import STATIC
from server.house import served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One a module: Playwright's loop must not outlive it, or the asynchronous tests elsewhere could not run."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is not there: run `make chromium`, or apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon that tests share; each has threads of its own, by names that no other uses."""
    with a_house(tmp_path_factory) as made:
        yield made


@pytest.fixture
def own_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon of one's own: to be killed, or to be empty."""
    with a_house(tmp_path_factory) as made:
        yield made


@pytest.fixture
def bare_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon that finds no agent; `late` below its folder is where it looks for one."""
    late = tmp_path_factory.mktemp("late")
    with a_house(tmp_path_factory, CLEW_CLAUDE_PATH=str(late / "claude"), CLEW_CODEX_PATH=str(late / "codex")) as made:
        yield made


@pytest.fixture(scope="module")
def codex_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon with a second agent, the real Codex: one that cannot ask."""
    with a_house(tmp_path_factory, codex=real_codex()) as made:
        yield made


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """A browser of one's own with the page; it must have nothing to complain about when the test is over."""
    with ExitStack() as visits:

        def start(house: House, **options: Any) -> Visitor:
            return visits.enter_context(visiting(house, browser, **options))

        yield start


@contextmanager
def a_house(tmp_path_factory: pytest.TempPathFactory, *, codex: Path | None = None, **environ: str) -> Iterator[House]:
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page is not built: run `make web`")
    folder = tmp_path_factory.mktemp("house")
    with ModelApi() as api:
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"), codex=codex)
        with served(stage, **environ) as daemon:
            house = House(stage, daemon)
            yield house
            house.close()
        left = stage.processes()
        assert not left, f"processes left running: {left}"
