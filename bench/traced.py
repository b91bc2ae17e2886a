"""Runs `clew` in this process and records when it reaches each point. A child of `bench.phases`, not a command.

    python traced.py OUT_FILE ask -t NAME PROMPT

Each point has its wall-clock time and the CPU time that this process had used by then. The points are the engine's
named fault points, and the launch of the agent (not the start of git before it). The recorded modules are those that
were loaded by then: later ones are imported while the agent starts, which costs no time.
"""

import gc
import os
import sys
import time

BEGAN = (time.time(), time.process_time())
ALREADY_LOADED = set(sys.modules)  # by the interpreter itself

import json  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NoReturn  # noqa: E402


def main(out: str, argv: list[str]) -> NoReturn:
    """Like `clew.cli.main.entry`: no garbage is collected while modules load, and the interpreter is not shut down."""
    gc.disable()

    from clew.cli.client_runner import load_asyncio_quickly
    from clew.cli.main import main as clew

    load_asyncio_quickly()  # as a command does: an import of asyncio before that would load ssl

    from clew.engine import faults
    from clew.engine.process import agent

    points = {"began": BEGAN}
    modules: list[str] = []

    def passed(point: str) -> None:
        points.setdefault(point, (time.time(), time.process_time()))

    async def timed_launch(*args: Any, **options: Any) -> Any:
        passed("spawning")
        modules.extend(name for name in sys.modules if name not in ALREADY_LOADED)
        return await launch(*args, **options)

    faults.install(passed)
    launch = agent.launch
    agent.launch = timed_launch
    status = clew(argv)
    passed("returned")
    Path(out).write_text(json.dumps({"points": points, "modules": modules}))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
