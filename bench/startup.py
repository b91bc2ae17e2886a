"""`clew --help` compared with `python -c pass`: how long the program takes to start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, ratios

LIMIT = 6.0


def clew_script() -> Path:
    """The installed script, beside the interpreter that runs this."""
    path = Path(sys.executable).parent / "clew"
    if not path.is_file():
        raise FileNotFoundError("there is no clew script beside this Python: install the project first")
    return path


def timed(argv: Sequence[str], environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, env=environ, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(quick: bool) -> Result:
    commands = {
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`clew --help`": [str(clew_script()), "--help"],
        "`clew --version`": [str(clew_script()), "--version"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        for argv in commands.values():
            timed(argv, environ)  # the first call writes the bytecode
        for _ in counted("start-up", 15 if quick else 60):
            for name, argv in commands.items():
                times[name].append(timed(argv, environ))
    bare = times["`python -c pass`"]
    rows = []
    for name, values in times.items():
        sample = Sample.of(values)
        ratio = sample.median / Sample.of(bare).median
        spread = ratios(values, bare).spread(1, ".2f") if values is not bare else None
        rows.append((name, sample.n, sample.median * 1000, sample.spread(1000, ".1f"), ratio, spread))
    columns = [
        Column("command"),
        Column("n", "d"),
        Column("median ms", ".1f"),
        Column("middle half, ms"),
        Column("× python", ".2f"),
        Column("middle half of the ratio"),
    ]
    check = Check("`clew --help` ÷ `python -c pass`", rows[1][4], LIMIT, timed=True)
    return Result("startup", [Table("Start-up, interleaved runs", columns, rows)], [check])
