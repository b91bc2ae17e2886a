"""A scripted model API on the loopback (Messages and Responses), for tests of anything that drives a coding agent.

The real Claude CLI runs against it, unchanged and offline::

    with ModelApi(script=[Text("hello")]) as api:
        run_the_agent(env={"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "dummy"})
        [request] = api.main_requests
        assert request.shown_texts() == [("user", "hi")]

Replies are data (`clew.testing.model.replies`), and rules choose one (`clew.testing.model.scripts`). The usage follows
the documented rules of the prompt cache (`clew.testing.model.prompt_cache`), with a clock that a test can advance:
`api.clock.advance(600)`.

There is one thread for each connection. All shared state is guarded by one condition, which is notified on every
request.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from clew.testing.model import responses_wire
from clew.testing.model.messages_wire import Act, MessagesAnswer, Step
from clew.testing.model.prompt_cache import BadBreakpoints, CacheAccount, Clock, PromptCache, count_tokens
from clew.testing.model.replies import FINAL, Fail, Hang, Reply, TooLong
from clew.testing.model.responses_wire import ResponsesAnswer
from clew.testing.model.scripts import ReplyHook, Request, choose_reply
from clew.testing.model.server import Hold, LoopbackServer

_CLOSE_TIMEOUT_S: Final = 5.0


class ModelApi:
    """The API. `script`, `reply` and `default` may be set at any time, and apply to the requests that come after."""

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
        self.refused_hosts: list[str] = []  # addresses that clients tried to reach with this API as their proxy
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._requests: list[Request] = []
        self._holds: set[Hold] = set()
        self._run = secrets.token_hex(6)  # makes ids unique: a session may be resumed against another ModelApi
        self._ids = itertools.count(1)
        self._record: IO[str] | None = None
        self._hook_error: Exception | None = None
        self._server: _Server | None = None

    # Start and stop

    def start(self) -> Self:
        self._server = _Server(self)
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="model-api", daemon=True)
        serve.start()
        return self

    def close(self) -> None:
        """Stops at once: running requests are cut off. Idempotent."""
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

    # Requests

    @property
    def requests(self) -> list[Request]:
        """Every POST request so far, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def main_requests(self) -> list[Request]:
        return [request for request in self.requests if request.is_main]

    def wait_for_requests(self, count: int, timeout_s: float = 60.0, *, main: bool = False) -> list[Request]:
        """Waits for that many requests (with `main`: of the conversation itself), and returns all of them."""

        def seen() -> list[Request]:
            return self.main_requests if main else list(self._requests)

        with self._changed:
            if not self._changed.wait_for(lambda: len(seen()) >= count, timeout_s):
                raise TimeoutError(f"{len(seen())} of {count} requests arrived within {timeout_s} s")
            return seen()

    def record_to(self, path: str | Path) -> None:
        """Appends each request from now on to a file, one JSON object a line, without API keys. The file's mode is
        0600."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with self._changed:
            if self._record is not None:
                self._record.close()
            self._record = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")

    def wait_for_hanging(self, count: int, timeout_s: float = 60.0) -> None:
        """Waits until that many answers hang; with 0, until every waiting client has disconnected."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._holds) == count, timeout_s):
                raise TimeoutError(f"{len(self._holds)} answers hang after {timeout_s} s, not {count}")

    def release(self) -> int:
        """Lets every hanging answer continue to its end. Returns how many there were."""
        with self._changed:
            holds, self._holds = self._holds, set()
            for hold in holds:
                hold.release()
            return len(holds)

    # Answers

    def _answer(self, request: Request) -> tuple[MessagesAnswer | ResponsesAnswer, Hold | None]:
        """Chooses the reply, charges the cache and records the request. For a waiting test this is one step."""
        reply = self._pick(request)
        with self._changed:
            account = CacheAccount()
            if not isinstance(reply, Fail | TooLong):
                try:
                    account = self.cache.charge(
                        responses_wire.cacheable(request.body) if request.is_responses else request.body
                    )
                except BadBreakpoints as error:
                    reply = Fail(400, "invalid_request_error", str(error))
            # The hold is added before the request is visible: release() after wait_for_requests() must find it.
            hold = Hold() if isinstance(reply, Hang) else None
            if hold is not None:
                self._holds.add(hold)
            self._record_request(replace(request, cache=account))
            number = next(self._ids)
        answer = ResponsesAnswer if request.is_responses else MessagesAnswer
        return answer(reply, request.model, account, f"{self._run}{number:06d}"), hold

    def _pick(self, request: Request) -> Reply:
        reply: Reply | None = None
        with self._changed:
            if self.script and request.is_main:
                reply = self.script.popleft()
        if reply is None and self.reply is not None:
            try:
                reply = self.reply(request)
            except Exception as error:  # noqa: BLE001 — the test's own code: raised in the test when the API closes
                self._hook_error = error
                reply = Fail(500, "api_error", f"the reply hook raised {error!r}", FINAL)
        if reply is None:
            reply = choose_reply(request, self.default)
        return reply.as_fail() if isinstance(reply, TooLong) and not request.is_responses else reply

    def _record_request(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            if self._record is not None:
                self._record.write(json.dumps(request.to_json()) + "\n")
                self._record.flush()
            self._changed.notify_all()

    def _forget(self, hold: Hold) -> None:
        with self._changed:
            self._holds.discard(hold)
            self._changed.notify_all()


class _Disconnected(ConnectionError):
    """The client has disconnected, or the API is closing."""


class _Server(LoopbackServer):
    def __init__(self, api: ModelApi) -> None:
        self.api = api
        super().__init__(_Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # what is written without a pause is sent in one piece

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_CONNECT(self) -> None:
        """A client uses this API as its HTTPS proxy: the address is recorded, and the request refused."""
        self.server.api.refused_hosts.append(self.path)
        self._refuse(Fail(403, "permission_error", "nothing leaves this machine"))
        self.close_connection = True

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
        if request.route in ("/v1/messages", responses_wire.ROUTE):
            self._serve(*api._answer(request), stream=bool(body.get("stream")))
            return
        api._record_request(request)
        if request.route == "/v1/messages/count_tokens":
            self._send_json(200, {"input_tokens": count_tokens(body)})
        else:
            self._refuse(Fail(404, "not_found_error", f"POST {self.path} is not served here"))

    def _serve(self, answer: MessagesAnswer | ResponsesAnswer, hold: Hold | None, stream: bool) -> None:
        if isinstance(answer.reply, Fail):
            self._refuse(answer.reply)
            return
        try:
            for step in answer.stream_steps() if stream else answer.json_steps():
                self._take(step, answer, hold, stream)
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except ConnectionError:
            self.close_connection = True
        finally:
            if hold is not None:
                self.server.api._forget(hold)
                hold.close()

    def _take(self, step: Step, answer: MessagesAnswer | ResponsesAnswer, hold: Hold | None, stream: bool) -> None:
        match step:
            case bytes():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
            case float():
                self.wfile.flush()
                if self.server.api._closing.wait(step):
                    raise _Disconnected
            case Act.HEADERS:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if stream else "application/json")
                self.send_header("transfer-encoding", "chunked")
                self.send_header("request-id", f"req_{answer.tag}")
                self.end_headers()
            case Act.HOLD:
                self.wfile.flush()
                if hold is None or not hold.wait(self.connection):
                    raise _Disconnected
            case Act.BREAK:
                self.wfile.flush()
                raise _Disconnected

    def _refuse(self, fail: Fail) -> None:
        error = {"type": "error", "error": {"type": fail.type, "message": fail.message}}
        responses = self.path.partition("?")[0] == responses_wire.ROUTE
        self._send_json(fail.status, responses_wire.refusal(fail) if responses else error, fail.headers)

    def _send_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
