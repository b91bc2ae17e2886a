"""Two machines for tests: each has its own home, directory and store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forkserver
from clew.api.client import Reply, Thread
from clew.hosts.transfer.export import ExportedThread, export_thread
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import ImportResult, import_thread
from clew.testing.model.api import ModelApi
from clew.testing.stage import MODEL, Stage
from conftest import make_stage
from plain_cli import continue_outside, message_ids

NOTHING: Mapping[str, str] = {}


@contextmanager
def two_machines(folder: Path, api: ModelApi, kind: str = "scripted", *, codex: bool = False) -> Iterator[list[Stage]]:
    with (
        make_stage(kind, folder / "a", api, codex=codex) as a,
        make_stage(kind, folder / "b", api, codex=codex) as b,
    ):
        yield [a, b]


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options))  # type: ignore[arg-type]


async def exported(stage: Stage, name: str = "t", **options: bool) -> ExportedThread:
    async with stage.open() as client:
        return await export_thread(client.engine, name, NOTHING, **options)


async def imported(stage: Stage, content: bytes, **options: object) -> ImportResult:
    async with stage.open() as client:
        cwd = str(options.pop("cwd", stage.work))
        return await import_thread(client.engine, read_export(content), cwd=cwd, **options)  # type: ignore[arg-type]


def continue_without_clew(stage: Stage, session_id: str, prompt: str, *flags: str) -> None:
    """Continues a session in the plain Claude CLI, scripted or real."""
    continue_outside(stage.binary, session_id, prompt, *flags, environ=stage.environ, cwd=stage.work)


def go_back_without_clew(stage: Stage, session_id: str, prompt: str) -> None:
    """Continues a session in the plain Claude CLI from its first answer, so that it branches off there."""
    file = next(path for path in stage.session_files() if path.stem == session_id)
    continue_without_clew(stage, session_id, prompt, f"--resume-session-at={message_ids(file)[0]}")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def clew(stage: Stage, *args: str | Path, cwd: Path | None = None, **environ: str) -> Done:
    """Runs the command line in its own process."""
    given = {**stage.environ, "CLEW_MODEL": MODEL, **environ}
    done = forkserver.run(*map(str, args), env=given, cwd=cwd or stage.work)
    return Done(done.returncode, done.stdout, done.stderr)
