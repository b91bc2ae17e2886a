"""The host: the program that started the process. Its lines are read at any time, also during a turn.

It sends prompts, answers to questions, and control requests: to interrupt, to change the mode or the model. All output
to it is written here too, one line at a time. Every wait of the process also waits for the host (`Host.wait`).
"""
# ruff: noqa: PTH123

from __future__ import annotations

import os
import select
import sys
import time

from .lines import dumps, loads, new_id, text_of
from .options import Refused

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from .lines import Line
    from .options import Options
    from .session import ScriptedSession


class Interrupted(Exception):
    """The host, or a person at the terminal, has stopped the turn."""

    def __init__(self, where: str = "streaming") -> None:
        super().__init__(where)
        self.where = where


class Host:
    """What the host has sent so far, and the output to it."""

    def __init__(self, options: Options, cwd: str) -> None:
        self.cwd = cwd
        self.model = options.one("--model", "claude-sonnet-4-5")
        self.mode = options.one("--permission-mode", "default")
        self.session: ScriptedSession  # set when the session is open
        self.buffer, self.stdin_open, self.logged = b"", True, False
        self.unsent, self.gathering = b"", False
        self.queue: list[Line] = []
        self.seen: set[str] = set()
        self.answers: dict[str, Line] = {}
        self.pending: str | None = None  # the id of the open permission request
        self.busy = self.interrupt = False
        self.wake, self.waker = os.pipe()

    def emit(self, line: Line) -> None:
        self.unsent += dumps(line)
        if not self.gathering:
            self.flush()

    def gather(self, on: bool) -> None:
        """While on, lines are collected; when switched off, they are written in one piece."""
        self.gathering = on
        if not on:
            self.flush()

    def flush(self) -> None:
        data, self.unsent = memoryview(self.unsent), b""
        try:
            while data:
                data = data[os.write(1, data) :]
        except BrokenPipeError:
            os._exit(1)

    def say(self, kind: str, **fields: object) -> None:
        self.emit({"type": kind, **fields, "session_id": self.session.id, "uuid": new_id()})

    def wait(self, fd: int | None = None, timeout: float | None = None) -> bool:
        """Waits for `fd` and reads the host's lines meanwhile. False after the timeout; raises Interrupted."""
        while True:
            if self.interrupt:
                self.interrupt = False
                raise Interrupted
            watch = [self.wake, *([0] if self.stdin_open else []), *([fd] if fd is not None else [])]
            ready = select.select(watch, [], [], timeout)[0]
            if self.wake in ready:
                os.read(self.wake, 64)
            if 0 in ready:
                self.read_stdin()
            if fd in ready or not ready:
                return bool(ready)
            if fd is None and 0 in ready:
                return True

    def read_stdin(self) -> None:
        data = os.read(0, 1 << 16)
        self.stdin_open = bool(data)
        *lines, self.buffer = (self.buffer + data + (b"" if data else b"\n")).split(b"\n")
        for text in lines:
            if text.strip():
                self.read_line(text)

    def read_line(self, text: bytes) -> None:
        try:
            line = loads(text)
        except ValueError:
            raise Refused(
                f"Error parsing streaming input line (type=unknown, {len(text)} chars): SyntaxError"
            ) from None
        kind = line.get("type")
        if kind == "user":
            self.read_prompt(line)
        elif kind == "control_request":
            self.answer_control(line["request_id"], line["request"])
        elif kind == "control_response":
            self.answers[line["response"]["request_id"]] = line["response"]

    def read_prompt(self, line: Line) -> None:
        uuid = line.get("uuid")
        self.log([text_of(line["message"]["content"])])
        if uuid in self.seen or uuid in self.session.by_uuid:
            self.say("command_lifecycle", command_uuid=uuid, state="completed")
            return
        if uuid:
            self.seen.add(uuid)
            self.say("command_lifecycle", command_uuid=uuid, state="queued")
        self.queue.append(line)

    def answer_control(self, request_id: str, request: Line) -> None:
        response: Line = {}
        subtype = request.get("subtype")
        if subtype == "interrupt":
            if self.busy:
                self.interrupt = True
                if self.pending:
                    self.emit({"type": "control_cancel_request", "request_id": self.pending})
            response = {"still_queued": [line["uuid"] for line in self.queue if "uuid" in line]}
        elif subtype == "initialize":
            response = {"commands": [], "output_style": "default", "available_output_styles": ["default"]}
        elif subtype == "set_permission_mode":
            self.mode = request["mode"]
            response = {"mode": self.mode}
        elif subtype == "set_model":
            self.model = request.get("model") or self.model
        else:
            problem = f"Unsupported control request subtype: {subtype}"
            failed = {"subtype": "error", "request_id": request_id, "error": problem}
            self.emit({"type": "control_response", "response": {**failed, "error_code": "unsupported_request"}})
            return
        done = {"subtype": "success", "request_id": request_id, "response": response}
        self.emit({"type": "control_response", "response": done})

    def log(self, prompts: list[str]) -> None:
        self.logged = True
        if path := os.environ.get("CLEW_SCRIPT_LOG"):
            line = {"argv": sys.argv, "cwd": self.cwd, "pid": os.getpid(), "prompts": prompts}
            with open(path, "ab") as file:
                file.write(dumps(line))

    def log_waiting_prompt(self) -> None:
        """Logs the prompt of a process that ends without reading it, if the host has sent it by then."""
        if "CLEW_SCRIPT_LOG" not in os.environ:
            return
        data = b""
        deadline = time.monotonic() + 0.5
        while b"\n" not in data and select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            more = os.read(0, 1 << 16)
            data += more
            if not more:
                break
        try:
            self.log([text_of(loads(data.split(b"\n")[0])["message"]["content"])])
        except (ValueError, KeyError, TypeError):
            self.log([])
