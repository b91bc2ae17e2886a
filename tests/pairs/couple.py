"""Scripted pairs for tests: the answers of instructor and worker, and a driver that can be killed at any point."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import forkserver
from clew.api.client import Client
from clew.core.pairs import prompts as words
from clew.core.pairs.pair import Pair, PairPart
from clew.hosts.pairs.live import LivePair, PairRunOptions
from clew.hosts.pairs.pairs import NewPair, PairState
from clew.hosts.pairs.rows import ResumeOptions
from clew.testing.model.scripts import Reply, Request, Text
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import tokens

DRIVER = Path(__file__).with_name("driver.py")
TASK = "u1z Build the thing."


def order(instruction: str, *, go_on: bool = True, **more: Any) -> str:
    body = {
        "thinking": "It comes next.",
        "instruction": instruction,
        "worker_model": None,
        "should_continue": go_on,
        "needs_correction": False,
    }
    return json.dumps(body | more)


def is_instructor(request: Request) -> bool:
    """Recognised by its rubric, which is in the first prompt of a session, or in a later one if it has changed."""
    return any("You lead the work on a task" in text for _, text in request.shown_texts())


class Couple:
    """The instructor gives `rounds` orders, one after each report, and then says that the task is done.

    Every answer contains a unique token, so that what the model was shown can be compared with the threads. `orders`
    and `reports` replace the next answers; `busy` replaces the report on the order of that number.
    """

    def __init__(self, stage: Stage, rounds: int = 3) -> None:
        self.rounds = rounds
        self.orders: list[str | Reply] = []
        self.reports: list[str | Reply] = []
        self.busy: dict[int, Reply] = {}
        self.requests: dict[PairPart, list[Request]] = {part: [] for part in PairPart}
        self._count = itertools.count(1)
        stage.api.reply = self

    def __call__(self, request: Request) -> Reply | None:
        if not request.is_main:
            return None
        part = PairPart.INSTRUCTOR if is_instructor(request) else PairPart.WORKER
        self.requests[part].append(request)
        waiting = self.orders if part is PairPart.INSTRUCTOR else self.reports
        if waiting:
            given = waiting.pop(0)
            return Text(given) if isinstance(given, str) else given
        shown = "\n".join(text for _, text in request.shown_texts())
        token = f"a{next(self._count)}z"
        if part is PairPart.WORKER:
            number = len(set(re.findall(r"order-[0-9]+", shown)))
            return self.busy.pop(number, None) or Text(f"report-{number} {token}")
        number = len(set(re.findall(r"report-[0-9]+", shown))) + 1
        if number > self.rounds:
            return Text(order(f"All of it is done. {token}", go_on=False))
        return Text(order(f"order-{number} {token}"))

    def shown(self, part: PairPart) -> list[str]:
        """The tokens in that part's newest request, in order."""
        return [token for _, text in self.requests[part][-1].shown_texts() for token in tokens(text)]

    def prompt(self, part: PairPart) -> str:
        """The newest user text that the part was shown."""
        return [text for role, text in self.requests[part][-1].shown_texts() if role == "user"][-1]

    async def check_shown(self, client: Client, pair: Pair) -> None:
        """Each part was shown every turn of its thread once, in order, except the last turn, which is its answer."""
        for part in PairPart:
            said = [token for text in (await turns(client, pair, part))[:-1] for token in tokens(text)]
            assert self.shown(part) == said, part


async def start(client: Client, stage: Stage, **more: Any) -> LivePair:
    manner = PairRunOptions(auto_save=more.pop("auto_save", True))
    fields = {"task": TASK, "cwd": str(stage.work), "agent": "claude", "instructor_model": MODEL, "worker_model": MODEL}
    return await client.pairs.start(NewPair(**{**fields, **more}), manner)


async def finished(client: Client, live: LivePair) -> PairState:
    await live.finish()
    return await client.pairs.find(live.pair.id)


async def carried_out(client: Client, stage: Stage, **more: Any) -> PairState:
    return await finished(client, await start(client, stage, **more))


async def resumed(client: Client, pair: Pair, message: str = "", **more: Any) -> PairState:
    return await finished(client, await client.pairs.resume(pair.id, ResumeOptions(message=message, **more)))


async def turns(client: Client, pair: Pair, part: PairPart) -> list[str]:
    return [
        turn.text for turn in await client.engine.store.call(lambda store: store.turns.history(pair.thread_of(part)))
    ]


def die(stage: Stage, point: str, passing: int, *args: str) -> None:
    """Runs `clew pair …` in a process that is killed when it passes that point for the nth time."""
    done = run(stage, *args, CLEW_DIE_AT=f"{point}:{passing}")
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def run(stage: Stage, *args: str, given: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """`given` is its stdin."""
    environ = {**stage.environ, "CLEW_MODEL": MODEL, **environ}
    return forkserver.run(
        "pair", *args, script=DRIVER, env=environ, cwd=stage.work, input=given, timeout=100, text=False
    )


@contextlib.contextmanager
def begun(stage: Stage, *args: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `clew pair …` in the background, and ends it with the context."""
    with ended_with_context(forkserver.start(["pair", *args], script=DRIVER, **options(stage, **environ))) as process:
        yield process


@contextlib.contextmanager
def started(stage: Stage, command: list[str], **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs any program in the background, and ends it with the context."""
    process = subprocess.Popen(command, preexec_fn=forkserver.restore_sigint, **options(stage, **environ))
    with ended_with_context(process):
        yield process


def options(stage: Stage, **environ: str) -> dict[str, Any]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Unbuffered: else `communicate` would miss what `readline` had read beyond its line.
    return {"env": {**stage.environ, "CLEW_MODEL": MODEL, **environ}, "cwd": stage.work, "bufsize": 0, **pipes}


@contextlib.contextmanager
def ended_with_context(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def files_under(*folders: Path) -> Iterable[Path]:
    return (path for folder in folders for path in folder.rglob("*") if path.is_file())


CONTINUE = words.CONTINUE_PAIR
