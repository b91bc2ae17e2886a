"""Tests of the page in a real browser: Debian's Chromium, the real `clew serve`, a scripted agent. No skips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser.daemon import Daemon, started
from browser.visitor import CHROMIUM, FLAGS, Visitor, visiting
from clew.testing.stage import real_codex


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module: Playwright's loop must not outlive it, or asynchronous tests elsewhere could not run."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing: run `make chromium`, or apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that tests share. Each test has threads of its own, with names that no other test uses."""
    with started(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def own_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon for one test, which kills it or needs it to be empty."""
    with started(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def bare_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that finds no agent, until a test installs one where it looks."""
    late = tmp_path_factory.mktemp("late")
    paths = {"CLEW_CLAUDE_PATH": str(late / "claude"), "CLEW_CODEX_PATH": str(late / "codex")}
    with started(tmp_path_factory.mktemp("daemon"), **paths) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def codex_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a second agent, the real Codex, which cannot ask for permission."""
    with started(tmp_path_factory.mktemp("daemon"), codex=real_codex()) as daemon:
        yield daemon


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Opens a browser of its own. It must have logged no error when the test is over."""
    with ExitStack() as visits:

        def start(daemon: Daemon, **options: Any) -> Visitor:
            return visits.enter_context(visiting(daemon, browser, **options))

        yield start
