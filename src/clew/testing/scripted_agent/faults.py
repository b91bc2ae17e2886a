"""The faults of the script that `CLEW_SCRIPT` names (the package's docstring has the tables)."""
# ruff: noqa: PTH123

from __future__ import annotations

import os
import sys
import time
from _signal import SIG_DFL, SIG_IGN, SIGKILL, SIGTERM, signal  # type: ignore[import-not-found]

from .lines import loads

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import NoReturn

    from .lines import Line


class Faults:
    """The faults of the script."""

    def __init__(self, resuming: bool) -> None:
        self.kind = "resume" if resuming else "fresh"
        self.turn = 1
        path = os.environ.get("CLEW_SCRIPT")
        self.all: list[Line] = []
        if path:
            with open(path, "rb") as file:
                self.all = loads(file.read())["faults"]

    def take(self, *names: str) -> Line | None:
        """The first fault with one of these names that applies now. A fault with `once` is then used up."""
        for fault in self.all:
            applies = fault.get("on", "any") in ("any", self.kind) and fault.get("turn", self.turn) == self.turn
            if applies and fault["do"] in names and self._unused(fault.get("once")):
                return fault
        return None

    @staticmethod
    def _unused(marker: str | None) -> bool:
        if marker is None:
            return True
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True


def crash(fault: Line) -> NoReturn:
    sys.stderr.write(fault.get("stderr", ""))
    sys.stderr.flush()
    if "signal" in fault:
        if fault["signal"] != SIGKILL:  # SIGKILL cannot have a handler
            signal(fault["signal"], SIG_DFL)
        os.kill(os.getpid(), fault["signal"])
    os._exit(fault.get("rc", 1))


def hang(fault: Line) -> NoReturn:
    if fault.get("ignore_term"):
        signal(SIGTERM, SIG_IGN)
    while True:
        time.sleep(3600)
