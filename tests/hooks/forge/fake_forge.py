"""A fake forge on the loopback interface: it stores comments, and answers who has write access."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clew.api.client import Client
from clew.core.hooks.hook import Forge
from clew.hosts.hooks.forge.api import ForgeApi
from clew.hosts.hooks.hooks import Hooks

TOKEN = "tok-not-a-real-one"


class FakeForge:
    """`fails` returns the status of an answer that should fail; while `held` is cleared, comments get no answer."""

    def __init__(self) -> None:
        self.permissions: dict[str, str] = {}  # by user
        self.closed: set[int] = set()
        self.comments: list[tuple[int, str]] = []  # number and text, in order of arrival
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        self.fails: Callable[[int], int | None] = lambda nth: None  # by the number of the request, from 1
        self.held = threading.Event()
        self.held.set()
        self._changed = threading.Condition()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, content = forge._take(self.command, self.path, self.headers.get("authorization", ""), body)
                raw = json.dumps(content).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    self.close_connection = True  # the client was killed

            do_GET = do_POST = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def _take(self, method: str, path: str, token: str, body: bytes) -> tuple[int, dict[str, Any]]:
        with self._changed:
            self.asked.append(f"{method} {path}")
            self.tokens.add(token)
            failure = self.fails(len(self.asked))
            if failure is None and method == "POST":
                number = int(path.split("/")[-2])
                self.comments.append((number, json.loads(body)["body"]))
            self._changed.notify_all()
        if failure is not None:
            return failure, {}
        if method == "POST":
            self.held.wait(120)
            return 201, {"html_url": f"{self.url}/comments/{len(self.comments)}"}
        if found := re.search(r"/collaborators/([^/]+)/permission\Z", path):
            permission = self.permissions.get(found[1])
            return (404, {}) if permission is None else (200, {"permission": permission})
        if found := re.search(r"/issues/(\d+)\Z", path):
            number = int(found[1])
            return 200, {"number": number, "state": "closed" if number in self.closed else "open"}
        return 404, {}

    def wait_for_comments(self, count: int, timeout_s: float = 90) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.comments) >= count, timeout_s):
                raise TimeoutError(f"{len(self.comments)} of {count} comments came")

    def __enter__(self) -> FakeForge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.held.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def hooks_with(
    client: Client,
    forge: FakeForge,
    *,
    retry_s: float = 0.01,
    secrets: Callable[[], Mapping[str, str]] | None = None,
) -> Hooks:
    """Hooks like the client's, with a token for the fake forge and almost no pause between retries."""

    def api_of(kind: Forge) -> ForgeApi:
        return ForgeApi(kind, forge.url, TOKEN)

    return Hooks(client.engine, client.hooks.settings, client.home, api_of, retry_s=retry_s, secrets=secrets)
