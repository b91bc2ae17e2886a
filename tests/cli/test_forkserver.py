"""A forked `clew` behaves like `python -m clew`: output, exit status, signals and environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import forkserver

pytestmark = pytest.mark.process

SHOWS = """\
import os, signal, sys, time
print(os.getcwd(), sys.argv[1:], sorted(os.environ), os.getpgrp() == os.getpid())
print(time.strftime("%z", time.localtime(0)), sys.stdout.encoding, sys.stdout.isatty(), sys.stdin.read())
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")) < 8)
print(*(signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)))
sys.stderr.write("and this\\n")
sys.exit(int(sys.argv[2]))
"""


def plainly(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}
    return subprocess.run([sys.executable, *words], preexec_fn=forkserver.restore_sigint, **pipes, **options)


@pytest.mark.parametrize(
    "words",
    [
        *[("--version",), ("--help",), ("threads", "list"), ("threads", "show", "none"), ("frobnicate",), ("ask",), ()],
        *[("runs", "list"), ("sessions", "list"), ("jobs", "list"), ("review", "list"), ("hooks", "sessions")],
        *[("pair", "--list-sessions"), ("stats",), ("config",), ("completion", "bash")],
    ],
    ids=" ".join,
)
def test_its_output_and_its_exit_status_are_the_same(cli: Any, words: tuple[str, ...]) -> None:
    options = {"env": cli.environ(), "cwd": cli.stage.work, "stdin": subprocess.DEVNULL}
    plain = plainly(["-m", "clew", *words], **options)
    forked = forkserver.run(*words, **options)
    assert (forked.returncode, forked.stdout, forked.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize("status", ["0", "3"])
@pytest.mark.parametrize("session", [True, False])
def test_a_program_gets_the_same_environment(tmp_path: Path, status: str, session: bool) -> None:
    script, folder = tmp_path / "shows.py", tmp_path / "folder"
    script.write_text(SHOWS)
    folder.mkdir()
    env = {"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "Asia/Tokyo", "MINE": "1"}
    options = {"env": env, "cwd": folder, "input": "given", "start_new_session": session}
    plain = plainly([str(script), "a b", status], **options)
    forked = forkserver.run("a b", status, script=script, **options)
    assert (forked.returncode, forked.stdout, forked.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_what_it_raises_is_a_traceback_and_the_status_1(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise ValueError('no')")
    failed = forkserver.run(script=script, env={"LANG": "C.UTF-8"})
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: no\n")


@pytest.mark.parametrize("words", [("work", "--until-idle"), ("demo", "--help"), ("doctor", "--json")], ids=" ".join)
def test_a_new_interpreter_can_import_everything_that_a_command_needs(cli: Any, words: tuple[str, ...]) -> None:
    """The fork server has loaded more than a command does, so only this test shows a missing import."""
    done = plainly(["-m", "clew", *words], env=cli.environ(), cwd=cli.stage.work, stdin=subprocess.DEVNULL)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_ends_it_as_it_ends_any_process(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time; print('up', flush=True); time.sleep(600)")
    process = forkserver.Command(
        [], script=script, env={"LANG": "C.UTF-8"}, stdout=subprocess.PIPE, stderr=-3, text=True
    )
    with process:
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == -number


def test_polling_while_another_thread_waits_does_not_take_the_exit_status(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(3)")
    for _ in range(20):
        process = forkserver.start([], script=script, env={"LANG": "C.UTF-8"})
        seen: list[int | None] = []
        waiting = threading.Thread(target=lambda process=process, seen=seen: seen.append(process.wait(60)))
        waiting.start()
        while process.poll() is None:
            pass
        waiting.join()
        assert (seen, process.returncode) == ([3], 3)
