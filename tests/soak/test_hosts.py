"""Workers on two hosts with different clocks, on PostgreSQL, are killed and stopped; a reader has a fast clock.

The second host consists of namespaces: it has another name and other process ids, so that its processes are not visible
from outside.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clew.core.jobs.job import JobStatus, Limits
from clew.core.runs.run import RunStatus
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, tokens
from jobs.processes import a_job
from jobs.test_workers import patiently
from soak.script import SECONDS, new_seed

WORKER = Path(__file__).with_name("worker.py")
ELSEWHERE = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
SKEWS_S = (0.0, 45.0, -45.0)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS * 4 + 600)]


def start(stage: Stage, environ: dict[str, str], what: str, skew_s: float, host: str | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WORKER), what, str(skew_s)]
    if host is not None:
        command = [*ELSEWHERE, f'hostname {host}; exec "$0" "$@"', *command]
    with (stage.folder / "hosts.log").open("ab") as log:
        return subprocess.Popen(command, env={**stage.environ, **environ}, stderr=log)


async def test_jobs_end_once_on_two_hosts_whose_clocks_disagree(scripted: Stage, postgres: PostgresServer) -> None:
    import random

    assert shutil.which("unshare") and subprocess.run([*ELSEWHERE, "hostname b"], check=False).returncode == 0, (
        "the second host needs namespaces: run it as root, or where users may make them"
    )
    seed = new_seed()
    print(f"CLEW_SOAK_SEED={seed}")
    dice, voice, environ = random.Random(seed), TokenModel(scripted.api), {"CLEW_STORE": postgres.new_store()}
    skews = dict(zip((None, "b", "c"), dice.sample(SKEWS_S, 3), strict=True))
    limits = Limits(max_resumes=1000, max_runs=1000)
    async with scripted.open(environ=environ) as client:
        alive = {host: start(scripted, environ, "work", skew, host) for host, skew in skews.items()}
        jobs, until = [], time.monotonic() + SECONDS
        try:
            while time.monotonic() < until:
                jobs.append(
                    await client.jobs.submit(
                        a_job(scripted, voice.prompt("slowly"), key=f"k{dice.randrange(6)}", limits=limits)
                    )
                )
                await asyncio.sleep(dice.uniform(0.1, 1.0))
                await _disturb(scripted, environ, dice, alive, skews)
            done = [await patiently(client, job.id, 300) for job in jobs]
        finally:
            for process in alive.values():
                process.kill()
                process.wait()
        assert [job.status for job in done] == [JobStatus.SUCCEEDED] * len(done), [job.error for job in done]
        for job in done:
            runs = await client.runs(thread=await client.find(job.thread_id), limit=1000)
            assert [run.status for run in runs].count(RunStatus.ANSWERED) == 1, "every job ends exactly once"
        own = {tokens(job.prompt)[0]: {*tokens(job.prompt), *_said(await _texts(client, job))} for job in done}
        for request in scripted.api.main_requests:
            shown = voice.tokens_of(request)
            assert shown.count(shown[0]) == 1, "its prompt, once"
            assert set(shown) <= own[shown[0]], "and nothing that its thread does not hold"


async def _texts(client, job) -> list[str]:  # type: ignore[no-untyped-def]
    return [turn.text for turn in await (await client.find(job.thread_id)).turns()]


def _said(texts: list[str]) -> list[str]:
    return [token for text in texts for token in tokens(text)]


async def _disturb(stage, environ, dice, alive, skews) -> None:  # type: ignore[no-untyped-def]
    host = dice.choice(list(alive))
    what = dice.choice(["nothing", "nothing", "kill", "stop", "read"])
    if what == "kill":
        alive[host].kill()
        alive[host].wait()
        alive[host] = start(stage, environ, "work", skews[host], host)
    elif what == "stop" and host is None:  # inside namespaces the signal would stop `unshare`
        alive[host].send_signal(signal.SIGSTOP)
        await asyncio.sleep(dice.uniform(0.5, 3.0))
        with suppress(ProcessLookupError):
            alive[host].send_signal(signal.SIGCONT)
    elif what == "read":
        reader = start(stage, environ, "read", 45.0, None)
        await asyncio.to_thread(reader.wait, 60)
