"""A scripted Messages API on the loopback, for tests of anything that drives a coding agent.

The real Claude CLI runs against it, unchanged and offline::

    with ModelApi(script=[Text("hello")]) as api:
        run_the_agent(env={"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "dummy"})
        [request] = api.main_requests
        assert request.shown_texts() == [("user", "hi")]

Replies are data (`clew.testing.scripts` has them, and how one is chosen). Usage figures follow the documented rules of
the prompt cache (`clew.testing.prompt_cache`) by a clock that a test can advance: `api.clock.advance(600)`.

One thread for each connection; everything shared is guarded by one condition, which is notified on every request.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from clew.testing.prompt_cache import (
    BadBreakpoints,
    CacheAccount,
    Clock,
    PromptCache,
    count_tokens,
    estimate_tokens,
)
from clew.testing.scripts import (
    FINAL,
    Cut,
    Fail,
    Hang,
    Reply,
    ReplyHook,
    Request,
    Slow,
    Text,
    TooLong,
    ToolUse,
    choose_reply,
)

_CLOSE_TIMEOUT_S: Final = 5.0


class ModelApi:
    """The API. `script`, `reply` and `default` may be set at any time; requests are answered by what stands then."""

    def __init__(
        self,
        script: Iterable[Reply] = (),
        *,
        reply: ReplyHook | None = None,
        default: Reply | None = None,
        clock: Clock | None = None,
        minimum_cached_tokens: int = 1024,
    ) -> None:
        self.script: deque[Reply] = deque(script)
        self.reply = reply
        self.default = default
        self.clock = clock if clock is not None else Clock(time.time)
        self.cache = PromptCache(self.clock, minimum_tokens=minimum_cached_tokens)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._requests: list[Request] = []
        self._holds: set[_Hold] = set()
        self._run = secrets.token_hex(6)  # a session may outlive the API that began it: its ids must not come again
        self._ids = itertools.count(1)
        self._record: IO[str] | None = None
        self._hook_error: Exception | None = None
        self._server: _Server | None = None

    # Life

    def start(self) -> Self:
        self._server = _Server(self)
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="model-api", daemon=True)
        serve.start()
        return self

    def close(self) -> None:
        """Stop at once: whatever is under way is cut off. Doing it twice is harmless."""
        if self._server is None:
            return
        self._closing.set()
        self._server.shutdown()
        self._server.cut_connections(_CLOSE_TIMEOUT_S)
        self._server.server_close()
        self._server = None
        with self._changed:
            if self._record is not None:
                self._record.close()
            self._record = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self._hook_error is not None:
            raise self._hook_error

    @property
    def url(self) -> str:
        """The base address for clients: `http://127.0.0.1:PORT`."""
        if self._server is None:
            raise RuntimeError("the model API is not running")
        return f"http://127.0.0.1:{self._server.server_port}"

    # What was asked

    @property
    def requests(self) -> list[Request]:
        """Every POST so far, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def main_requests(self) -> list[Request]:
        return [request for request in self.requests if request.is_main]

    def wait_for_requests(self, count: int, timeout_s: float = 10.0, *, main: bool = False) -> list[Request]:
        """Wait until so many requests (with `main`: of the conversation itself) have come, and return them all."""

        def seen() -> list[Request]:
            return self.main_requests if main else list(self._requests)

        with self._changed:
            if not self._changed.wait_for(lambda: len(seen()) >= count, timeout_s):
                raise TimeoutError(f"{len(seen())} of {count} requests came within {timeout_s} s")
            return seen()

    def record_to(self, path: str | Path) -> None:
        """Append each request from now on to a file, a JSON object a line, keys left out. Only the owner reads it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with self._changed:
            if self._record is not None:
                self._record.close()
            self._record = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")

    def wait_for_hanging(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until so many answers hang; with 0, until every client that was kept waiting has gone."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._holds) == count, timeout_s):
                raise TimeoutError(f"{len(self._holds)} answers hang after {timeout_s} s, not {count}")

    def release(self) -> int:
        """Let every answer that hangs now go on to its end. Returns how many there were."""
        with self._changed:
            holds, self._holds = self._holds, set()
            for hold in holds:
                hold.release()
            return len(holds)

    # What is answered

    def _answer(self, request: Request) -> _Answer:
        """Choose the reply, charge the cache and put the request on record, in one step for whoever waits."""
        reply = self._pick(request)
        with self._changed:
            account = CacheAccount()
            if not isinstance(reply, Fail):
                try:
                    account = self.cache.charge(request.body)
                except BadBreakpoints as error:
                    reply = Fail(400, "invalid_request_error", str(error))
            # On the list before anyone can see the request: release() after wait_for_requests() finds it.
            hold = _Hold() if isinstance(reply, Hang) else None
            if hold is not None:
                self._holds.add(hold)
            self._put_on_record(replace(request, cache=account))
            number = next(self._ids)
        return _Answer(reply, request.model, account, f"{self._run}{number:06d}", hold)

    def _pick(self, request: Request) -> Reply:
        reply: Reply | None = None
        with self._changed:
            if self.script and request.is_main:
                reply = self.script.popleft()
        if reply is None and self.reply is not None:
            try:
                reply = self.reply(request)
            except Exception as error:  # noqa: BLE001 — the test's own code; told to the client now, to the test on exit
                self._hook_error = error
                reply = Fail(500, "api_error", f"the reply hook raised {error!r}", FINAL)
        if reply is None:
            reply = choose_reply(request, self.default)
        return reply.as_fail() if isinstance(reply, TooLong) else reply

    def _put_on_record(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            if self._record is not None:
                self._record.write(json.dumps(request.to_json()) + "\n")
                self._record.flush()
            self._changed.notify_all()

    def _forget(self, hold: _Hold) -> None:
        with self._changed:
            self._holds.discard(hold)
            self._changed.notify_all()


class _Hold:
    """One hanging answer: a wait that ends on release, or when the client goes. No polling."""

    def __init__(self) -> None:
        self._waiter, self._waker = socket.socketpair()

    def release(self) -> None:
        self._waker.send(b"!")

    def wait(self, connection: socket.socket) -> bool:
        """True when released, False when the client has gone."""
        with selectors.DefaultSelector() as watched:
            watched.register(self._waiter, selectors.EVENT_READ)
            watched.register(connection, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in watched.select()]
                if self._waiter in ready:
                    return True
                if not connection.recv(1, socket.MSG_PEEK):
                    return False
                watched.unregister(connection)  # more than its request came: the client is there, and that is all

    def close(self) -> None:
        self._waiter.close()
        self._waker.close()


class _Act(Enum):
    """The steps of an answer that are not bytes or pauses."""

    HEADERS = "send the HTTP headers"
    HOLD = "wait for a release"
    BREAK = "drop the connection"


_Step = bytes | float | _Act  # bytes to send, seconds to pause, or an act


@dataclass(frozen=True)
class _Answer:
    """A chosen reply, on its way to the wire."""

    reply: Reply
    model: str
    account: CacheAccount
    tag: str  # makes the ids unique
    hold: _Hold | None

    def content(self) -> list[dict[str, Any]]:
        match self.reply:
            case ToolUse() as first:
                calls = [
                    {"type": "tool_use", "id": f"toolu_{self.tag}{n:02d}", "name": call.name, "input": dict(call.input)}
                    for n, call in enumerate((first, *first.also))
                ]
                return [*_text_block(first.text), *calls]
            case Text(text) | Slow(text) | Cut(text) | Hang(_, text):
                return _text_block(text)
            case _:
                return []

    def message(self) -> dict[str, Any]:
        content = self.content()
        return {
            "id": f"msg_{self.tag}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": "tool_use" if isinstance(self.reply, ToolUse) else "end_turn",
            "stop_sequence": None,
            "usage": self.account.usage(estimate_tokens(json.dumps(content))),
        }

    def stream_steps(self) -> Iterator[_Step]:
        """The answer as server-sent events."""
        hang = self.reply.after if isinstance(self.reply, Hang) else None
        message = self.message()
        opening = {**message, "content": [], "stop_reason": None, "usage": self.account.usage(1)}
        yield from [_Act.HOLD] if hang == "request" else []
        yield _Act.HEADERS
        yield from [_Act.HOLD] if hang == "headers" else []
        yield _event("message_start", message=opening)
        yield from [_Act.HOLD] if hang == "start" else []
        for index, block in enumerate(message["content"]):
            yield from self._block_steps(index, block)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage=message["usage"])
        yield _event("message_stop")

    def _block_steps(self, index: int, block: dict[str, Any]) -> Iterator[_Step]:
        if block["type"] == "tool_use":
            yield _event("content_block_start", index=index, content_block={**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _event("content_block_delta", index=index, delta=delta)
        else:
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for step in _pieces(self.reply, block["text"]):
                if isinstance(step, str):
                    delta = {"type": "text_delta", "text": step}
                    yield _event("content_block_delta", index=index, delta=delta)
                else:
                    yield step
        if isinstance(self.reply, Cut):
            yield _Act.BREAK
        yield from [_Act.HOLD] if isinstance(self.reply, Hang) and self.reply.after == "text" else []
        yield _event("content_block_stop", index=index)

    def json_steps(self) -> Iterator[_Step]:
        """The answer in one piece: it hangs before it, breaks instead of it, or takes its time first."""
        if isinstance(self.reply, Hang):
            yield _Act.HOLD
        if isinstance(self.reply, Cut):
            yield _Act.BREAK
        text = "".join(block.get("text", "") for block in self.content())
        yield sum(step for step in _pieces(self.reply, text) if isinstance(step, float))
        yield _Act.HEADERS
        yield json.dumps(self.message()).encode()


def _text_block(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []  # the API never answers with an empty block


def _pieces(reply: Reply, text: str) -> Iterator[str | float]:
    """A text cut into the pieces that it is sent in, with the pauses between them."""
    match reply:
        case Slow(_, words_per_s):
            pieces, delay_s = re.findall(r"\S+\s*|\s+", text), 1 / words_per_s
        case Text(_, chunks, delay):
            size = max(1, -(-len(text) // max(1, chunks)))
            pieces, delay_s = [text[at : at + size] for at in range(0, len(text), size)], delay
        case _:
            pieces, delay_s = [text], 0.0
    for number, piece in enumerate(pieces):
        if number and delay_s:
            yield delay_s
        yield piece


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


class _ClientGone(ConnectionError):
    """Nobody is there to be answered any more, or we are closing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a test may start many agents at once

    def __init__(self, api: ModelApi) -> None:
        self.api = api
        self._open: set[socket.socket] = set()
        self._emptied = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._emptied:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._emptied:
            self._open.discard(request)
            self._emptied.notify_all()

    def cut_connections(self, timeout_s: float) -> None:
        """End every connection and wait for its thread to let go of it, so that no socket outlives the API."""
        with self._emptied:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._emptied.wait_for(lambda: not self._open, timeout_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # agents get killed: a client that goes is no error
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self._refuse(Fail(404, "not_found_error", f"GET {self.path} is not served here"))

    def do_POST(self) -> None:
        api = self.server.api
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._refuse(Fail(400, "invalid_request_error", "the request body is not a JSON object"))
            return
        request = Request(self.path, headers, body, api.clock.now())
        if request.route == "/v1/messages":
            self._serve(api._answer(request), stream=bool(body.get("stream")))
            return
        api._put_on_record(request)
        if request.route == "/v1/messages/count_tokens":
            self._send_json(200, {"input_tokens": count_tokens(body)})
        else:
            self._refuse(Fail(404, "not_found_error", f"POST {self.path} is not served here"))

    def _serve(self, answer: _Answer, stream: bool) -> None:
        if isinstance(answer.reply, Fail):
            self._refuse(answer.reply)
            return
        try:
            for step in answer.stream_steps() if stream else answer.json_steps():
                self._take(step, answer, stream)
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True
        finally:
            if answer.hold is not None:
                self.server.api._forget(answer.hold)
                answer.hold.close()

    def _take(self, step: _Step, answer: _Answer, stream: bool) -> None:
        match step:
            case bytes():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
            case float():
                if self.server.api._closing.wait(step):
                    raise _ClientGone
            case _Act.HEADERS:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if stream else "application/json")
                self.send_header("transfer-encoding", "chunked")
                self.send_header("request-id", f"req_{answer.tag}")
                self.end_headers()
            case _Act.HOLD:
                if answer.hold is None or not answer.hold.wait(self.connection):
                    raise _ClientGone
            case _Act.BREAK:
                raise _ClientGone

    def _refuse(self, fail: Fail) -> None:
        error = {"type": fail.type, "message": fail.message}
        self._send_json(fail.status, {"type": "error", "error": error}, fail.headers)

    def _send_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
