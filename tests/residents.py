"""Residents for tests: `clew` commands of a home are handed over to a fork server, forked from this worker's.

    TESTS_RESIDENT=1 pytest tests/cli          # every ask, chat, review and pair that a test runs is handed over
    TESTS_RESIDENT=strict pytest tests/cli     # the same, and one that the resident declines exits with 99

A test can also ask for one: `with Resident(environ) as resident`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from clew.resident.start import COMMANDS

MODE = os.environ.get("TESTS_RESIDENT", "")
ALWAYS = bool(MODE)
HANDED_OVER = [sys.executable, str(Path(__file__).with_name("handed_over.py"))]
ORDINARY = [sys.executable, "-m", "clew"]
COMMAND = HANDED_OVER if MODE == "strict" else ORDINARY
PROGRAM = Path(__file__).with_name("resident_program.py")
MOST = 4  # residents at once
WAIT_S = "60"  # a slow machine must not decide who carries a command out


class NotStarted(Exception):
    """The fork server has ended."""


class Resident:
    """A fork server for the home that the environment names."""

    _of_homes: ClassVar[dict[str, Resident | None]] = {}

    def __init__(
        self, environ: Mapping[str, str], *, runtime: Path | None = None, program: Sequence[str] | None = None
    ) -> None:
        """`program` is started, instead of a fork of this worker's fork server. Its stdin is the daemon."""
        self._own = runtime is None
        self.runtime = Path(tempfile.mkdtemp(prefix="clew-run-")) if runtime is None else runtime
        self.environ = {**environ, "XDG_RUNTIME_DIR": str(self.runtime), "CLEW_RESIDENT_WAIT": WAIT_S}
        self.daemon, theirs = socket.socketpair()
        self.daemon.settimeout(60)
        import forkserver  # which imports this module

        with theirs:
            options: Any = {"env": self.environ, "cwd": "/", "stdin": theirs.fileno()}
            self.process: Any = (
                subprocess.Popen(program, **options) if program else forkserver.start([], script=PROGRAM, **options)
            )
        self._heard = b""
        try:
            self.hear("listening")
        except NotStarted:
            self.close()
            raise
        [self.socket] = (self.runtime / "clew").glob("*.socket")

    def __enter__(self) -> Resident:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hear(self, words: str) -> None:
        """Waits until the fork server says this."""
        while f"{words}\n".encode() not in self._heard:
            piece = self.daemon.recv(4096)
            if not piece:
                raise NotStarted(f"the fork server ended before it said {words!r}: {self._heard!r}")
            self._heard += piece
        self._heard = self._heard.partition(f"{words}\n".encode())[2]

    def close(self) -> None:
        self.daemon.close()
        self.process.wait(60)
        if self._own:
            shutil.rmtree(self.runtime, ignore_errors=True)

    @classmethod
    def close_all(cls) -> None:
        for resident in cls._of_homes.values():
            if resident is not None:
                resident.close()
        cls._of_homes.clear()

    @classmethod
    def of_home(cls, environ: Mapping[str, str]) -> Resident | None:
        """The one of that home, which is started if needed. None: it cannot start; its settings are wrong.

        The oldest ones are ended: their tests are over.
        """
        home = environ["CLEW_HOME"]
        if home not in cls._of_homes:
            if len(cls._of_homes) >= MOST:
                cls.close_all()
            try:
                cls._of_homes[home] = cls(
                    {name: value for name, value in environ.items() if name == "CLEW_HOME" or name[:5] != "CLEW_"}
                )
            except NotStarted:
                cls._of_homes[home] = None
        return cls._of_homes[home]


def environ_for(words: list[str], environ: Mapping[str, str]) -> dict[str, str] | None:
    """The environment with which the command is handed over; None: it is not one of those, or this is not asked for."""
    if not ALWAYS or not words or words[0] not in COMMANDS or "CLEW_HOME" not in environ:
        return None
    if (resident := Resident.of_home(environ)) is None:
        return None
    return {**environ, "XDG_RUNTIME_DIR": str(resident.runtime), "CLEW_RESIDENT_WAIT": WAIT_S}
