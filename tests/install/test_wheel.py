"""The wheel as users install it: with pip and with `uv tool`, into empty environments, with its real dependencies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from browser.visitor import CHROMIUM, FLAGS
from clew.testing import scripted_agent

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[2]
LIMIT_S = 280
PIP_TO_UV = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}


def run(*command: str | Path, **environ: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    [wheel] = folder.iterdir()
    return wheel


def uv_environ(folder: Path) -> dict[str, str]:
    """uv's own folders, and the index that pip is configured to use, since uv does not read pip's settings."""
    environ = {
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        if variable := PIP_TO_UV.get(name.rpartition(".")[2]):
            environ[variable] = value.strip("'").replace("\\n", " ")
    return environ


@pytest.fixture(params=["pip", "uv"])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> Path:
    """The installed command."""
    home = {"HOME": str(tmp_path / "home")}
    if request.param == "uv":
        uv = Path(sys.executable).with_name("uv")
        run(uv, "tool", "install", "-q", "-c", ROOT / "constraints.txt", wheel, **(home | uv_environ(tmp_path)))
        return tmp_path / "bin" / "clew"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    return tmp_path / "venv" / "bin" / "clew"


def test_the_wheel_holds_the_page_and_not_its_sources(wheel: Path) -> None:
    assert wheel.name.startswith("clew_threads-")
    names = zipfile.ZipFile(wheel).namelist()
    inside = [name.removeprefix("clew/web/") for name in names if name.startswith("clew/web/")]
    assert {name.partition("/")[0] for name in inside} == {"__init__.py", "static"}
    assert "static/index.html" in inside
    assert any(name.endswith(".js") for name in inside)
    assert any(name.endswith(".css") for name in inside)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"clew", "clew_threads"}


def test_an_installed_clew_runs_the_demo_and_serves_the_page(installed: Path, tmp_path: Path) -> None:
    environ = {
        "PATH": os.defpath,
        "HOME": str(tmp_path / "home"),
        "CLEW_HOME": str(tmp_path / "clew"),
        "CLEW_CLAUDE_PATH": str(scripted_agent.install(tmp_path / "agent")),
    }
    (tmp_path / "home").mkdir(exist_ok=True)
    tour = subprocess.run([installed, "demo"], env=environ, capture_output=True, text=True, timeout=LIMIT_S)
    assert tour.returncode == 0, tour.stderr
    assert "What resuming saved" in tour.stdout
    with served(installed, environ, tmp_path) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.goto(address)
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
        browser.close()


@contextmanager
def served(command: Path, environ: dict[str, str], folder: Path) -> Iterator[str]:
    with (folder / "serve.log").open("w") as log:
        daemon = subprocess.Popen(
            [command, "serve", "--port", "0"], env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert daemon.stdout is not None
        address = daemon.stdout.readline().strip()
        assert address.startswith("http://"), (folder / "serve.log").read_text()
        yield address
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=60)
