"""What `clew serve` reports when it starts: a missing page, a missing root, another daemon, a token that is kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
import forkserver
from clew.system.daemon_registry import registered, running_daemons
from clew.testing.stage import Stage
from server.daemons import ServeProcess, mode

EXAMPLE = re.compile(r"```sh\n(.*?)```", re.DOTALL)
DOCS = Path(__file__).parents[2] / "docs"


def run(stage: Stage, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A `clew serve` that is expected to end by itself."""
    return forkserver.run("serve", *args, env={**stage.environ, **environ}, cwd=stage.work)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout before `make web`."""
    source = Path(clew.__file__).parent
    unbuilt = shutil.ignore_patterns("static", "node_modules", "__pycache__", "testing")
    shutil.copytree(source, tmp_path / "src" / "clew", ignore=unbuilt)
    return tmp_path / "src"


@pytest.mark.rest
async def test_a_page_that_is_not_built_is_reported_and_no_browser_is_opened(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], checkout: Path
) -> None:
    opened = scripted.folder / "opened"
    browser = scripted.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    daemon = start_daemon(scripted, "--open", BROWSER=str(browser), PYTHONPATH=str(checkout))
    [line] = daemon.log.splitlines()
    assert line.startswith("clew: the page is not built")
    assert "make web" in line
    assert (await daemon.http.get("/")).status_code == 503
    assert (await daemon.get("/api/threads"))["total"] == 0, "the API answers"
    assert daemon.stop() == 0
    assert not opened.exists()


@pytest.mark.parametrize(("args", "environ"), [(["--root", "/nonexist"], {}), ([], {"CLEW_SERVE_ROOTS": "/nonexist"})])
def test_a_root_that_is_not_a_directory_is_one_clear_line(
    scripted: Stage, args: list[str], environ: dict[str, str]
) -> None:
    done = run(scripted, "--port", "0", *args, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    said, hint = done.stderr.splitlines()
    assert said == "clew: The root /nonexist is not a directory."
    assert "serve.roots" in hint
    assert not (scripted.clew_home / "token").exists()


async def test_a_new_token_is_not_made_while_the_port_is_in_use(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    done = run(scripted, "--port", str(daemon.port), "--new-token")
    assert (done.returncode, done.stdout) == (2, "")
    said, hint = done.stderr.splitlines()
    assert said.endswith("The token is unchanged.")
    assert "End that one first" in hint
    assert (scripted.clew_home / "token").read_text().strip() == daemon.token


@pytest.mark.rest
async def test_a_second_daemon_of_a_home_names_the_first(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    one = start_daemon(scripted)
    assert one.log == ""
    two = start_daemon(scripted)
    [line] = two.log.splitlines()
    assert f"another clew serve (process {one.process.pid}, port {one.port})" in line
    one.kill()
    two.restart()
    assert two.log.splitlines() == [line], "a dead daemon is not reported"


@pytest.mark.process
def test_a_daemon_is_registered_as_long_as_it_lives(tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / "12345").write_text("7421\n")  # left by a daemon that was killed
    asked = "import pathlib, sys; from clew.system.daemon_registry import running_daemons; "
    asked += "print(running_daemons(pathlib.Path(sys.argv[1])))"

    def seen() -> str:
        done = subprocess.run([sys.executable, "-c", asked, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout

    with registered(tmp_path, 7):
        assert running_daemons(tmp_path) == [], "the own process is not listed"
        assert f"pid={os.getpid()}, port=7" in seen()
        assert mode(tmp_path / "serving" / str(os.getpid())) == 0o600
    assert seen() == "[]\n"
    assert list((tmp_path / "serving").iterdir()) == []


@pytest.mark.rest
def test_the_first_example_of_the_docs_works_on_a_first_start(scripted: Stage) -> None:
    example = EXAMPLE.search((DOCS / "http.md").read_text())
    assert example is not None
    lines = [line for line in example[1].splitlines() if "RUN/events" not in line]
    script = "\n".join(lines).replace("/home/me/shop", str(scripted.work)).replace("curl ", "curl -sS --fail ")
    ours = f'clew() {{ exec {sys.executable} -m clew "$@"; }}\n'
    end = '\nkill "$!"; wait "$!"'
    done = subprocess.run(
        ["sh", "-ec", ours + script + end],
        env={**scripted.environ, "CLEW_SERVE_PORT": "0"},
        cwd=scripted.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"name":"fix-login"' in done.stdout
    assert '"prompt":"Why does the login fail?"' in done.stdout
