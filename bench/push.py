"""Export and push of sessions of several sizes, and the push after one more turn: time and bytes.

The session is generated in the format of Claude's own file: questions, tool calls with their results, and answers, in
words that compress about as well as text. Clew adopts it. Then the scripted agent adds more turns, each of which is
pushed, and their mean is shown as the second push. The remote is a real S3 server on the loopback: the times are those
of Clew itself, and the bytes are everything that was uploaded, including the manifest.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pyrage

from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.agents.claude import Claude
from clew.api.client import Client
from clew.hosts.chat.agent_sessions import AgentSessions
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.remote.chunks import MEAN_CHUNK_BYTES
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import Remote, open_remote
from clew.hosts.transfer.remote.sync import PushResult, push
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.s3 import S3Server
from clew.testing.stage import MODEL, Stage

SIZES_MB = (0.5, 5.0, 50.0)
QUICK_MB = (0.5, 4.0)
PROMPT_CHARS, REPLY_CHARS = 400, 1_500
RESULT_CHARS, SHOWN_CHARS = 40_000, 200  # of a tool's result in the file, and of what the model is shown of it
TURNS = 9  # their mean counts, because it is random where chunks end, and so is the size of the last one
MAX_GROWTH = 3.0  # of the second push's bytes, from the smallest session to one a hundred times as large
MAX_CHUNKS = 8.0  # that the second push sends; used in a quick run, whose sessions are too small to compare
MAX_SHARE = 0.02  # the second push's bytes ÷ the first push's bytes, for the largest session


@dataclass(frozen=True, slots=True)
class Measured:
    size_mb: float
    closed: bool
    export_s: float
    first: PushResult
    first_s: float
    second_bytes: int
    second_s: float
    turn_bytes: int
    manifest_bytes: int

    @property
    def row(self) -> tuple[object, ...]:
        first, second = self.first.sent.size_bytes, self.second_bytes
        return (
            f"{self.size_mb:g} MB{', encrypted' * self.closed}",
            self.export_s,
            self.first_s,
            first,
            self.second_s,
            second,
            second / first,
            self.turn_bytes,
            second / self.turn_bytes,
            self.manifest_bytes,
        )


def measure(quick: bool) -> Result:
    found = asyncio.run(_measured(QUICK_MB if quick else SIZES_MB))
    table = Table(
        "Export, push, and push after one more turn",
        [
            Column("session"),
            Column("export, s", ".2f"),
            Column("first push, s", ".2f"),
            Column("bytes sent", ",d"),
            Column("second push, s", ".2f"),
            Column("bytes sent then", ",d"),
            Column("÷ first", ".4f"),
            Column("the turn's own bytes", ",d"),
            Column("÷ turn", ".2f"),
            Column("its manifest, bytes", ",d"),
        ],
        [each.row for each in found],
    )
    plain = [each for each in found if not each.closed]
    smallest, largest = plain[0], plain[-1]
    growth = largest.second_bytes / smallest.second_bytes
    share = largest.second_bytes / largest.first.sent.size_bytes
    if quick:
        again = max(0, largest.second_bytes - largest.turn_bytes) / MEAN_CHUNK_BYTES
        what = f"pieces that the second push sends again, {largest.size_mb:g} MB"
        return Result("push", [table], [Check(what, again, MAX_CHUNKS, timed=False)])
    sizes = f"{largest.size_mb:g} MB ÷ {smallest.size_mb:g} MB"
    return Result(
        "push",
        [table],
        [
            Check(f"bytes of the second push, {sizes}", growth, MAX_GROWTH, timed=False),
            Check(f"second push ÷ first, {largest.size_mb:g} MB", share, MAX_SHARE, timed=False),
        ],
    )


async def _measured(sizes: tuple[float, ...]) -> list[Measured]:
    with tempfile.TemporaryDirectory() as folder, S3Server(Path(folder) / "s3") as server:
        os.environ.update(server.environ)
        found = []
        for size in sizes:
            for closed in (False, True) if size == sizes[-1] else (False,):
                tell(f"  {size:g} MB{', encrypted' * closed}")
                found.append(await _one(Path(folder) / f"{size:g}-{closed}", size, closed, server.new_bucket()))
        return found


async def _one(folder: Path, size_mb: float, closed: bool, url: str) -> Measured:
    key = pyrage.x25519.Identity.generate()
    lock = RemoteKeys(recipients=(str(key.to_public()),), identity=f"{key}\n") if closed else RemoteKeys()
    with ModelApi() as api:
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        session_id = str(uuid.UUID(int=random.Random(size_mb).getrandbits(128), version=4))
        path = Claude().expected_session_path(str(stage.home / ".claude"), str(stage.work), session_id)
        assert path is not None
        path.parent.mkdir(parents=True)
        with path.open("w") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in _lines(session_id, str(stage.work), int(size_mb * 1e6)))
        async with stage.open() as client:
            sessions = AgentSessions(client.engine)
            adopted = await sessions.adopt(await sessions.find(session_id))
            assert adopted.thread is not None, adopted.why
            began = time.perf_counter()
            exported = await export_thread(client.engine, adopted.thread, {})
            export_s = time.perf_counter() - began
            assert exported.sessions[0].included, exported.sessions
            first, first_s, before, _ = await _pushed(client, url, lock, adopted.thread)
            thread = await client.find(adopted.thread)
            sent, took = [], []
            size = before
            for _ in range(TURNS):
                reply = await (await thread.ask("And now? " + "word " * (PROMPT_CHARS // 5)))
                assert reply.session_resumed, reply
                pushed, push_s, size, manifest = await _pushed(client, url, lock, adopted.thread)
                sent.append(pushed.sent.size_bytes)
                took.append(push_s)
    turn_bytes = (size - before) // TURNS
    return Measured(size_mb, closed, export_s, first, first_s, round(mean(sent)), mean(took), turn_bytes, manifest)


async def _pushed(client: Client, url: str, lock: RemoteKeys, name: str) -> tuple[PushResult, float, int, int]:
    """The bytes that were sent, how long it took, the size of the thread, and its manifest on the remote."""
    began = time.perf_counter()
    remote: Remote = await open_remote(ObjectStore(url), lock, to_push=True)
    done = await push(client.engine, remote, name, {})
    took = time.perf_counter() - began
    [manifest] = (await remote.manifests()).manifests
    last = (await remote.objects.paths("manifests"))[-1]
    raw = await remote.objects.get(last)
    assert raw is not None and done.state == "pushed"
    return done, took, sum(part.size_bytes for part in manifest.parts), len(raw)


def _lines(session_id: str, cwd: str, size: int) -> Iterator[dict[str, Any]]:
    """A conversation in the format of Claude's file, of about that many bytes."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(8_000)]

    def text(chars: int) -> str:
        return " ".join(chance.choices(words, k=chars // 6))

    common = {"isSidechain": False, "sessionId": session_id, "cwd": cwd, "version": "2.1.325", "userType": "external"}
    parent, written, number = None, 0, 0
    while written < size:
        number += 1
        call = f"toolu_{number:08d}"
        answer = {"type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
        use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text(60)}}
        gave = {"type": "tool_result", "tool_use_id": call, "content": text(SHOWN_CHARS), "is_error": False}
        said = [{"type": "text", "text": text(REPLY_CHARS)}]
        for kind, message, more in (
            ("user", {"role": "user", "content": text(PROMPT_CHARS)}, {}),
            ("assistant", answer | {"id": f"msg_{number:07d}1", "content": [use], "stop_reason": "tool_use"}, {}),
            ("user", {"role": "user", "content": [gave]}, {"toolUseResult": {"stdout": text(RESULT_CHARS)}}),
            ("assistant", answer | {"id": f"msg_{number:07d}2", "content": said, "stop_reason": "end_turn"}, {}),
        ):
            own = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            line = {"parentUuid": parent, "type": kind, "message": message, "uuid": own, **common, **more}
            line["timestamp"] = "2026-11-15T12:00:00.000Z"
            parent = own
            written += len(json.dumps(line)) + 1
            yield line
