"""Runs `clew` in this process and records when it reaches each point. A child of `bench.phases`, not a command.

    python traced.py OUT_FILE ask -t NAME PROMPT

Each point has its wall-clock time and the CPU time that this process had used by then. The points are the engine's
named fault points, and the spawn itself. The recorded modules are those that were loaded when the agent was spawned:
later ones are imported while the agent starts, which costs no time.
"""

import sys
import time

BEGAN = (time.time(), time.process_time())
ALREADY_LOADED = set(sys.modules)  # by the interpreter itself

import json  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


def main(out: str, argv: list[str]) -> int:
    from clew.cli.main import main as clew

    points = {"began": BEGAN}
    modules: list[str] = []

    def passed(point: str) -> None:
        points.setdefault(point, (time.time(), time.process_time()))

    async def timed_spawn(*args: Any, **options: Any) -> Any:
        passed("spawning")
        process = await spawn(*args, **options)
        modules.extend(name for name in sys.modules if name not in ALREADY_LOADED)
        return process

    import asyncio

    from clew.engine import faults

    faults.install(passed)
    spawn = asyncio.create_subprocess_exec
    asyncio.create_subprocess_exec = timed_spawn
    status = clew(argv)
    passed("returned")
    Path(out).write_text(json.dumps({"points": points, "modules": modules}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
