"""Ways to ask a follow-up: the bare CLI, `clew ask` without and with a daemon, and HTTP. `peers.py` has others.

Each way has a session of its own; all have the same work directory, agent and model API. A turn is timed from the
request to the end of everything that the caller waits for, and to the first text of the answer that the caller sees.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from websockets.sync.client import ClientConnection, connect

from bench.bare import BareConversation
from bench.delivery import LIMIT_S, Daemon, serving
from bench.startup import clew_script
from clew.testing.stage import MODEL, Stage

THREAD = "bench"
BARE = "bare `claude -p --resume=<id>`"
COLD = "`clew ask -t NAME`"
RESIDENT = "`clew ask -t NAME`, with the daemon"
HTTP = "HTTP: `POST …/runs`, and the WebSocket"
WARM = {"CLEW_WARM_KEYS": "true"}  # the stage's agents have an API key in their environment


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds after the request."""

    first_text_s: float
    all_s: float


class FollowUp(Protocol):
    @property
    def name(self) -> str: ...

    def turn(self, prompt: str) -> Took:
        """One turn. The first begins the session. Raises RuntimeError if it had no answer."""


def check_answer(name: str, prompt: str, text: str) -> None:
    """The scripted model repeats the prompt: a turn that failed or was not the right one must not be measured."""
    if prompt not in text:
        raise RuntimeError(f"{name} did not answer {prompt!r}: {text[-500:]!r}")


class Bare:
    name = BARE

    def __init__(self, stage: Stage, profile: Sequence[str]) -> None:
        self._conversation = BareConversation(stage, profile)

    def turn(self, prompt: str) -> Took:
        turn = self._conversation.turn(prompt)
        return Took(turn.first_text - turn.began, turn.took_s)


class Ask:
    """`clew ask`, with a Clew home of its own: another way's daemon does not serve it."""

    def __init__(self, stage: Stage, name: str, home: str, **environ: str) -> None:
        self.name = name
        self.environ = {**stage.environ, "CLEW_HOME": str(stage.folder / home), **environ}
        self._work = stage.work

    def turn(self, prompt: str) -> Took:
        began = time.perf_counter()
        with subprocess.Popen(
            [str(clew_script()), "ask", "-t", THREAD, "--model", MODEL, prompt],
            cwd=self._work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            text = os.read(process.stdout.fileno(), 2**16)
            first_text = time.perf_counter()
            text += process.stdout.read()
        ended = time.perf_counter()
        check_answer(self.name, prompt, text.decode())
        return Took(first_text - began, ended - began)


def has_resident() -> bool:
    """Whether this Clew can be started in the background."""
    return subprocess.run([str(clew_script()), "up", "--help"], capture_output=True).returncode == 0


@contextmanager
def resident(stage: Stage) -> Iterator[Ask]:
    """`clew ask` while a daemon runs in the background, which keeps its agents."""
    way = Ask(stage, RESIDENT, "clew-resident", **WARM)
    _in_background(way, stage, "up")
    try:
        yield way
    finally:
        _in_background(way, stage, "down")


def _in_background(way: Ask, stage: Stage, command: str) -> None:
    """The output goes to a file: the daemon may keep it open for longer than the command runs."""
    with (stage.folder / "resident.log").open("ab") as log:
        done = subprocess.run(
            [str(clew_script()), command],
            cwd=stage.work,
            env=way.environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=LIMIT_S,
        )
    if done.returncode:
        said = (stage.folder / "resident.log").read_text()[-500:]
        raise RuntimeError(f"clew {command} ended with {done.returncode}: {said}")


class Http:
    """A program that follows the thread by the WebSocket, as a page does, and sends each prompt by a request."""

    name = HTTP

    def __init__(self, daemon: Daemon, socket: ClientConnection) -> None:
        self._daemon = daemon
        self._socket = socket

    def turn(self, prompt: str) -> Took:
        began = time.perf_counter()
        run = self._daemon.post(f"/api/threads/{THREAD}/runs", {"prompt": prompt})["id"]
        first_text, text = 0.0, ""
        while True:
            for event in self._events(run):
                if event["kind"] == "text_streamed":
                    first_text = first_text or time.perf_counter()
                    text += event["body"]["text"]
                if event["kind"] == "run_ended":
                    ended = time.perf_counter()
                    check_answer(self.name, prompt, text)
                    return Took(first_text - began, ended - began)

    def _events(self, run: str) -> list[dict[str, Any]]:
        message = json.loads(self._socket.recv(LIMIT_S))
        return message["events"] if message["type"] == "events" and message["run"] == run else []


@contextmanager
def http(stage: Stage) -> Iterator[Http]:
    home = {"CLEW_HOME": str(stage.folder / "clew-http")}
    with serving(stage, **home, **WARM) as daemon:
        new = {"name": THREAD, "cwd": str(stage.work), "model": MODEL}
        thread = daemon.post("/api/threads", new)
        with connect(
            f"ws://127.0.0.1:{daemon.port}/api/live",
            additional_headers={"Authorization": f"Bearer {daemon.token}"},
            proxy=None,
            max_size=None,
        ) as socket:
            socket.send(json.dumps({"type": "watch", "thread": thread["id"], "after": {}}))
            yield Http(daemon, socket)
