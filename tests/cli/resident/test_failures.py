"""What becomes of a command when the resident is missing, stopped, killed, another user's or another version."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
import residents
from clew.api import daemons
from cli.conftest import TIMEOUT_S
from handed_over import NOT_HANDED_OVER

OTHER_USER = 54321


def commands(handed: Any) -> tuple[int, ...]:
    """The processes that carry out commands."""
    found = daemons.resident(handed.resident.environ, Path(handed.cli.stage.clew_home))
    assert found is not None
    return found.commands


def hanging(handed: Any, **more: Any) -> tuple[Any, int]:
    """A command in the middle of its answer, and the process that carries it out."""
    process = handed.start("ask", "-t", "t", "!hang text so far", **more)
    handed.cli.api.wait_for_hanging(1)
    [pid] = commands(handed)
    return process, pid


def test_a_command_is_handed_over(handed: Any) -> None:
    done = handed.run("ask", "-t", "t", "hello")
    assert (done.code, done.out) == (0, "ack: hello\n")


def test_without_a_resident_the_command_does_its_own_work(handed: Any) -> None:
    handed.resident.close()
    assert not handed.resident.socket.exists(), "it removes its socket"
    assert handed.run("ask", "-t", "t", "hello").code == NOT_HANDED_OVER
    assert handed.run("ask", "-t", "t", "hello", ordinary=True).out == "ack: hello\n"


def test_the_socket_of_a_resident_that_was_killed_is_no_obstacle(handed: Any) -> None:
    handed.resident.process.kill()
    handed.resident.process.wait()
    assert handed.resident.socket.exists()
    assert handed.run("ask", "-t", "t", "hello", ordinary=True).out == "ack: hello\n"
    with residents.Resident(handed.cli.environ(), runtime=handed.resident.runtime):
        assert handed.run("ask", "-t", "t", "more").code == 0, "the next one takes its place"


def test_the_socket_is_made_again_when_the_runtime_folder_was_removed(handed: Any) -> None:
    """As when its user logs out, and logs in again."""
    shutil.rmtree(handed.resident.socket.parent)
    handed.resident.process.send_signal(signal.SIGCHLD)  # it need not wait until it looks
    handed.resident.hear("listening")
    assert handed.run("ask", "-t", "t", "hello").code == 0


def test_a_stopped_resident_costs_a_short_wait_and_the_command_is_carried_out_once(handed: Any) -> None:
    handed.resident.process.send_signal(signal.SIGSTOP)
    short = {"CLEW_RESIDENT_WAIT": "0.05"}
    done = handed.run("ask", "-t", "t", "hello", ordinary=True, environ=short)
    assert (done.code, done.out) == (0, "ack: hello\n")
    handed.resident.process.send_signal(signal.SIGCONT)
    handed.resident.hear("commands 0")
    assert handed.run("ask", "-t", "t", "more").code == 0
    assert [turn["text"] for turn in handed.cli.turns("t")][::2] == ["hello", "more"]


@pytest.mark.rest
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: os.chown(folder, OTHER_USER, -1),
        lambda folder: folder.chmod(0o750),
        lambda folder: folder.rename(folder.with_name("moved")) and folder.symlink_to(folder.with_name("moved")),
    ],
    ids=["of another user", "open to others", "a link"],
)
def test_a_folder_that_is_not_private_is_not_used(handed: Any, spoil: Callable[[Path], object]) -> None:
    spoil(handed.resident.socket.parent)
    assert handed.run("ask", "-t", "t", "hello").code == NOT_HANDED_OVER


LISTENER = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.setuid(int(sys.argv[2]))
listening.listen()
print("listening", flush=True)
connection, _ = listening.accept()
print(connection.recv(100000), flush=True)
"""


def test_nothing_is_sent_to_a_process_of_another_user(handed: Any) -> None:
    handed.resident.close()
    (handed.resident.socket.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-c", LISTENER, str(handed.resident.socket), str(OTHER_USER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None and listener.stdout.readline() == "listening\n"
        assert handed.run("ask", "-t", "t", "hello").code == NOT_HANDED_OVER
        assert listener.stdout.readline() == "b''\n"


STRANGER = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
try:
    connection.sendall(bytes(8))
    print(connection.recv(100))
except OSError:
    print("refused")
"""


@pytest.mark.rest
def test_a_process_of_another_user_gets_no_answer(handed: Any) -> None:
    path = handed.resident.socket
    for each in (path.parent.parent, path.parent, path):
        each.chmod(0o777)  # as if the system did not check
    command = [sys.executable, "-c", STRANGER, str(path), str(OTHER_USER)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60)
    assert done.stdout in ("b''\n", "refused\n"), done.stderr


@pytest.mark.rest
def test_rubbish_harms_nobody(handed: Any) -> None:
    for content in (b"\xff" * 100, bytes(7) + b"\x03abc", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(handed.resident.socket))
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) in (b"", b"exit 0\n")
    assert handed.run("ask", "-t", "t", "hello").code == 0


@pytest.mark.rest
@pytest.mark.parametrize(
    "environ",
    [
        {"CLEW_RESIDENT": "off"},
        {"CLEW_ATTEMPT": "mark"},
        {"CLEW_STORE": "postgresql://elsewhere/clew"},
        {"CLEW_HOME": "/nowhere"},
        {"CLEW_CONFIG": "/nowhere.toml"},
        {"PYTHONWARNINGS": "error"},
        {"XDG_RUNTIME_DIR": "/nowhere"},
    ],
    ids=lambda environ: next(iter(environ)),
)
def test_a_command_with_other_settings_does_its_own_work(handed: Any, environ: dict[str, str]) -> None:
    assert handed.run("ask", "-t", "t", "hello", environ=environ).code == NOT_HANDED_OVER


def test_the_users_own_file_can_turn_it_off(handed: Any) -> None:
    handed.cli.stage.clew_home.mkdir(mode=0o700, exist_ok=True)
    (handed.cli.stage.clew_home / "clew.toml").write_text('resident = "off"\n')
    assert handed.run("ask", "-t", "t", "hello").code == NOT_HANDED_OVER


def test_a_command_does_not_leave_its_sandbox(handed: Any) -> None:
    """The resident has other restrictions, so it must not stand for the command."""

    def confine() -> None:
        import ctypes

        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS

    assert handed.run("ask", "-t", "t", "hello", prepare=confine).code == NOT_HANDED_OVER


@pytest.mark.rest
def test_an_upgrade_is_noticed(handed: Any, tmp_path: Path) -> None:
    package = tmp_path / "lib" / "clew"
    shutil.copytree(Path(clew.__file__).parent, package, ignore=shutil.ignore_patterns("web", "__pycache__"))
    environ = {**handed.cli.environ(), "PYTHONPATH": str(package.parent)}
    with residents.Resident(environ, program=[sys.executable, "-m", "clew.cli.daemon.fork_server", "0"]) as resident:
        given = {**resident.environ, "CLEW_RESIDENT": "on request"}
        assert handed.run("ask", "-t", "t", "hello", environ=given).code == 0
        os.utime(package / "__init__.py")
        assert handed.run("ask", "-t", "t", "hello", environ=given).code == NOT_HANDED_OVER


def test_a_second_signal_ends_the_agent_at_once(handed: Any) -> None:
    process, _ = hanging(handed)
    process.send_signal(signal.SIGINT)
    while b"stopping" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 7
    assert not handed.cli.stage.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on(handed: Any, number: signal.Signals) -> None:
    process, _ = hanging(handed)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (7, b"so far\n")
    assert b"stopping" in err


def test_a_caller_that_may_open_too_few_files_is_told(handed: Any) -> None:
    """As by itself, the command fails; it must not look as if it had succeeded."""
    import resource

    done = handed.run(
        "ask", "-t", "t", "hello", prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)) and None
    )
    assert done.code != 0


def test_a_signal_that_the_caller_ignores_stays_ignored(handed: Any) -> None:
    process, pid = hanging(handed, prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None)
    [ignored] = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigIgn" in line]
    assert int(ignored, 16) & 1 << (signal.SIGHUP - 1)
    process.send_signal(signal.SIGHUP)
    handed.cli.api.release()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


@pytest.mark.rest
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGSEGV])
def test_a_signal_that_ends_the_process_ends_the_command(handed: Any, number: signal.Signals) -> None:
    process, pid = hanging(handed)
    os.kill(pid, number)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -number
    handed.resident.hear("commands 0")
    assert handed.run("ask", "-t", "t", "on").code == 0


def test_when_the_command_is_killed_its_work_is_stopped_and_kept(handed: Any) -> None:
    process, _ = hanging(handed)
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    handed.resident.hear("commands 1")
    handed.resident.hear("commands 0")
    last = handed.cli.turns("t")[-1]
    assert (last["role"], last["text"], last["partial"]) == ("assistant", "so far", True)
    assert not handed.cli.stage.processes()


def test_commands_outlive_the_daemon(handed: Any) -> None:
    process, pid = hanging(handed)
    handed.resident.daemon.close()
    handed.cli.api.release()
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert b"so far" in out
    handed.resident.process.wait(TIMEOUT_S)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.rest
def test_a_command_outlives_a_fork_server_that_is_killed(handed: Any) -> None:
    process, _ = hanging(handed)
    handed.resident.process.kill()
    handed.cli.api.release()
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert b"so far" in out


@pytest.mark.rest
def test_if_everything_is_gone_the_command_says_so(handed: Any) -> None:
    process, pid = hanging(handed)
    handed.resident.process.kill()
    handed.resident.process.wait()
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"clew: the process that carried this command out is gone.\n  " in err
    assert handed.run("ask", "-t", "t", "on", ordinary=True).code == 0


@pytest.mark.rest
def test_fifty_commands_at_once(handed: Any) -> None:
    running = [handed.start("review", "list", "--all", "--json") for _ in range(50)]
    assert {process.communicate(timeout=TIMEOUT_S)[0] for process in running} == {b"[]\n"}
    assert {process.returncode for process in running} == {0}


def test_a_fork_server_that_is_stopped_does_not_delay_the_end(handed: Any) -> None:
    process, _ = hanging(handed)
    handed.resident.process.send_signal(signal.SIGSTOP)
    handed.cli.api.release()
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert b"so far" in out
    handed.resident.process.send_signal(signal.SIGCONT)


@pytest.mark.rest
def test_limits_that_cannot_be_taken_over(handed: Any) -> None:
    import resource

    ours = resource.getrlimit(resource.RLIMIT_NOFILE)

    with residents.Resident(
        handed.cli.environ(),
        program=["sh", "-c", f"ulimit -n 300; exec {sys.executable} -m clew.cli.daemon.fork_server 0"],
    ) as lower:
        runtime = {"XDG_RUNTIME_DIR": str(lower.runtime)}
        assert ours[0] > 300
        assert handed.run("ask", "-t", "t", "hello", environ=runtime).code == NOT_HANDED_OVER
        done = handed.run(
            *("ask", "-t", "t", "--permissions", "all", '!tool Bash {"command": "ulimit -n > made"}'),
            environ=runtime,
            prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, ours[1])),
        )
        assert done.code == 0
        assert (handed.cli.stage.work / "made").read_text() == "200\n"
