"""The time from an event's arrival from the agent to its arrival at a client of `clew serve`. It is on disk by then.

The daemon, the model API and the agents are other processes; this one only listens. Several threads stream at once,
each to a listener of its own; the times are those of the pieces of text. An event is sent only after its batch was
stored, so most of the time is spent waiting for the batch (50 ms at most).
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import MODEL, Stage

LIMIT_S = 120
CASES = ((1, 1000, 0.005), (10, 200, 0.02), (100, 40, 0.1))  # threads, words per thread, seconds between two words
QUICK = ((1, 100, 0.005), (5, 20, 0.02))


@dataclass(frozen=True)
class Daemon:
    stage: Stage
    port: int
    token: str
    pid: int

    def get(self, path: str) -> Any:
        return self._asked(path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._asked(path, json.dumps(body).encode())

    def _asked(self, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            body,
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
            return json.load(response)

    async def lags(self, run_id: str) -> list[float]:
        """For each piece of text, the seconds from the event's own time to its arrival."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        head = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        writer.write(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
        lags, seqs = [], []
        while True:
            line = await reader.readline()
            if not line.startswith(b"data: "):
                continue
            arrived = time.time()
            event = json.loads(line[6:])
            seqs.append(event["seq"])
            if event["kind"] == "text_streamed":
                lags.append(arrived - datetime.fromisoformat(event["at"]).timestamp())
            if event["kind"] == "run_ended":
                writer.close()
                if seqs != list(range(1, len(seqs) + 1)):
                    raise RuntimeError(f"events were lost: {seqs}")
                return lags


def measure(quick: bool) -> Result:
    rows = []
    for threads, words, delay_s in QUICK if quick else CASES:
        tell(f"  {threads} threads, {words} words each, one every {delay_s * 1000:.0f} ms")
        lags = sorted(_measured(threads, words, delay_s))
        rows.append((threads, f"{1 / delay_s:.0f}", len(lags), *(_at(lags, share) for share in (0.5, 0.95, 0.99, 1.0))))
    columns = (
        Column("threads at once"),
        Column("pieces a second each"),
        Column("pieces", ","),
        *(Column(name, ".0f") for name in ("median ms", "p95 ms", "p99 ms", "slowest ms")),
    )
    checks = [Check("p99 with one thread, ms", rows[0][5], 150, timed=True)]
    return Result("delivery", [Table("Delivery of events", columns, rows)], checks, ["No event was lost or doubled."])


def _at(ordered: list[float], share: float) -> float:
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _measured(threads: int, words: int, delay_s: float) -> list[float]:
    with running_daemon(threads) as daemon:
        return asyncio.run(_listen(daemon, threads, f"!slow {words} {delay_s}"))


async def _listen(daemon: Daemon, threads: int, prompt: str) -> list[float]:
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        tasks = []
        for number in range(threads):
            new = {"name": f"t{number}", "cwd": str(daemon.stage.work), "model": MODEL}
            thread = await asyncio.to_thread(daemon.post, "/api/threads", new)
            run = await asyncio.to_thread(daemon.post, f"/api/threads/{thread['id']}/runs", {"prompt": prompt})
            tasks.append(group.create_task(daemon.lags(run["id"])))
    return [lag for task in tasks for lag in task.result()]


@contextmanager
def running_daemon(threads: int, **environ: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder, model_api() as api:
        stage = Stage(Path(folder), api, scripted_agent.install(Path(folder) / "agent"))
        with serving(stage, CLEW_MAX_AGENTS=str(threads), **environ) as daemon:
            yield daemon


@contextmanager
def serving(stage: Stage, **environ: str) -> Iterator[Daemon]:
    """`clew serve` on a free port, with the stage's environment and these variables."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "serve", "--port", "0"],
        cwd=stage.work,
        env={**stage.environ, **environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.match(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", process.stdout.readline())
        if found is None:
            raise RuntimeError("clew serve did not start")
        yield Daemon(stage, int(found[1]), found[2], process.pid)
    finally:
        process.terminate()
        process.wait(LIMIT_S)


@contextmanager
def model_api() -> Iterator[Any]:
    """Runs in a process of its own, so that it does not slow down who listens or measures."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield _Elsewhere(ours.recv())
    finally:
        ours.send("end")
        process.join(LIMIT_S)


@dataclass(frozen=True)
class _Elsewhere:
    url: str


def _serve(pipe: Connection) -> None:
    with ModelApi() as api:
        pipe.send(api.url)
        pipe.recv()
