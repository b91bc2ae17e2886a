"""What a failed run prints: what was running, and the last lines of every process that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

pytestmark = pytest.mark.process

HERE = Path(__file__).parent

INI = f"""
[pytest]
pythonpath = {HERE}
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
addopts = -v -p no:cacheprovider --import-mode=importlib
"""

CONFTEST = """
import pytest

from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage

pytest_plugins = ["failure_report"]


@pytest.fixture
def stage(tmp_path):
    with ModelApi() as api:
        yield Stage(tmp_path, api, scripted_agent.install(tmp_path / "agent"))

"""

HANGING = """
import subprocess
import time
from pathlib import Path

FOLDER = Path(__file__).parent


def test_hangs():
    subprocess.run(["sh", "-c", "echo before the silence"], stdout=subprocess.PIPE)
    (FOLDER / "hanging").touch()
    while not (FOLDER / "enough").exists():
        time.sleep(0.02)
"""

FAILING = """
import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

import forkserver
from clew.testing.stage import MODEL

FOLDER = Path(__file__).parent
SAYING = "echo one; echo two >&2; exit 3"
SERVING = "echo the server says this >&2; echo up; exec cat"


@pytest.fixture(scope="module", autouse=True)
def server():
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", SERVING], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_has_ended():
    done = subprocess.run(["sh", "-c", SAYING], capture_output=True, text=True)
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    assert done.returncode == 0


def test_files(server, tmp_path):
    with (tmp_path / "serve.log").open("wb") as log:
        subprocess.run(["sh", "-c", "echo into the log; kill -9 $$"], stdout=log)
    with pytest.raises(FileNotFoundError):
        subprocess.Popen(["no-such-program"])
    (tmp_path / "clew.db").write_text("no database" * 100)
    assert server.poll() is not None


async def test_in_an_event_loop():
    process = await asyncio.create_subprocess_exec("sh", "-c", SAYING, stdout=-1, stderr=-1)
    await process.communicate()
    forked = await forkserver.start_in_loop(["--version"], env={"LANG": "C.UTF-8"}, stdout=subprocess.PIPE)
    await forked.communicate()
    assert process.returncode == 0


async def never_ends():
    while True:
        await asyncio.sleep(3600)


async def test_tasks():
    left = asyncio.create_task(never_ends(), name="the one that hangs")
    await asyncio.sleep(0)
    assert left.done()


async def test_a_turn(stage):
    stage.fault({"do": "crash_mid_text", "rc": 9, "stderr": "last words of the agent"})
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        assert (await (await thread.ask("one"))).status == "answered"


def test_a_command(stage):
    environ = {**stage.environ, "CLEW_MODEL": MODEL}
    assert forkserver.run("ask", "-t", "t", "one", env=environ, cwd=stage.work).stdout == "two"


def test_in_teardown(request):
    request.addfinalizer(lambda: subprocess.run(["sh", "-c", SAYING], check=True))


def test_crashes_its_worker():
    os._exit(7)
"""

FILES = {"pytest.ini": INI, "conftest.py": CONFTEST, "test_failing.py": FAILING, "test_hanging.py": HANGING}


class Suite:
    """A run of pytest on the tests above, and what it has printed so far."""

    def __init__(self, folder: Path, *args: str) -> None:
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        self.folder = folder
        self.printed = ""
        plugins = [word for name in ("xdist.plugin", "pytest_asyncio.plugin") for word in ("-p", name)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *plugins, f"--basetemp={folder / 'temp'}", *args, str(folder)],
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            (self.folder / "go").touch()
            (self.folder / "enough").touch()
            self.process.communicate()

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in self.printed:
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, self.printed
            self.printed += chunk.decode()

    def interrupt(self) -> int:
        """Stops the run as a CI does after its time limit. The hanging test is released when that has been printed."""
        self.process.send_signal(signal.SIGTERM)
        self.read_until("tests that started and never ended")
        (self.folder / "enough").touch()
        self.printed += self.process.communicate()[0].decode()
        return self.process.returncode

    def section(self, test: str) -> str:
        """The section about processes in the report of a failed test."""
        _, _, failure = self.printed.partition(f" {test} _")
        _, _, section = failure.partition("what is running, and the processes that this test started")
        return section.partition("\n___")[0].partition("\n===")[0] + "\n"


def test_a_failed_run_reports_what_was_running_and_the_output_of_every_process(tmp_path: Path) -> None:
    with Suite(tmp_path / "suite", "-n2", "--dist=loadfile", "--max-worker-restart=0") as suite:
        suite.read_until("::test_hangs")  # it has started before the first test fails
        (suite.folder / "go").touch()
        suite.read_until("Not properly terminated")
        assert suite.interrupt() == 2, suite.printed

    section = suite.section("test_has_ended")
    assert "ended with exit code 3: sh -c 'echo one; echo two >&2; exit 3'\n" in section, suite.printed
    assert "  stdout:\n    one\n  stderr:\n    two\n" in section

    section = suite.section("test_files")
    assert "running: sh -c 'echo the server says this >&2; echo up; exec cat' (started in test_failing" in section
    assert "  stderr:\n    the server says this\n" in section, "it is still in the pipe, because nobody has read it"
    assert "ended by SIGKILL: sh -c 'echo into the log; kill -9 $$'\n" in section
    assert "serve.log):\n    into the log\n" in section
    assert "not started ([Errno 2] No such file or directory: 'no-such-program'): no-such-program" in section
    assert "clew.db:\n  The store cannot be read: file is not a database\n" in section
    assert "echo one" not in section, "it belongs to another test, and has ended"

    section = suite.section("test_in_an_event_loop")
    assert "  stdout:\n    one\n  stderr:\n    two\n" in section
    assert "ended with exit code 0: clew --version\n  stdout:\n    clew" in section

    section = suite.section("test_tasks")
    assert "the one that hangs waits in:\n    never_ends (" in section and "    sleep (" in section, suite.printed

    section = suite.section("test_a_turn")
    assert "ended with exit code 9: " in section
    assert '  stdout:\n    {"type"' in section and "  stderr:\n    last words of the agent\n" in section
    assert "exit status 9, outcome" in section, "from the store"

    section = suite.section("test_a_command")
    assert "ended with exit code 0: clew ask -t t one\n  stdout:\n    ack: one" in section
    assert "exit status 0, outcome" in section and "ack: one" in section.partition("agents in the store")[2]

    assert "exit code 3: sh -c 'echo one" in suite.section("test_in_teardown"), suite.printed

    _, _, summary = suite.printed.partition("what was running when a test failed")
    assert "test_failing.py::test_has_ended (call, gw" in summary
    others = summary.partition("also running:\n")[2].splitlines()[0]
    assert others.startswith("  test_hanging.py::test_hangs, for ")
    never_ended = suite.printed.partition("tests that started and never ended")[2].partition("\n===")[0].splitlines()
    assert {line.partition(",")[0].strip() for line in never_ended if line.startswith("  ")} == {
        "test_hanging.py::test_hangs",
        "test_failing.py::test_crashes_its_worker",
    }, suite.printed


def test_a_run_in_one_process_that_is_interrupted_reports_what_was_running(tmp_path: Path) -> None:
    with Suite(tmp_path / "suite", "-k", "test_hangs") as suite:
        while not (suite.folder / "hanging").exists():
            assert suite.process.poll() is None
            time.sleep(0.02)
        assert suite.interrupt() == 2, suite.printed
    _, _, never_ended = suite.printed.partition("tests that started and never ended")
    assert "  test_hanging.py::test_hangs, for " in never_ended, suite.printed
    assert "ended with exit code 0: sh -c 'echo before the silence'" in never_ended
    assert "when a test failed" not in never_ended
