"""A command that a resident carries out prints, changes and returns what it does by itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from cli.conftest import Cli
from conftest import make_stage
from residents import HANDED_OVER, ORDINARY, Resident

HELLO = ("ask", "-t", "t", "hello")
TOUCH = ("ask", "-t", "t", "--permissions", "all", '!tool Bash {"command": "touch made; pwd; umask"}')
CASES = [
    *[HELLO, (*HELLO, "--json"), ("ask", "-t", "t", "-"), ("ask", "-t", "t", "look:"), ("ask", "-t", "t", "")],
    *[("ask", "-t", "t", "--explain", "hello"), ("ask", "--no-such-option"), ("ask", "-c", "on"), TOUCH],
    *[("ask", "-t", "t", "!fail 429 rate_limit_error Slow down"), ("ask", "-t", "t", "--agent", "none", "hello")],
    *[("chat",), ("review", "list"), ("review", "show", "none"), ("review",), ("review", "start", "--base", "none")],
    *[("pair", "--list-sessions"), ("pair", "--resume", "none"), ("pair", "--rounds", "0", "task")],
]
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{12,32}\b|\d\.\d+s|[\d,]+ tokens \([\d,]+ cached\)|\$[\d.]+")
FIGURES = re.compile(r'"(\w*tokens|\w*cost\w*|took\w*|\w*_at|created|id|run)": ?[^,}]+')


class Way:
    """One stage, on which every command is carried out in one way."""

    def __init__(self, stage: Stage, environ: dict[str, str], command: list[str]) -> None:
        self.stage = stage
        self.environ = environ
        self.command = command

    def run(self, *args: str, stdin: bytes, before: Callable[[], object] | None = None) -> tuple[int, str, str]:
        done = subprocess.run(
            [*self.command, *args],
            input=stdin,
            env=self.environ,
            cwd=self.stage.work,
            capture_output=True,
            preexec_fn=before,
            timeout=120,
        )
        return done.returncode, self._neutral(done.stdout), self._neutral(done.stderr)

    def _neutral(self, text: bytes) -> str:
        """Without what differs between two stages."""
        words = text.decode().replace(str(self.stage.folder), "STAGE")
        return FIGURES.sub(r'"\1": …', IDS.sub("…", words))

    def made(self) -> dict[str, int]:
        return {path.name: path.stat().st_mode for path in self.stage.work.iterdir()}


@pytest.fixture
def ways(tmp_path: Path, api: ModelApi) -> Any:
    with make_stage("scripted", tmp_path / "a", api) as one, make_stage("scripted", tmp_path / "b", api) as other:
        by_itself = Way(one, {**Cli(one).environ(), "CLEW_RESIDENT": "off"}, ORDINARY)
        with Resident(Cli(other).environ()) as resident:
            handed_over = Way(other, {**resident.environ, **Cli(other).environ()}, HANDED_OVER)
            yield by_itself, handed_over


def same(
    ways: tuple[Way, Way], *args: str, stdin: bytes = b"piped in", before: Callable[[], object] | None = None
) -> Any:
    by_itself, handed_over = (way.run(*args, stdin=stdin, before=before) for way in ways)
    assert handed_over == by_itself
    assert ways[0].made() == ways[1].made()
    return handed_over


@pytest.mark.parametrize(
    "args",
    [*CASES[:4], *(pytest.param(each, marks=pytest.mark.rest) for each in CASES[4:])],
    ids=lambda args: " ".join(args)[:40],
)
def test_its_output_and_its_exit_status(ways: Any, args: tuple[str, ...]) -> None:
    same(ways, *args)


def test_a_conversation(ways: Any) -> None:
    for prompt in ("one", "two", "three"):
        code, out, err = same(ways, "ask", "-t", "t", prompt)
        assert (code, out) == (0, "ack: piped in\n"), prompt
    assert "resumed" in err


@pytest.mark.rest
@pytest.mark.parametrize("closed", [0, 1, 2], ids=["stdin", "stdout", "stderr"])
def test_with_a_closed_stream(ways: Any, closed: int) -> None:
    same(ways, *HELLO, before=lambda: os.close(closed))


def test_the_umask_is_the_callers(ways: Any) -> None:
    same(ways, *TOUCH, before=lambda: os.umask(0o027) and None)
    assert ways[1].made()["made"] & 0o777 == 0o640


def test_in_a_directory_that_was_deleted(ways: Any, tmp_path: Path) -> None:
    def leave() -> None:
        gone = tmp_path / f"gone-{os.getpid()}"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    code, _, err = same(ways, *HELLO, before=leave)
    assert code == 2
    assert "The current directory no longer exists." in err


@pytest.mark.parametrize(
    "point",
    [
        "spawned",
        *(pytest.param(each, marks=pytest.mark.rest) for each in ("prompt_stored", "text_streamed", "outcome_known")),
    ],
)
def test_when_its_process_dies_at_a_fault_point(ways: Any, point: str) -> None:
    for way in ways:
        way.environ["CLEW_FAULT"] = point
    code, _, _ = same(ways, *HELLO)
    assert code == -signal.SIGKILL
    for way in ways:
        del way.environ["CLEW_FAULT"]
    code, out, _ = same(ways, *HELLO)
    assert (code, out) == (0, "ack: piped in\n")


def test_its_limits_are_the_callers(ways: Any) -> None:
    import resource

    code, out, _ = same(
        ways,
        *("ask", "-t", "t", "--permissions", "all", '!tool Bash {"command": "ulimit -n > made"}'),
        before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)),
    )
    assert code == 0, out
    assert (ways[1].stage.work / "made").read_text() == "200\n"
