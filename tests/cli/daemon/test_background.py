"""`clew up`, `down` and `status`, and the files of `clew up --install`."""

from __future__ import annotations

import plistlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.api import daemons
from clew.system import background, daemon_registry
from cli.conftest import TIMEOUT_S, Cli, Done
from residents import HANDED_OVER, ORDINARY

SAYS = re.compile(r"(http://127\.0\.0\.1:(\d+)/\?token=\S+) \(process (\d+)\)\n")


class Machine:
    """Runs real commands with a runtime folder of their own, and ends the daemons that they start."""

    def __init__(self, cli: Cli, runtime: Path) -> None:
        self.cli = cli
        self.home = Path(cli.stage.clew_home)
        self.environ = {**cli.environ(), "XDG_RUNTIME_DIR": str(runtime), "CLEW_RESIDENT_WAIT": "60"}

    def run(self, *args: str, command: list[str] = ORDINARY, **environ: str) -> Done:
        given = {**self.environ, **environ}
        done = subprocess.run(
            [*command, *args], env=given, cwd=self.cli.stage.work, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def running(self) -> list[daemons.RunningDaemon]:
        return daemons.running_daemons(self.home)

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        for daemon in self.running():
            daemons.send_signal(self.home, daemon, signal.SIGTERM)
        self.until(lambda: not self.running() and not self.cli.stage.processes())


@pytest.fixture
def machine(cli: Any) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="clew-run-") as runtime:
        made = Machine(cli, Path(runtime))
        yield made
        made.close()


def test_up_and_down(machine: Machine) -> None:
    assert machine.run("status").out == "no daemon runs (clew up starts one)\n"
    assert machine.run("down") == Done(0, "no daemon runs\n", "")

    started = machine.run("up", "--port", "0")
    assert started.code == 0, started.err
    said = SAYS.fullmatch(started.out)
    assert said is not None
    port, pid = int(said[2]), int(said[3])
    assert machine.run("ask", "-t", "t", "hello", command=HANDED_OVER).out == "ack: hello\n"

    again = machine.run("up")
    assert again == Done(0, f"clew serve runs already: process {pid}, http://127.0.0.1:{port}/\n", "")
    shown = machine.run("status", "--json").json
    [daemon] = shown["daemons"]
    assert (daemon["pid"], daemon["port"], daemon["url"]) == (pid, port, f"http://127.0.0.1:{port}/")
    assert shown["resident"]["commands"] == 0 and shown["agents"] == []
    assert shown["memory_bytes"] > 10_000_000
    words = machine.run("status").out
    assert f"daemon    process {pid}, since " in words and "resident  process " in words
    assert "token" not in words

    log = machine.home / "daemon.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text() == "", "not even the address, which has the token"
    ended = machine.run("down")
    assert ended == Done(0, f"ended process {pid}, http://127.0.0.1:{port}/\n", "")
    assert machine.running() == []
    machine.until(lambda: not Path(shown["resident"]["socket"]).exists())


@pytest.mark.rest
def test_up_says_why_the_daemon_did_not_start(machine: Machine) -> None:
    failed = machine.run("up", "--port", "none")
    assert failed.code == 2
    assert "The daemon did not start: serve.port = 'none' (flag) is not a port" in failed.err
    assert "daemon.log" in failed.err and "Traceback" not in failed.err
    assert machine.running() == []


@pytest.mark.rest
def test_two_at_once_start_one_daemon(machine: Machine) -> None:
    both = [
        subprocess.Popen([*ORDINARY, "up", "--port", "0"], env=machine.environ, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(process.communicate(timeout=TIMEOUT_S)[0][:4] for process in both)
    assert said == ["clew", "http"]
    assert len(machine.running()) == 1


@pytest.mark.rest
def test_the_first_ask_starts_it_if_that_is_wanted(machine: Machine) -> None:
    asked = machine.run("ask", "-t", "t", "hello", CLEW_RESIDENT="auto", CLEW_SERVE_PORT="0")
    assert asked.out == "ack: hello\n"
    machine.until(lambda: daemons.resident(machine.environ, machine.home))
    given = {"CLEW_RESIDENT": "auto"}
    assert machine.run("ask", "-t", "t", "more", command=HANDED_OVER, **given).out == "ack: more\n"
    assert len(machine.running()) == 1


@pytest.mark.rest
def test_the_resident_ends_with_a_daemon_that_was_killed(machine: Machine) -> None:
    machine.run("up", "--port", "0")
    found = daemons.resident(machine.environ, machine.home)
    [daemon] = machine.running()
    assert found is not None
    daemons.send_signal(machine.home, daemon, signal.SIGKILL)
    machine.until(lambda: not Path(found.socket).exists())
    assert machine.run("ask", "-t", "t", "hello").out == "ack: hello\n"


@pytest.mark.rest
def test_it_ends_when_it_is_idle(machine: Machine) -> None:
    assert machine.run("up", "--port", "0", CLEW_RESIDENT_IDLE="1s").code == 0
    machine.until(lambda: not machine.running())


def test_a_systemd_unit(machine: Machine) -> None:
    odd = {"PATH": '/usr/bin:/a "b" 50%\\c', "XDG_CONFIG_HOME": str(machine.cli.stage.folder / "config")}
    path = machine.cli.stage.folder / "config" / "systemd" / "user" / "clew.service"
    shown = machine.run("up", "--install", "--kind", "systemd", "--dry-run", **odd)
    assert shown.code == 0 and not path.exists()

    written = machine.run("up", "--install", "--kind", "systemd", "--port", "7000", **odd)
    assert written.code == 0, written.err
    assert written.out.startswith(f"wrote {path}\n") and "systemctl --user enable --now clew.service" in written.out
    lines = path.read_text().splitlines()
    assert f'ExecStart="{sys.executable}" "-m" "clew" "serve" "--port" "7000"' in lines
    assert 'Environment="PATH=/usr/bin:/a \\"b\\" 50%%\\\\c"' in lines
    assert f'Environment="CLEW_HOME={machine.home}"' in lines
    assert "StandardOutput=null" in lines and "WantedBy=default.target" in lines
    if verify := shutil.which("systemd-analyze"):
        subprocess.run([verify, "--user", "verify", str(path)], env=machine.environ, check=True, timeout=60)


def test_a_launchd_file(machine: Machine) -> None:
    written = machine.run("up", "--install", "--kind", "launchd")
    assert written.code == 0, written.err
    path = machine.cli.stage.home / "Library" / "LaunchAgents" / "clew.daemon.plist"
    held = plistlib.loads(path.read_bytes())
    assert held["ProgramArguments"] == [sys.executable, "-m", "clew", "serve", "--background"]
    assert held["EnvironmentVariables"]["CLEW_HOME"] == str(machine.home)
    assert held["EnvironmentVariables"]["CLEW_RESIDENT_IDLE"] == "none"
    assert "launchctl bootstrap" in written.out


def test_a_file_of_somebody_else_is_kept(machine: Machine) -> None:
    path = machine.cli.stage.home / ".config" / "systemd" / "user" / "clew.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\n")
    refused = machine.run("up", "--install", "--kind", "systemd")
    assert refused.code == 2 and "--force" in refused.err
    assert path.read_text() == "[Service]\n"
    for option in (["--force"], []):
        assert machine.run("up", "--install", "--kind", "systemd", *option).code == 0
    assert "ExecStart" in path.read_text()
    assert machine.run("up", "--force").code == 2


@pytest.mark.unit
def test_a_log_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab") as writing:
        writing.write(b"a line\n" * (background.MAX_LOG_BYTES // 7 + 1))
        writing.flush()
        background.shorten(log)
        assert log.stat().st_size <= background.KEPT_BYTES
        writing.write(b"the last\n")
    assert log.read_bytes().startswith(b"a line\n") and log.read_bytes().endswith(b"a line\nthe last\n")
    before = log.stat().st_size
    background.shorten(log)
    assert log.stat().st_size == before


@pytest.mark.unit
def test_an_older_daemon_says_less(tmp_path: Path) -> None:
    assert daemon_registry._described(5, "7421\n") == daemons.RunningDaemon(5, 7421)
    assert daemon_registry._described(5, "") == daemons.RunningDaemon(5, None)
    assert daemon_registry._described(5, "7421           \n1.2\n3.5\n") == daemons.RunningDaemon(5, 7421, "1.2", 3.5)
