"""`clew ARGS`, carried out by a resident or not at all: the exit status 99 says that none took the command."""

from __future__ import annotations

import os
import sys

import clew
from clew.resident.start import hand_over

NOT_HANDED_OVER = 99

if __name__ == "__main__":
    sys.argv[0] = "clew"
    status = hand_over(clew.__version__, os.path.dirname(clew.__file__))  # noqa: PTH120 - as in `clew.__main__`
    os._exit(NOT_HANDED_OVER if status is None else status)
