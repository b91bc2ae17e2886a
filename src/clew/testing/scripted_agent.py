"""A stand-in for the Claude Code CLI that starts in a blink and fails on demand.

`install(folder)` writes an executable `claude` that a host spawns as it would the real one: same flags, same lines on
the stream, same session files, same refusals (CLI 2.1.325; a side-by-side test keeps the two together). It really
calls the Messages API at `ANTHROPIC_BASE_URL` and really runs the tools Bash, Write and Read, after the same question
for permission; every other tool gives an error result.

What it leaves out: compaction, subagents, hooks, MCP, output formats other than stream-json, and the folding of a
prompt into a running turn (here it waits for its own). Where the real one would retry a request ten times over three
minutes, this one says `api_retry`, waits a moment and retries once, or `CLAUDE_CODE_MAX_RETRIES` times.

Faults are data. `CLEW_SCRIPT` names a JSON file, `{"faults": [{"do": …}, …]}`; of a fault that matches,

| field    | meaning                                                                                            |
| -------- | -------------------------------------------------------------------------------------------------- |
| `do`     | what happens, see below                                                                            |
| `on`     | `resume`, `fresh` or `any` (default)                                                               |
| `turn`   | only at this prompt of the conversation, counted from 1 through all its processes                  |
| `once`   | a path: the fault fires only while there is no such file, and creates it                           |

| `do`                | further fields (default)                | what happens                                       |
| ------------------- | --------------------------------------- | -------------------------------------------------- |
| `reject`            |                                         | as if the session were unknown                     |
| `slow_start`        | `delay_s` (1)                           | waits before it does anything                      |
| `lie_success_empty` |                                         | exits 0 without a word                             |
| `hang_before_init`, `hang_after_init`, `hang_after_result` | `ignore_term` (false) | silence for ever              |
| `crash_before_init` | `rc` (1) or `signal`, `stderr` ("")     | dies; the prompt is not saved                      |
| `crash_after_init`  | as above, `saved` (true)                | dies; with `saved` false, before the prompt is kept |
| `crash_mid_text`    | as above                                | dies after the first piece of text                 |
| `flood`             | `n_bytes` (0), `stderr_lines` (0)       | one huge line on stdout, many on stderr            |
| `garbage_line`      |                                         | lines that are no JSON, or hardly                  |
| `lie_session_id`    |                                         | `init` carries another id                          |
| `error_result`      | `text`, `status`, `error_type`, `terminal_reason` | fails as if the API had said so          |
| `no_result`         |                                         | exits 0 where the result should come               |
| `unsaved`           |                                         | all is well, and nothing of it reaches the file    |

`CLEW_SCRIPT_LOG` names a file that gets a line for each invocation, `{"argv", "cwd", "pid", "prompts"}`, as soon as
the prompt is read. Every further prompt to the same process is a further line with the same `pid`.
"""
# No pathlib at run time: it would slow the start of a program that is spawned all day.
# ruff: noqa: PTH100, PTH103, PTH109, PTH110, PTH119, PTH120, PTH123

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from .scripted_session import (
    CACHED,
    NoConversation,
    Session,
    add_usage,
    dumps,
    find_session,
    is_uuid,
    new_id,
    session_path,
    stamp,
    synthetic_message,
    zero_usage,
)

TYPE_CHECKING = False  # spares the import of typing; the checkers know the name
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any, NoReturn, TypeAlias

    Line: TypeAlias = dict[str, Any]

VERSION = "2.1.325"
PRODUCT = "Claude Code"
TOOLS = ("AskUserQuestion", "Bash", "Edit", "Glob", "Grep", "Read", "Write")
FILE_TOOLS = ("Edit", "Write")
# Commands that the CLI runs without asking, as long as they stand alone; the second set only under acceptEdits.
HARMLESS = {"cat", "date", "echo", "head", "ls", "pwd", "sleep", "tail", "true", "wc", "whoami"}
EDITING = {"cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"}
RETRY_WAIT_S = 0.02
BUDGET_TOKENS = 15_000_000

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
STOPPED = (
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in "
    "part or in full, and its changes may have been written. No permission prompt was involved. Work it started "
    "elsewhere (a remote command, a background process) may still be running, so check before starting the same work "
    "again. The instruction to stop and wait still stands."
)

# Every option that is understood: how many values it takes (0, 1, "?" for perhaps one, "*" for some), and its help.
# An option without help is one that the real CLI hides as well.
OPTIONS: dict[str, tuple[int | str, str]] = {
    "--add-dir": ("*", "Additional directories to allow tool access to"),
    "--allowedTools": ("*", "Comma or space-separated list of tool names to allow"),
    "--append-system-prompt": (1, "Append a system prompt to the default system prompt"),
    "--disallowedTools": ("*", "Comma or space-separated list of tool names to deny"),
    "--effort": (1, "Effort level for the current session"),
    "--fork-session": (0, "When resuming, create a new session ID instead of reusing the original"),
    "--help": (0, "Display help for command"),
    "--include-partial-messages": (0, "Include partial message chunks as they arrive"),
    "--input-format": (1, 'Input format (only works with --print): "text" (default), or "stream-json"'),
    "--max-budget-usd": (1, "Maximum dollar amount to spend on API calls"),
    "--max-turns": (1, ""),
    "--mcp-config": ("*", "Load MCP servers from JSON files or strings"),
    "--model": (1, "Model for the current session"),
    "--output-format": (1, 'Output format (only works with --print): "text", "json" or "stream-json"'),
    "--permission-mode": (1, "Permission mode to use for the session"),
    "--permission-prompt-tool": (1, ""),
    "--print": (0, "Print response and exit (useful for pipes)"),
    "--replay-user-messages": (0, "Re-emit user messages from stdin back on stdout for acknowledgment"),
    "--resume": ("?", "Resume a conversation by session ID or name"),
    "--resume-session-at": (1, ""),
    "--session-id": (1, "Use a specific session ID for the conversation (must be a valid UUID)"),
    "--setting-sources": (1, "Comma-separated list of setting sources to load (user, project, local)"),
    "--settings": (1, "Path to a settings JSON file or a JSON string"),
    "--strict-mcp-config": (0, "Only use MCP servers from --mcp-config"),
    "--system-prompt": (1, "System prompt to use for the session"),
    "--tools": ("*", "Specify the list of available tools from the built-in set"),
    "--verbose": (0, "Override verbose mode setting from config"),
    "--version": (0, "Output the version number"),
}
SHORT = {"-h": "--help", "-p": "--print", "-r": "--resume", "-v": "--version"}
SHORT.update({"--allowed-tools": "--allowedTools", "--disallowed-tools": "--disallowedTools"})


# --- installing


def install(
    folder: Path, name: str = "claude", product: str = PRODUCT, version: str = VERSION, resume: bool = True
) -> Path:
    """Write an executable that behaves as the CLI, and return its path. `resume=False`: one too old to resume."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    here = os.path.dirname(os.path.abspath(__file__))
    # A package of its own, without the rest of Clew: imported, not run, so that the compiled file is used.
    body = (
        "import sys\n"
        "package = type(sys)('scripted')\n"
        f"package.__path__ = [{here!r}]\n"
        "sys.modules['scripted'] = package\n"
        "from scripted.scripted_agent import main\n"
        f"main(sys.argv, {product!r}, {version!r}, {resume!r})\n"
    )
    if len(sys.executable) < 120 and " " not in sys.executable:
        head = f"#!{sys.executable} -SEs\n"
    else:  # the kernel would cut such a line: the shell reads the next line, Python takes it for a text
        quoted = sys.executable.replace("'", "'\\''")
        head = f"#!/bin/sh\n''':'\nexec '{quoted}' -SEs \"$0\" \"$@\"\n'''\n"
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path


def help_text(name: str, product: str, resume: bool) -> str:
    short = {long: f"{brief}, {long}" for brief, long in SHORT.items() if len(brief) == 2}
    shown = [
        f"  {short.get(option, option):<36}  {text}"
        for option, (_, text) in OPTIONS.items()
        if text and (resume or "resum" not in text.lower())
    ]
    return f"Usage: {name} [options] [command] [prompt]\n\n{product} - scripted\n\nOptions:\n" + "\n".join(shown)


# --- the command line


class Refused(Exception):
    """The process ends at once, with this on stderr, and on stdout too when the host can read it there."""

    def __init__(self, text: str, session_id: str | None = None) -> None:
        super().__init__(text)
        self.session_id = session_id


class Options(dict[str, "list[str]"]):
    """What was given, by long name."""

    def one(self, name: str, default: str = "") -> str:
        return (self.get(name) or [default])[-1]

    def words(self, name: str) -> list[str]:
        return [word for value in self.get(name, []) for word in value.replace(",", " ").split()]


def read_argv(argv: list[str]) -> Options:
    options, rest = Options(), list(argv)
    while rest:
        given = rest.pop(0)
        if not given.startswith("-"):
            options.setdefault("prompt", []).append(given)
            continue
        name, equals, value = given.partition("=")
        name = SHORT.get(name, name)
        if name not in OPTIONS:
            raise Refused(f"error: unknown option '{given}'")
        takes, values = OPTIONS[name][0], options.setdefault(name, [])
        if equals:
            values.append(value)
        elif takes == 1 and not rest:
            raise Refused(f"error: option '{name} <value>' argument missing")
        elif takes == 1 or (takes == "?" and rest and not rest[0].startswith("-")):
            values.append(rest.pop(0))
        elif takes == "*":
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
    return options


# --- faults


class Faults:
    """The script of what goes wrong."""

    def __init__(self, resuming: bool) -> None:
        self.kind = "resume" if resuming else "fresh"
        self.turn = 1
        path = os.environ.get("CLEW_SCRIPT")
        self.all: list[Line] = []
        if path:
            with open(path, encoding="utf-8") as file:
                self.all = json.load(file)["faults"]

    def take(self, *names: str) -> Line | None:
        """The first fault of these names that is due now; one that fires once is used up by this."""
        for fault in self.all:
            due = fault.get("on", "any") in ("any", self.kind) and fault.get("turn", self.turn) == self.turn
            if due and fault["do"] in names and self._unused(fault.get("once")):
                return fault
        return None

    @staticmethod
    def _unused(counter: str | None) -> bool:
        if counter is None:
            return True
        try:
            os.close(os.open(counter, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True


def crash(fault: Line) -> NoReturn:
    sys.stderr.write(fault.get("stderr", ""))
    sys.stderr.flush()
    if "signal" in fault:
        if fault["signal"] != signal.SIGKILL:  # that one takes no handler
            signal.signal(fault["signal"], signal.SIG_DFL)
        os.kill(os.getpid(), fault["signal"])
    os._exit(fault.get("rc", 1))


def hang(fault: Line) -> NoReturn:
    if fault.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


# --- the model


class ApiError(Exception):
    """The model gave no answer. The fields are those of the lines that tell the host."""

    def __init__(
        self, text: str, error: str, status: int | None = None, kind: str | None = None, failure: str | None = None
    ) -> None:
        super().__init__(text)
        self.text, self.error, self.status, self.kind, self.failure = text, error, status, kind, failure
        self.reason = "prompt_too_long" if text == "Prompt is too long" else "api_error"
        self.retry = failure is not None or status in (401, 408, 409, 429) or (status or 0) >= 500
        self.request_id: str | None = None


def refusal(status: int, body: bytes, model: str, gateway: str) -> ApiError:
    """The CLI's own words for an HTTP status."""
    try:
        said = json.loads(body)["error"]
        kind, message = said["type"], said["message"]
    except (ValueError, KeyError, TypeError):
        kind, message = "api_error", body.decode("utf-8", "replace")
    if status == 401:
        return ApiError("Invalid API key · Fix external API key", "authentication_failed", status, kind)
    if status == 403:
        return ApiError(f"Failed to authenticate. API Error: 403 {message}", "authentication_failed", status, kind)
    if status == 404:
        text = (
            f"There's an issue with the selected model ({model}). It may not exist or you may not have access to it. "
            "Run --model to pick a different model."
        )
        return ApiError(text, "model_not_found", status, kind)
    if status == 429:
        return ApiError(f"API Error: Request rejected (429) · {message}", "rate_limit", status, kind)
    if status >= 500:
        text = (
            f"API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. "
            f"If it persists, check your inference gateway ({gateway})."
        )
        return ApiError(text, "server_error", status, kind)
    if status == 400 and "prompt is too long" in message:
        return ApiError("Prompt is too long", "invalid_request", status, kind)
    return ApiError(f"API Error: {status} {message}", "unknown", status, kind)


class Wire:
    """The bytes of one HTTP answer, taken apart as they come: head, then body. No I/O."""

    def __init__(self) -> None:
        self.raw = b""
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = False

    def feed(self, data: bytes) -> None:
        self.raw += data
        if self.status is None:
            head, end, rest = self.raw.partition(b"\r\n\r\n")
            if not end:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            self.status = int(first.split()[1])
            pairs = (line.partition(":") for line in lines)
            self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            self.raw = rest
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._feed_chunks()
            return
        self.body, self.raw = self.body + self.raw, b""
        self.complete = len(self.body) >= int(self.headers.get("content-length") or sys.maxsize)

    def _feed_chunks(self) -> None:
        while not self.complete:
            head, end, rest = self.raw.partition(b"\r\n")
            if not end:
                return
            size = int(head.split(b";")[0], 16)
            if len(rest) < size + 2:
                return
            self.body, self.raw = self.body + rest[:size], rest[size + 2 :]
            self.complete = size == 0

    def events(self) -> Iterator[Line]:
        while b"\n\n" in self.body:
            block, _, self.body = self.body.partition(b"\n\n")
            data = b"".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))
            if data:
                yield json.loads(data)


class Interrupted(Exception):
    """The host, or a person at the terminal, wants the turn to stop."""

    def __init__(self, where: str = "streaming") -> None:
        super().__init__(where)
        self.where = where


class Answer:
    """One answer of the model as it streams in: its blocks, finished or not."""

    def __init__(self) -> None:
        self.message: Line = {}
        self.usage: Line = {}
        self.open: dict[int, Line] = {}
        self.done: list[tuple[Line, str]] = []  # a finished block, and the uuid of its line
        self.stop_reason: str | None = None
        self.stopped = False
        self.request_id: str | None = None

    def take(self, event: Line) -> Line | None:
        """Note an event; the block that it finished, if it did."""
        kind = event["type"]
        if kind == "message_start":
            self.message = event["message"]
            self.usage = dict(self.message.get("usage") or {})
        elif kind == "content_block_start":
            self.open[event["index"]] = {**event["content_block"], "json": ""}
        elif kind == "content_block_delta":
            block, delta = self.open[event["index"]], event["delta"]
            name = {"partial_json": "json"}.get
            for field in ("text", "partial_json", "thinking", "signature"):
                if field in delta:
                    key = name(field) or field
                    block[key] = block.get(key, "") + delta[field]
        elif kind == "content_block_stop":
            block = self.open.pop(event["index"])
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text or "{}")
            return block
        elif kind == "message_delta":
            self.stop_reason = event["delta"].get("stop_reason")
            self.usage.update(event.get("usage") or {})
        elif kind == "message_stop":
            self.stopped = True
        return None

    def partial_text(self) -> str:
        return "".join(block["text"] for block in self.open.values() if block["type"] == "text")


# --- the process


class Agent:
    """One process: it hears the host on stdin at any time, and works on one prompt after the other."""

    def __init__(self, options: Options, version: str) -> None:
        self.options, self.version = options, version
        self.cwd = os.path.realpath(os.getcwd())
        self.model = options.one("--model", "claude-sonnet-4-5")
        self.mode = options.one("--permission-mode", "default")
        self.partial = "--include-partial-messages" in options
        names = options.words("--tools")
        known = "--tools" not in options or "default" in names
        self.tools = [name for name in TOOLS if known or name in names]
        self.session: Session
        self.faults = Faults("--resume" in options)
        self.buffer, self.stdin_open, self.logged = b"", True, False
        self.queue: list[Line] = []
        self.seen: set[str] = set()
        self.answers: dict[str, Line] = {}
        self.pending: str | None = None  # the permission asked for
        self.busy = self.interrupt = self.quitting = False
        self.child: Any = None
        self.rc = self.results = 0
        self.wake, self.waker = os.pipe()

    # --- starting and ending

    def run(self) -> int:
        os.set_blocking(self.waker, False)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGINT, self.on_int)
        try:
            self.session = self.open_session()
            self.fail_early()
            self.work()
        except NoConversation as problem:
            return self.reject(str(problem))
        except Refused as problem:
            sys.stderr.write(f"{problem}\n")
            return 1
        finally:
            if not self.logged:
                self.log([])
        return self.rc

    def open_session(self) -> Session:
        chosen, options = self.options.one("--session-id"), self.options
        if self.mode == "bypassPermissions" and os.geteuid() == 0 and not os.environ.get("IS_SANDBOX"):
            raise Refused(
                "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
            )
        if chosen and not is_uuid(chosen):
            raise Refused("Error: Invalid session ID. Must be a valid UUID.")
        if chosen and "--resume" in options and "--fork-session" not in options:
            raise Refused(
                "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified."
            )
        own = chosen or new_id()
        path = session_path(self.cwd, own)
        if chosen and os.path.exists(path):
            raise Refused(f"Error: Session ID {chosen} is already in use.")
        if "--resume" not in options:
            return Session(own, self.cwd, self.version, path)
        session = self.resume_session(options.one("--resume"))
        if "--resume-session-at" in options:
            session.rewind(options.one("--resume-session-at"))
        if "--fork-session" in options:
            session.fork(own, path)
        return session

    def resume_session(self, wanted: str) -> Session:
        usage = "Error: --resume requires a valid session ID or session title when used with --print. "
        usage += "Usage: claude -p --resume <session-id|title>"
        if not wanted:
            raise NoConversation(usage)
        if wanted.startswith("/") and wanted.endswith(".jsonl"):
            name = os.path.basename(wanted)[: -len(".jsonl")]
            path, session_id = wanted, name if is_uuid(name) else new_id()
            if not os.path.exists(path):
                raise NoConversation(f"No conversation found with session ID: {new_id()}")
        elif is_uuid(wanted):
            path, session_id = find_session(self.cwd, wanted), wanted
        else:
            problem = f'. Provided value "{wanted}" is not a UUID and does not match any session title.'
            raise NoConversation(usage + problem)
        session = Session(session_id, self.cwd, self.version, path)
        session.load(path)
        return session

    def reject(self, text: str) -> int:
        """The line of a resume that cannot be. It carries a session id, which means nothing."""
        wanted = self.options.one("--resume")
        line: Line = {"type": "result", "subtype": "error_during_execution", "duration_ms": 0, "duration_api_ms": 0}
        line.update(is_error=True, num_turns=0, stop_reason=None, total_cost_usd=0, usage=zero_usage(), modelUsage={})
        line.update(session_id=wanted if is_uuid(wanted) else new_id(), permission_denials=[], uuid=new_id())
        self.emit({**line, "errors": [text], "result_index": 0})
        sys.stderr.write(f"{text}\n")
        self.log_waiting_prompt()
        return 1

    def fail_early(self) -> None:
        self.faults.turn = self.session.prompts() + 1
        if fault := self.faults.take("slow_start"):
            time.sleep(fault.get("delay_s", 1))
        if self.faults.take("reject"):
            raise NoConversation(f"No conversation found with session ID: {self.options.one('--resume')}")
        if self.faults.take("lie_success_empty"):
            self.log_waiting_prompt()
            os._exit(0)

    def work(self) -> None:
        if self.options.one("--input-format", "text") != "stream-json":
            prompt = " ".join(self.options.get("prompt", [])) or sys.stdin.read()
            self.stdin_open = False
            if prompt.strip():
                self.queue.append({"message": {"role": "user", "content": prompt}})
                self.log([prompt])
        try:
            while self.stdin_open or self.queue:
                if self.queue:
                    self.turn(self.queue.pop(0))
                elif not self.quitting:
                    self.wait()
                if self.quitting:
                    break
        except Interrupted:  # by a signal, with nothing to do
            pass
        if self.results:
            self.session.end(self.last_prompt)

    def on_term(self, *_: object) -> None:
        self.kill_child()
        if self.busy or self.results:
            self.session.end(self.last_prompt)
        os._exit(143)

    def on_int(self, *_: object) -> None:
        self.interrupt = self.quitting = True

    # --- talking to the host

    def emit(self, line: Line) -> None:
        data = memoryview(dumps(line))
        try:
            while data:
                data = data[os.write(1, data) :]
        except BrokenPipeError:
            os._exit(1)

    def say(self, kind: str, **fields: object) -> None:
        self.emit({"type": kind, **fields, "session_id": self.session.id, "uuid": new_id()})

    def wait(self, fd: int | None = None, timeout: float | None = None) -> bool:
        """Wait for `fd`, hearing the host meanwhile; False when the time is over, Interrupted when told to stop."""
        while True:
            if self.interrupt:
                self.interrupt = False
                raise Interrupted
            watch = [self.wake, *([0] if self.stdin_open else []), *([fd] if fd is not None else [])]
            ready = select.select(watch, [], [], timeout)[0]
            if self.wake in ready:
                os.read(self.wake, 64)
            if 0 in ready:
                self.hear()
            if fd in ready or not ready:
                return bool(ready)
            if fd is None and 0 in ready:
                return True

    def hear(self) -> None:
        data = os.read(0, 1 << 16)
        self.stdin_open = bool(data)
        *lines, self.buffer = (self.buffer + data + (b"" if data else b"\n")).split(b"\n")
        for text in lines:
            if text.strip():
                self.hear_line(text)

    def hear_line(self, text: bytes) -> None:
        try:
            line = json.loads(text)
        except ValueError:
            raise Refused(
                f"Error parsing streaming input line (type=unknown, {len(text)} chars): SyntaxError"
            ) from None
        kind = line.get("type")
        if kind == "user":
            self.hear_prompt(line)
        elif kind == "control_request":
            self.answer_control(line["request_id"], line["request"])
        elif kind == "control_response":
            self.answers[line["response"]["request_id"]] = line["response"]

    def hear_prompt(self, line: Line) -> None:
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
        """A process that ends without reading its prompt still logs it, when the host has sent it by then."""
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
            self.log([text_of(json.loads(data.split(b"\n")[0])["message"]["content"])])
        except (ValueError, KeyError, TypeError):
            self.log([])

    # --- a turn

    def turn(self, line: Line) -> None:
        self.uuid = line.get("uuid")
        self.marks: Line = {"user_message_uuids": [self.uuid]} if self.uuid else {}
        self.started, self.usage, self.num_turns = time.monotonic(), zero_usage(), 1
        self.denials: list[Line] = []
        self.text = ""
        self.stop_reason: str | None = None
        self.busy, self.first = True, not self.session.entries
        self.prompt_id, self.session.saving = new_id(), True
        self.faults.turn = self.session.prompts() + 1
        content = line["message"]["content"]
        self.last_prompt = text_of(content)
        if self.uuid:
            self.say("command_lifecycle", command_uuid=self.uuid, state="started")
        if fault := self.faults.take("hang_before_init", "crash_before_init"):
            hang(fault) if fault["do"].startswith("hang") else crash(fault)
        crashing = self.faults.take("crash_after_init")
        self.session.saving = not self.faults.take("unsaved") and (crashing or {}).get("saved", True)
        self.session.begin(content)
        blank = isinstance(content, str) and content != "" and not content.strip()
        if not blank:
            self.keep_prompt(content)
        self.say_init()
        if crashing:
            crash(crashing)
        self.misbehave()
        outcome = self.skip_blank() if blank else self.outcome()
        self.finish(outcome)

    def keep_prompt(self, content: object) -> None:
        session, index = self.session, self.session.prompts() + 1
        session.add(
            "user",
            message={"role": "user", "content": content},
            uuid=self.uuid or new_id(),
            promptId=self.prompt_id,
            permissionMode=self.mode,
            promptSource="sdk",
            turnOrigin="sdk",
            turnPosition={"promptIndex": 0, "turnIndex": index},
        )
        places = [entry["attachment"] for entry in session.chain() if entry["type"] == "attachment"]
        before = [place["snapshot"]["workingDirectory"] for place in places if place["type"] == "environment"]
        snapshot = {"workingDirectory": self.cwd, "platform": sys.platform}
        if not before:
            where = f"# Environment\n - Primary working directory: {self.cwd}\n - Platform: {sys.platform}"
            session.attach("environment", where, snapshot=snapshot)
            session.attach("model", f"You are powered by the model {self.model}.", identity={"modelId": self.model})
        elif before[-1] != self.cwd:
            moved = f"# Environment update\n - Primary working directory: {self.cwd} (was {before[-1]})"
            session.attach("environment", moved, snapshot=snapshot)
        session.attach("total_tokens_reminder", f"<total_tokens>{BUDGET_TOKENS} tokens left</total_tokens>")
        if self.first:
            today = time.strftime("%Y-%m-%d")
            session.attach("session_context", context={})
            session.attach("date", f"Today's date is {today}.", date=today)
            session.attach("prompt_snapshot", systemPrompt=[SYSTEM_PROMPT[:80]])

    def say_init(self) -> None:
        line: Line = {"type": "system", "subtype": "init", "cwd": self.cwd, "session_id": self.session.id}
        if self.faults.take("lie_session_id"):
            line["session_id"] = new_id()
        line.update(tools=self.tools, mcp_servers=[], model=self.model, permissionMode=self.mode, slash_commands=[])
        line.update(apiKeySource="ANTHROPIC_API_KEY", claude_code_version=self.version, output_style="default")
        line.update(agents=[], skills=[], plugins=[], capabilities=["interrupt_receipt_v1", "msg_lifecycle_v1"])
        self.emit({**line, "uuid": new_id(), "original_cwd": self.cwd, **self.marks})

    def misbehave(self) -> None:
        """The faults between `init` and the call of the model."""
        if fault := self.faults.take("hang_after_init"):
            hang(fault)
        if fault := self.faults.take("flood"):
            if fault.get("n_bytes"):
                self.say("system", subtype="informational", content="x" * fault["n_bytes"])
            sys.stderr.write(("noise " * 16 + "\n") * fault.get("stderr_lines", 0))
            sys.stderr.flush()
        if self.faults.take("garbage_line"):
            os.write(1, b"this is not json\n\n\xff\xfe\x00\n[]\nnull\n")
            os.write(1, b'{"type":"system","subtype":"odd","value":NaN}\n')
            os.write(1, b'{"type":"system","subtype":"odd","value":"\\ud800"}\n{"type":"from_the_future"}\n')

    def skip_blank(self) -> Line:
        text = "Blank prompt — the message was only whitespace, so nothing was sent to the model."
        self.say("system", subtype="informational", content=text, level="warning")
        self.num_turns = 0
        return {"subtype": "success", "is_error": False, "result": ""}

    def outcome(self) -> Line:
        """Have the conversation with the model; the part of the result line that says how it ended."""
        try:
            if fault := self.faults.take("error_result"):
                error = ApiError(fault["text"], "unknown", fault.get("status"), fault.get("error_type"))
                error.reason = fault.get("terminal_reason", error.reason)
                raise error
            self.converse()
        except ApiError as error:
            return self.tell_api_error(error)
        except Interrupted as stop:
            for_tools = " for tool use" if stop.where == "tools" else ""
            self.say_user([{"type": "text", "text": f"[Request interrupted by user{for_tools}]"}])
            self.close_stream()
            shown = "null" if self.stop_reason is None else self.stop_reason
            why = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={shown}"
            ended: Line = {"subtype": "error_during_execution", "is_error": True, "errors": [why]}
            return {**ended, "terminal_reason": f"aborted_{stop.where}"}
        done: Line = {"subtype": "success", "is_error": False, "api_error_status": None, "result": self.text}
        return {**done, "terminal_reason": "completed"}

    def tell_api_error(self, error: ApiError) -> Line:
        message = synthetic_message(error.text)
        line: Line = {"is_api_error_message": True, "error": error.error}
        entry: Line = {"isApiErrorMessage": True, "error": error.error}
        result: Line = {"api_error_status": error.status}
        if error.status is not None:
            line.update(api_error_status=error.status, api_error_type=error.kind)
            entry.update(apiErrorStatus=error.status, apiErrorType=error.kind)
            result.update(api_error_type=error.kind)
        if error.failure:
            for shape, name in ((line, "api_error"), (entry, "apiError"), (result, "api_error")):
                shape[name] = error.failure
        uuid = self.say_assistant(message, error.request_id, **line)
        self.session.add("assistant", message=message, uuid=uuid, madeBy="model", **entry)
        self.stop_reason = "stop_sequence"
        result.update(subtype="success", is_error=True, result=error.text, terminal_reason=error.reason)
        return result

    def finish(self, outcome: Line) -> None:
        session, account = self.session, self.session.account
        if self.faults.take("no_result"):
            session.end(self.last_prompt)
            os._exit(0)
        line: Line = {"type": "result", "session_id": session.id, "stop_reason": self.stop_reason, "usage": self.usage}
        line.update(duration_ms=int((time.monotonic() - self.started) * 1000), duration_api_ms=int(account.api_ms))
        line.update(num_turns=self.num_turns, total_cost_usd=account.total_usd, modelUsage=account.models)
        line.update(permission_denials=self.denials, uuid=new_id(), result_index=self.results, queued_turn_count=0)
        if self.uuid:
            line.update(user_message_uuid=self.uuid, **self.marks)
        self.emit({**line, **outcome, "model_usage_since_last_result": account.since_last})
        if self.uuid:
            state = "cancelled" if outcome["is_error"] else "completed"
            self.say("command_lifecycle", command_uuid=self.uuid, state=state)
        account.since_last = {}
        self.results += 1
        self.rc = int(outcome["is_error"] and not self.quitting)
        self.busy, self.interrupt, session.saving = False, False, True
        if fault := self.faults.take("hang_after_result"):
            hang(fault)

    def say_assistant(self, message: Line, request_id: str | None, **fields: object) -> str:
        line: Line = {"type": "assistant", "message": message, "parent_tool_use_id": None}
        line.update(session_id=self.session.id, uuid=new_id(), timestamp=stamp(), **fields)
        if request_id:
            line["request_id"] = request_id
        if self.uuid:
            line.update(user_message_uuid=self.uuid, **self.marks)
        self.emit(line)
        uuid: str = line["uuid"]
        return uuid

    def say_user(
        self, content: list[Line], parent: str | None = None, meta: Line | None = None, told: Any = None
    ) -> None:
        """A message in the user's name that no user wrote: the result of a tool, the note of an interrupt."""
        self.num_turns += 1
        message = {"role": "user", "content": content}
        line: Line = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": self.session.id}
        entry: Line = {"message": message, "uuid": new_id(), "timestamp": stamp(), "promptId": self.prompt_id}
        line.update(uuid=entry["uuid"], timestamp=entry["timestamp"])
        if told is not None:
            line["tool_use_result"] = entry["toolUseResult"] = told
            entry["sourceToolAssistantUUID"] = parent
        if meta:
            line["tool_result_meta"] = [meta]
        self.emit(line)
        self.session.add("user", parent=parent, **entry)

    # --- asking the model

    def converse(self) -> None:
        while True:
            if self.partial:
                self.say("system", subtype="status", status="requesting", **self.marks)
            answer = self.ask()
            calls = [(block, uuid) for block, uuid in answer.done if block["type"] == "tool_use"]
            spent = sum(answer.usage.get(name) or 0 for name in ("input_tokens", "output_tokens"))
            for number, (call, uuid) in enumerate(calls):
                try:
                    self.use_tool(call, uuid)
                except Interrupted:
                    for other, its_uuid in calls[number + 1 :]:
                        self.tell_result(other, its_uuid, REJECTED, True, "User rejected tool use")
                    raise Interrupted("tools") from None
            if self.first:
                self.session.attach("prompt_snapshot", systemPrompt=[SYSTEM_PROMPT[:80]])
                self.first = False
            if not calls:
                return
            left = f"<total_tokens>{BUDGET_TOKENS - spent} tokens left</total_tokens>"
            self.session.attach("total_tokens_reminder", left)

    def ask(self) -> Answer:
        limit = os.environ.get("CLAUDE_CODE_MAX_RETRIES")
        tries = int(limit) if limit else 1
        for attempt in range(1, tries + 1):
            try:
                return self.request()
            except ApiError as error:
                if not error.retry:
                    raise
                fields: Line = {"attempt": attempt, "max_retries": int(limit or 10), "error_status": error.status}
                fields.update(retry_delay_ms=500 << attempt - 1, error=error.error if error.status else "unknown")
                self.say("system", subtype="api_retry", **fields)
                self.wait(timeout=RETRY_WAIT_S)
        return self.request()

    def request(self) -> Answer:
        started = time.monotonic()
        self.answer, wire = Answer(), Wire()
        connection, gateway = self.connect()
        try:
            while not (wire.complete or self.answer.stopped):
                self.wait(connection.fileno())
                data = connection.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                wire.feed(data)
                if wire.status == 200:
                    self.answer.request_id = wire.headers.get("request-id")
                    for event in wire.events():
                        self.take_event(event)
        except (ConnectionError, ValueError):
            self.close_stream(cut=True)
            if wire.status is None:
                text = "API Error: Connection dropped (ECONNRESET). "
                text += "Check the gateway set in ANTHROPIC_BASE_URL, then try again."
            else:
                text = "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again."
            raise ApiError(text, "server_error", failure="connection_failed") from None
        except Interrupted:
            self.keep_partial()
            raise
        finally:
            connection.close()
            self.session.account.api_ms += (time.monotonic() - started) * 1000
        if wire.status != 200:
            error = refusal(wire.status or 0, wire.body, self.model, gateway)
            error.request_id = wire.headers.get("request-id")
            error.retry = error.retry and wire.headers.get("x-should-retry") != "false"
            raise error
        self.keep_answer()
        return self.answer

    def connect(self) -> tuple[socket.socket, str]:
        import socket  # here, because a turn that is refused never needs it

        environ = os.environ
        key = environ.get("ANTHROPIC_API_KEY") or environ.get("ANTHROPIC_AUTH_TOKEN")
        if not key:
            raise ApiError("Not logged in · Please run /login", "authentication_failed")
        gateway = environ.get("ANTHROPIC_BASE_URL", "http://127.0.0.1:1").partition("://")[2].rstrip("/")
        host, _, port = gateway.partition(":")
        body = dumps(self.request_body())
        head = (
            f"POST /v1/messages?beta=true HTTP/1.1\r\nHost: {gateway}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json\r\nUser-Agent: claude-cli/{self.version} (external, sdk-cli)\r\n"
            f"X-Claude-Code-Session-Id: {self.session.id}\r\nanthropic-version: 2023-06-01\r\nx-app: cli\r\n"
            f"x-api-key: {key}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            connection = socket.create_connection((host, int(port or 80)), timeout=10)
            connection.settimeout(None)
            connection.sendall(head.encode() + body)
        except OSError:
            text = "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"
            raise ApiError(text, "server_error", failure="connection_failed") from None
        return connection, gateway

    def request_body(self) -> Line:
        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        tools = [{"name": name, "description": f"The tool {name}.", "input_schema": schema} for name in self.tools]
        system: list[Line] = [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version={self.version}; cc_entrypoint=sdk-cli;"},
            {"type": "text", "text": "You are a scripted agent.", "cache_control": CACHED},
            {"type": "text", "text": SYSTEM_PROMPT, "cache_control": CACHED},
        ]
        user_id = json.dumps({"device_id": "scripted", "account_uuid": "", "session_id": self.session.id})
        body: Line = {"model": self.model, "messages": self.session.messages(), "system": system, "tools": tools}
        return {**body, "metadata": {"user_id": user_id}, "max_tokens": 32000, "stream": True}

    def take_event(self, event: Line) -> None:
        if event["type"] == "ping":
            return
        if event["type"] == "error":
            self.close_stream(cut=True)
            raise ApiError(f"API Error: {event['error']['message']}", "server_error", None, event["error"]["type"])
        block = self.answer.take(event)
        if block is not None:
            message = {**self.answer.message, "content": [block], "context_management": None}
            self.answer.done.append((block, self.say_assistant(message, self.answer.request_id)))
        self.say_event(event)
        is_text = event["type"] == "content_block_delta" and "text" in event["delta"]
        if is_text and (fault := self.faults.take("crash_mid_text")):
            crash(fault)

    def say_event(self, event: Line) -> None:
        if not self.partial:
            return
        marks = self.marks if event["type"] == "message_start" else {}
        self.say(
            "stream_event", event=event, parent_tool_use_id=None, api_message_id=self.answer.message.get("id"), **marks
        )

    def close_stream(self, cut: bool = False) -> None:
        """The events that end a message which the model did not end."""
        answer = getattr(self, "answer", None)
        if answer is None or answer.stopped or not answer.message:
            return
        for index in answer.open:
            self.say_event({"type": "content_block_stop", "index": index})
        if not cut:
            self.say_event({"type": "message_delta", "delta": {"stop_reason": None}, "usage": answer.usage})
        self.say_event({"type": "message_stop"})
        answer.stopped = True

    def keep_answer(self) -> None:
        answer, session = self.answer, self.session
        usage = zero_usage(**answer.usage)
        message = {**answer.message, "stop_reason": answer.stop_reason, "usage": usage}
        self.stop_reason = answer.stop_reason
        self.text = "".join(block["text"] for block, _ in answer.done if block["type"] == "text")
        session.account.charge(self.model, answer.usage)
        add_usage(self.usage, answer.usage)
        names = [block["name"] for block, _ in answer.done if block["type"] == "tool_use"]
        if names:
            session.note({"type": "tools-used", "tools": names, "sessionId": session.id})
        for index, (block, uuid) in enumerate(answer.done):
            self.keep_block({**message, "content": [block]}, uuid, apiBlockIndex=index)

    def keep_partial(self) -> None:
        """An interrupted answer: its finished blocks and the text so far are kept, a call in the making is not."""
        answer = self.answer
        for block, uuid in answer.done:
            self.keep_block({**answer.message, "content": [block]}, uuid)
        if text := answer.partial_text():
            message = {**answer.message, "content": [{"type": "text", "text": text}]}
            uuid = self.say_assistant(message, answer.request_id, aborted=True)
            self.keep_block(message, uuid, isAbortedMidStream=True)

    def keep_block(self, message: Line, uuid: str, **fields: Any) -> None:
        made: Line = {"requestId": self.answer.request_id, "requestedModel": self.model, "madeBy": "model"}
        self.session.add("assistant", message=message, uuid=uuid, **made, **fields)

    # --- tools

    def use_tool(self, call: Line, uuid: str) -> None:
        name, given = call["name"], call["input"]
        if name not in self.tools:
            disabled = f". {name} is disabled for this session, in subagents as well as here." if name in TOOLS else ""
            missing = f"Error: No such tool available: {name}{disabled}"
            self.tell_result(call, uuid, f"<tool_use_error>{missing}</tool_use_error>", True, missing)
            return
        meta: Line = {"id": call["id"], "permission_decision": {"decision": "accept", "source": "config"}}
        if self.must_ask(name, given):
            try:
                given, problem = self.ask_permission(call)
            except Interrupted:
                self.denials.append({"tool_name": name, "tool_use_id": call["id"], "tool_input": given})
                self.tell_result(call, uuid, REJECTED, True, "User rejected tool use")
                raise
            if problem is not None:
                self.denials.append({"tool_name": name, "tool_use_id": call["id"], "tool_input": given})
                decision = {"decision": "reject", "source": "user_reject"}
                meta.update(non_execution_kind="permission-rule", permission_decision=decision)
                self.tell_result(call, uuid, problem, True, f"Error: {problem}", meta)
                return
            meta["permission_decision"] = {"decision": "accept", "source": "user_temporary"}
        try:
            content, is_error, told = self.run_tool(name, given)
        except Interrupted:
            self.kill_child()
            self.tell_result(call, uuid, REJECTED + STOPPED, True, "User rejected tool use")
            raise
        self.tell_result(call, uuid, content, is_error, told, meta)

    def tell_result(
        self, call: Line, uuid: str, content: str, is_error: bool, told: object, meta: Line | None = None
    ) -> None:
        result = {"type": "tool_result", "content": content, "is_error": is_error, "tool_use_id": call["id"]}
        self.say_user([result], uuid, meta, told)

    def must_ask(self, name: str, given: Line) -> bool:
        if name == "AskUserQuestion":
            return True
        if self.mode == "bypassPermissions" or name in self.options.words("--allowedTools"):
            return False
        if name == "Bash":
            allowed = HARMLESS | EDITING if self.mode == "acceptEdits" else HARMLESS
            parts = [part.split() for part in given.get("command", "").split(";")]
            risky = set(given.get("command", "")) & set("&|<>$`\n(){}")
            return bool(risky) or not all(words and words[0] in allowed for words in parts)
        inside = os.path.realpath(given.get("file_path", "")).startswith(self.cwd + "/")
        return not (inside and (name not in FILE_TOOLS or self.mode == "acceptEdits"))

    def ask_permission(self, call: Line) -> tuple[Line, str | None]:
        """What the host says: the input to use, and why not if not."""
        name, given = call["name"], call["input"]
        if self.mode == "dontAsk" or self.options.one("--permission-prompt-tool") != "stdio":
            problem = f"{name} needs approval, and nobody is asked."
            self.say("system", subtype="permission_denied", tool_name=name, tool_use_id=call["id"], message=problem)
            return given, problem
        if not self.stdin_open:
            return given, "Tool permission request failed: AbortError: Stream closed"
        request: Line = {"subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": given}
        request["tool_use_id"] = call["id"]
        if name == "AskUserQuestion":
            request["requires_user_interaction"] = True
        else:
            request["description"] = given.get("command") or given.get("file_path", "")
            request["permission_suggestions"] = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
        self.pending = new_id()
        self.emit({"type": "control_request", "request_id": self.pending, "request": request})
        try:
            while self.pending not in self.answers:
                if not self.stdin_open:
                    return given, "Tool permission request failed: AbortError: Stream closed"
                self.wait()
            answer = self.answers.pop(self.pending)
        finally:
            self.pending = None
        if answer.get("subtype") != "success":
            return given, f"Tool permission request failed: {answer.get('error')}"
        response = answer["response"]
        if response.get("behavior") == "allow":
            return response.get("updatedInput") or given, None
        if response.get("interrupt"):
            raise Interrupted("tools")
        return given, str(response.get("message", "denied"))

    def run_tool(self, name: str, given: Line) -> tuple[str, bool, object]:
        """The result for the model, whether it is an error, and the result for the host."""
        if name == "Bash":
            return self.run_bash(given["command"])
        if name == "Write":
            return self.write_file(given["file_path"], given["content"])
        if name == "Read":
            return self.read_file(given["file_path"])
        if name == "AskUserQuestion":
            answers = ", ".join(f'"{asked}"="{answer}"' for asked, answer in given.get("answers", {}).items())
            text = f"Your questions have been answered: {answers}. You can now continue with these answers in mind."
            return text, False, given
        problem = f"Error: {name} is not part of the scripted agent"
        return f"<tool_use_error>{problem}</tool_use_error>", True, problem

    def run_bash(self, command: str) -> tuple[str, bool, object]:
        import subprocess  # here, because most turns run no command

        out = b""
        # A session of its own, as the real one has it: killing the agent's group does not reach it.
        self.child = subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.cwd,
            start_new_session=True,
        )
        pipe = self.child.stdout.fileno()
        while True:
            if self.wait(pipe, 0.05):
                data = os.read(pipe, 1 << 16)
                out += data
                if not data:
                    break
            elif self.child.poll() is not None:  # something it left behind holds the pipe
                break
        code = self.child.wait()
        self.child.stdout.close()
        self.child = None
        text = out.decode("utf-8", "replace").rstrip("\n")
        if code:
            text = f"Exit code {code}\n{text}"
            return text, True, f"Error: {text}"
        told = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
        return text or "(Bash completed with no output)", False, told

    def kill_child(self) -> None:
        if self.child is not None:
            if self.child.poll() is None:
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child = None

    def write_file(self, path: str, content: str) -> tuple[str, bool, object]:
        existed = os.path.exists(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        except OSError as problem:
            return f"Error: {problem}", True, f"Error: {problem}"
        told = {"type": "update" if existed else "create", "filePath": path, "content": content}
        if existed:
            return f"The file {path} has been updated successfully.", False, told
        text = f"File created successfully at: {path} (file state is current in your context — no need to Read it back)"
        return text, False, told

    def read_file(self, path: str) -> tuple[str, bool, object]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            problem = f"File does not exist. Note: your current working directory is {self.cwd}."
            return problem, True, f"Error: {problem}"
        lines = text.split("\n")
        shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        return shown, False, {"type": "text", "file": {"filePath": path, "content": text, "numLines": len(lines)}}


# Long enough for the prompt cache to take it, as the real one is.
SYSTEM_PROMPT = "You are an agent working with the user toward their goals.\n" + (
    "Use the instructions below and the tools available to you to assist the user. " * 240
)


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return str(content)


def main(argv: list[str], product: str = PRODUCT, version: str = VERSION, resume: bool = True) -> NoReturn:
    try:
        options = read_argv(argv[1:])
        if "--version" in options:
            print(f"{version} ({product})")
            sys.exit(0)
        if "--help" in options:
            print(help_text(os.path.basename(argv[0]), product, resume))
            sys.exit(0)
        if options.one("--output-format") != "stream-json":
            raise Refused("The scripted agent speaks only --output-format stream-json")
    except Refused as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(1)
    sys.exit(Agent(options, version).run())
