"""Follow-ups with what others offer for them: the client of `claude-agent-sdk`, and `claude-agent-acp`.

Both keep the same Claude CLI running between two turns. The second is not a Python package: npm installs it, by name
and version, into a folder of this virtual environment, when a run that is not a quick one needs it for the first time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bench.delivery import LIMIT_S
from bench.follow_ups import Took, check_answer
from bench.timing import tell
from clew.testing.stage import MODEL, Stage

SDK_CLIENT = Path(__file__).parent / "sdk_client.py"
ACP_PACKAGE = "@agentclientprotocol/claude-agent-acp"
ACP_VERSION = "0.99.1"
NODE_PACKAGE, NODE_MAJOR = "node@24.21.0", 22  # the package is installed where there is no Node, or an older one
ACP_FOLDER = Path(sys.prefix) / "bench" / f"claude-agent-acp-{ACP_VERSION}"


class SdkClient:
    name = "`claude-agent-sdk`, the same client"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def turn(self, prompt: str) -> Took:
        _write(self._process.stdin, prompt)
        said = _read(self._process.stdout, self.name)
        check_answer(self.name, prompt, said["text"])
        return Took(said["first_text_s"], said["all_s"])


@contextmanager
def sdk_client(stage: Stage) -> Iterator[SdkClient]:
    with _running([sys.executable, str(SDK_CLIENT), str(stage.binary), MODEL], stage) as process:
        yield SdkClient(process)


class AcpConnection:
    """One process of the agent, and one session in it."""

    def __init__(self, process: subprocess.Popen[str], stage: Stage) -> None:
        self._process = process
        self._place = {"cwd": str(stage.work), "mcpServers": []}
        self._requests = 0
        self.session_id = ""
        self.request("initialize", protocolVersion=1, clientCapabilities={})

    def new(self) -> None:
        self.session_id = self.request("session/new", **self._place)["sessionId"]

    def load(self, session_id: str) -> None:
        self.request("session/load", sessionId=session_id, **self._place)
        self.session_id = session_id

    def prompt(self, text: str) -> tuple[str, float]:
        """The answer, and when its first piece arrived."""
        pieces: list[tuple[str, float]] = []
        self.request("session/prompt", pieces, sessionId=self.session_id, prompt=[{"type": "text", "text": text}])
        return "".join(piece for piece, _ in pieces), pieces[0][1] if pieces else time.perf_counter()

    def request(self, method: str, pieces: list[tuple[str, float]] | None = None, /, **params: object) -> Any:
        """The result. Meanwhile the agent's own requests are refused, and pieces of its text are collected."""
        self._requests += 1
        self._send(id=self._requests, method=method, params=params)
        while True:
            message = _read(self._process.stdout, "claude-agent-acp")
            if "method" in message and "id" in message:
                self._send(id=message["id"], error={"code": -32601, "message": "This client offers nothing."})
            elif message.get("id") == self._requests:
                if "error" in message:
                    raise RuntimeError(f"claude-agent-acp refused {method}: {message['error']}")
                return message["result"]
            elif pieces is not None and message.get("method") == "session/update":
                update = message["params"]["update"]
                if update["sessionUpdate"] == "agent_message_chunk":
                    pieces.append((update["content"]["text"], time.perf_counter()))

    def _send(self, **message: object) -> None:
        _write(self._process.stdin, {"jsonrpc": "2.0", **message})


class AcpKept:
    name = "`claude-agent-acp`, the same process"

    def __init__(self, connection: AcpConnection) -> None:
        self._connection = connection
        connection.new()

    def turn(self, prompt: str) -> Took:
        began = time.perf_counter()
        text, first_text = self._connection.prompt(prompt)
        ended = time.perf_counter()
        check_answer(self.name, prompt, text)
        return Took(first_text - began, ended - began)


@contextmanager
def acp_kept(stage: Stage, command: Sequence[str]) -> Iterator[AcpKept]:
    with _acp(stage, command) as connection:
        yield AcpKept(connection)


class AcpLoaded:
    """Each turn in a new process, which loads the session. The process is ended after the answer, untimed."""

    name = "`claude-agent-acp`, a new process with `session/load`"

    def __init__(self, stage: Stage, command: Sequence[str]) -> None:
        self._stage = stage
        self._command = command
        self._session_id = ""

    def turn(self, prompt: str) -> Took:
        began = time.perf_counter()
        with _acp(self._stage, self._command) as connection:
            if self._session_id:
                connection.load(self._session_id)
            else:
                connection.new()
            text, first_text = connection.prompt(prompt)
            ended = time.perf_counter()
        self._session_id = connection.session_id
        check_answer(self.name, prompt, text)
        return Took(first_text - began, ended - began)


@contextmanager
def _acp(stage: Stage, command: Sequence[str]) -> Iterator[AcpConnection]:
    """Without the prompts that it suggests: they are requests to the model after the turn, so during the next way's."""
    environ = {
        "CLAUDE_CODE_EXECUTABLE": str(stage.binary),
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "ANTHROPIC_MODEL": MODEL,
    }
    with _running(command, stage, **environ) as process:
        yield AcpConnection(process, stage)


def acp_command(*, install: bool) -> Sequence[str] | None:
    """How `claude-agent-acp` is started, or None when it is not there (and, with `install`, npm cannot install it)."""
    program = ACP_FOLDER / "node_modules" / ACP_PACKAGE / "dist" / "index.js"
    if not program.is_file() and not (install and _installed()):
        return None
    node = ACP_FOLDER / "node_modules" / "node" / "bin" / "node"
    return [str(node) if node.is_file() else "node", str(program)]


def _installed() -> bool:
    """Without the Claude CLI that it would bring: the same one is used for all."""
    path = f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"
    npm = shutil.which("npm", path=path)
    if npm is None:
        return False
    packages = [f"{ACP_PACKAGE}@{ACP_VERSION}", *([] if _has_node(path) else [NODE_PACKAGE])]
    tell(f"  npm installs {' and '.join(packages)} into {ACP_FOLDER}")
    draft = ACP_FOLDER.with_name(f"{ACP_FOLDER.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(draft)]
    done = subprocess.run([*command, *packages], cwd=draft, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
    if done.returncode:
        return False
    draft.rename(ACP_FOLDER)
    return True


def _has_node(path: str) -> bool:
    node = shutil.which("node", path=path)
    if node is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.strip().removeprefix("v").partition(".")[0]) >= NODE_MAJOR


@contextmanager
def _running(command: Sequence[str], stage: Stage, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is asked on its stdin and ends when that is closed."""
    process = subprocess.Popen(
        command,
        cwd=stage.work,
        env={**stage.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(LIMIT_S)
        process.stdout.close()


def _write(stream: IO[str] | None, message: object) -> None:
    assert stream is not None
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _read(stream: IO[str] | None, name: str) -> Any:
    assert stream is not None
    line = stream.readline()
    if not line:
        raise RuntimeError(f"{name} ended without an answer")
    return json.loads(line)
