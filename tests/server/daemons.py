"""A daemon for tests: in this process for speed, or as `clew serve` in its own, to be killed and started again.

Every JSON response is checked against the OpenAPI document.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import jsonschema

import forkserver
from clew.server.access import SharedState
from clew.server.app import App
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials
from clew.testing.stage import MODEL, Stage

TOKEN = "a-token-for-tests-that-is-long-enough-0123"
PORT = 7421
BASE = f"http://127.0.0.1:{PORT}"
START_S = 60
ENDED = ("answered", "cancelled", "timed_out", "failed", "interrupted")


class Contract:
    """The OpenAPI document, which responses are checked against. It is the same for every daemon, and made once."""

    _one: ClassVar[Contract | None] = None

    @classmethod
    def of(cls, app: App) -> Contract:
        if cls._one is None:
            cls._one = cls(app.api.openapi())
        return cls._one

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._paths = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + r"\Z"), calls) for path, calls in document["paths"].items()
        ]

    def check(self, method: str, path: str, status: int, media_type: str, body: bytes) -> None:
        calls = next((calls for pattern, calls in self._paths if pattern.match(path)), {})
        call = calls.get(method.lower())
        if call is None:
            return
        documented = call["responses"].get(str(status))
        assert documented is not None, f"{method} {path} answered {status}, which is not documented"
        content = documented.get("content", {})
        assert media_type in content or not (content or body), f"{method} {path} {status} answered {media_type}"
        schema = content.get(media_type, {}).get("schema")
        if schema and "json" in media_type:
            jsonschema.validate(json.loads(body), {**schema, "components": self.document["components"]})


class LocalDaemon:
    """A daemon, and calls to it. `http` sends the token."""

    def __init__(self, stage: Stage, http: httpx.AsyncClient, shared: SharedState | None = None) -> None:
        self.stage = stage
        self.http = http
        self.shared = shared  # of a daemon in this process

    async def get(self, path: str, **options: Any) -> Any:
        response = await self.http.get(path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None, status: int = 202, **options: Any) -> Any:
        response = await self.http.post(path, json={} if body is None else body, **options)
        assert response.status_code == status, response.text
        return response.json()

    async def patch(self, path: str, body: Any, status: int = 200) -> Any:
        response = await self.http.patch(path, json=body)
        assert response.status_code == status, response.text
        return response.json()

    async def thread(self, name: str = "t", **more: Any) -> Any:
        body = {"name": name, "cwd": str(self.stage.work), "model": MODEL, **more}
        return await self.post("/api/threads", body, 201)

    async def ask(self, thread: str, prompt: str, **more: Any) -> Any:
        """The run, after it has ended."""
        run = await self.post(f"/api/threads/{thread}/runs", {"prompt": prompt, **more})
        return await self.ended(run["id"])

    async def ended(self, run_id: str) -> Any:
        """Follows the run's events up to the last, so nothing is polled."""
        events = [event async for event in self.events(run_id)]
        assert events[-1]["kind"] == "run_ended"
        run = await self.get(f"/api/runs/{run_id}")
        assert run["status"] in ENDED
        return run

    async def until(self, run_id: str, kind: str, after: int = 0) -> Any:
        """The next event of that kind."""
        async for event in self.events(run_id, after):
            if event["kind"] == kind:
                return event
        raise AssertionError(f"the run ended without {kind}")

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Any]:
        headers = {"Last-Event-ID": str(after)} if after else {}
        async with self.http.stream("GET", f"/api/runs/{run_id}/events", headers=headers, timeout=60) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            async for event in parsed(response.aiter_lines()):
                yield event

    async def turns(self, thread: str) -> list[Any]:
        view = await self.get(f"/api/threads/{thread}/view")
        assert isinstance(view["turns"], list)
        return view["turns"]


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[Any]:
    """Server-sent events as a browser reads them."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            body = json.loads(fields["data"])
            assert fields["id"] == str(body["seq"])
            assert fields["event"] == body["kind"]
            yield body
            fields = {}


def check_responses(contract: Callable[[], Contract | None]) -> Callable[[httpx.Response], Any]:
    async def check(response: httpx.Response) -> None:
        document = contract()
        media_type = response.headers.get("content-type", "").split(";")[0]
        if document is None or media_type == "text/event-stream":
            return
        request = response.request
        document.check(request.method, request.url.path, response.status_code, media_type, await response.aread())

    return check


@asynccontextmanager
async def local_daemon(stage: Stage, static: Path | None = None, **options: Any) -> AsyncIterator[LocalDaemon]:
    """Runs in this process: the real client on the real store, without a socket."""
    async with stage.open(**options.pop("flags", {})) as client:
        policy = AccessPolicy(Credentials(TOKEN), PORT, tuple(options.pop("hosts", ())))
        app = App(client, policy, static or stage.folder / "no-page", options.pop("roots", ()))
        contract = Contract.of(app)
        transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
        async with (
            app.running(),
            httpx.AsyncClient(
                transport=transport,
                base_url=BASE,
                headers={"Authorization": f"Bearer {TOKEN}"},
                event_hooks={"response": [check_responses(lambda: contract)]},
                timeout=60,
            ) as http,
        ):
            yield LocalDaemon(stage, http, app.shared)


class ServeProcess(LocalDaemon):
    """`clew serve` in a process of its own."""

    def __init__(self, stage: Stage, *args: str, **environ: str) -> None:
        self._args = args
        self._environ = environ
        self._contract: Contract | None = None
        self.process = self._start(stage, "0")
        self.address = self._read_address()
        self.port = int(re.search(r":(\d+)/", self.address)[1])  # type: ignore[index]
        self.token = self.address.partition("?token=")[2]
        super().__init__(stage, self.client())

    def client(self, *, known: bool = True) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self.token}"} if known else {},
            event_hooks={"response": [check_responses(lambda: self._contract)]},
            timeout=60,
        )

    def _start(self, stage: Stage, port: str) -> subprocess.Popen[str]:
        with (stage.folder / "serve.log").open("a") as log:
            started: subprocess.Popen[str] = forkserver.start(
                ["serve", "--port", port, *self._args],
                env={**stage.environ, "CLEW_MODEL": MODEL, "CLEW_RESIDENT": "off", **self._environ},
                cwd=stage.work,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return started

    def _read_address(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith("http://"), f"no address: {line!r}; {self.log}"
        return line

    @property
    def log(self) -> str:
        return (self.stage.folder / "serve.log").read_text() if hasattr(self, "stage") else ""

    def restart(self, **environ: str) -> None:
        """Starts it again on the same port, with the same token, and with `environ` added to its environment."""
        self.close()
        self._environ = {**self._environ, **environ}
        self.process = self._start(self.stage, str(self.port))
        assert self._read_address() == self.address

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, which: int = signal.SIGTERM) -> int:
        self.process.send_signal(which)
        return self.process.wait(START_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        if self.process.stdout is not None:
            self.process.stdout.close()

    async def load_contract(self) -> None:
        self._contract = Contract(await self.get("/api/openapi.json"))


async def log_in(browser: httpx.AsyncClient, address: str) -> httpx.Response:
    """Opens the link as a browser does: the cookie is kept, and the page takes its key from after the #."""
    response = await browser.get(address)
    browser.headers["X-Clew-Key"] = response.headers.get("location", "").partition("#key=")[2]
    return response


@contextmanager
def serve_process(stage: Stage, *args: str, **environ: str) -> Iterator[ServeProcess]:
    made = ServeProcess(stage, *args, **environ)
    try:
        yield made
    finally:
        made.close()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
