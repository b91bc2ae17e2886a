"""A real `clew serve` with the scripted agent, as the tests of the page use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from clew.core.history import Role, Turn
from clew.core.ids import TurnId
from clew.store import open_store
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import MODEL, Stage
from clew.web import STATIC
from server.daemons import ServeProcess, serve_process


class Daemon:
    """A daemon in a process of its own, and calls to it with its token."""

    def __init__(self, stage: Stage, process: ServeProcess) -> None:
        self.stage = stage
        self.process = process
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{process.port}",
            headers={"Authorization": f"Bearer {process.token}"},
            timeout=60,
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        response = self._http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None) -> Any:
        response = self._http.post(path, json={} if body is None else body)
        assert response.is_success, response.text
        return response.json()

    def delete(self, path: str) -> None:
        response = self._http.delete(path)
        assert response.is_success, response.text

    def thread(self, name: str, *prompts: str, **more: Any) -> str:
        """The id of a new thread in which these prompts were asked and answered."""
        made = self.post("/api/threads", {"name": name, "cwd": str(self.stage.work), "model": MODEL, **more})
        for prompt in prompts:
            self.ask(made["id"], prompt)
        return str(made["id"])

    def ask(self, thread: str, prompt: str) -> None:
        """Returns when the run has ended."""
        self.end_of(self.post(f"/api/threads/{thread}/runs", {"prompt": prompt})["id"])

    def end_of(self, run: str) -> None:
        """Waits until the run has ended, because its events end then."""
        with self._http.stream("GET", f"/api/runs/{run}/events") as events:
            assert any(line == "event: run_ended" for line in events.iter_lines())

    def say(self, thread: str, *texts: str) -> None:
        """Stores turns directly, without an agent: a prompt and an answer for each text."""
        with open_store(self.stage.clew_home / "clew.db") as store, store.transaction():
            for n, text in enumerate(texts):
                at = 1000.0 + n
                store.turns.add(thread, Turn(TurnId(f"{thread}-{n:05}-u"), Role.USER, f"prompt {n}", created_at=at))
                answer = Turn(TurnId(f"{thread}-{n:05}"), Role.ASSISTANT, text, agent="claude", created_at=at)
                store.turns.add(thread, answer)

    def turns(self, thread: str) -> list[Any]:
        turns = self.get(f"/api/threads/{thread}/view")["turns"]
        assert isinstance(turns, list)
        return turns


@contextmanager
def started(
    folder: Path, *, codex: Path | None = None, prepare: Callable[[Stage], object] | None = None, **environ: str
) -> Iterator[Daemon]:
    """A running daemon. `prepare` is called before it starts."""
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page is not built: run `make web`")
    with ModelApi() as api:
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"), codex=codex)
        if prepare is not None:
            prepare(stage)
        with serve_process(stage, **environ) as process:
            daemon = Daemon(stage, process)
            yield daemon
            daemon.close()
        left = stage.processes()
        assert not left, f"processes left running: {left}"
