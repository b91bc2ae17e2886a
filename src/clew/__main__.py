"""`clew`, and `python -m clew`. A running resident carries the command out if it can; else this process does."""

from __future__ import annotations

import os

import clew
from clew.resident.start import hand_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def entry() -> NoReturn:
    status = hand_over(clew.__version__, os.path.dirname(clew.__file__))  # noqa: PTH120 - pathlib loads too much
    if status is not None:
        os._exit(status)
    from clew.cli.main import entry as run_here

    run_here()


if __name__ == "__main__":
    entry()
