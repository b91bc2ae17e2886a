"""`clew` that kills itself (SIGKILL) when it passes a named point for the nth time: CLEW_DIE_AT=POINT:N."""

from __future__ import annotations

import os
import signal
import sys

from clew.cli.main import entry
from clew.engine import faults

point, _, passing = os.environ.pop("CLEW_DIE_AT", "").partition(":")
passed = 0


def die(name: str) -> None:
    global passed
    passed += name == point
    if name == point and passed == int(passing):
        os.kill(os.getpid(), signal.SIGKILL)


if point:
    assert point in faults.POINTS
    faults.install(die)
sys.argv[0] = "clew"
entry()
