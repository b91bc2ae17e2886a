"""`clew --help` compared with `python -c pass`: how long the program takes to start.

Also how long `clew ask` takes until it has sent its request to a resident. A socket of this program stands for that.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, ratios
from clew import __version__
from clew.api.daemons import socket_path
from clew.resident.request import GO, LENGTH_BYTES

LIMIT = 6.0
HANDED_OVER_LIMIT = 2.5


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


@contextmanager
def listening(environ: dict[str, str]) -> Iterator[socket.socket]:
    """A socket where the resident of the environment's home would listen."""
    home = Path(environ["CLEW_HOME"])
    path = socket_path(environ, home)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(path))
        found.listen()
        yield found


def until_request(argv: Sequence[str], environ: dict[str, str], resident: socket.socket) -> float:
    """Seconds until the command has sent its request."""
    began = time.perf_counter()
    with subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        connection, _ = resident.accept()
        with connection, connection.makefile("rb") as request:
            request.read(int.from_bytes(request.read(LENGTH_BYTES), "big"))
            took = time.perf_counter() - began
            connection.sendall(f"ready {os.getpid()} {__version__}\n".encode())
            request.read(len(GO))
            connection.sendall(b"exit 0\n")
        if process.wait():
            raise RuntimeError("clew did not hand its command over")
    return took


def measure(quick: bool) -> Result:
    commands = {
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`clew --help`": [str(clew_script()), "--help"],
        "`clew --version`": [str(clew_script()), "--version"],
    }
    handed_over = "`clew ask`, until its request is sent"
    ask = [str(clew_script()), "ask", "hello"]
    times: dict[str, list[float]] = {name: [] for name in (*commands, handed_over)}
    with tempfile.TemporaryDirectory(prefix="clew-") as home:
        environ = {"HOME": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "CLEW_HOME": home}
        environ |= {"XDG_RUNTIME_DIR": home, "CLEW_RESIDENT_WAIT": "60"}
        for argv in commands.values():
            timed(argv, environ)  # the first call writes the bytecode
        with listening(environ) as resident:
            until_request(ask, environ, resident)
            for _ in counted("start-up", 15 if quick else 60):
                for name, argv in commands.items():
                    times[name].append(timed(argv, environ))
                times[handed_over].append(until_request(ask, environ, resident))
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
    checks = [
        Check("`clew --help` ÷ `python -c pass`", rows[1][4], LIMIT, timed=True),
        Check("`clew ask` until its request is sent ÷ `python -c pass`", rows[-1][4], HANDED_OVER_LIMIT, timed=True),
    ]
    return Result("startup", [Table("Start-up, interleaved runs", columns, rows)], checks)
