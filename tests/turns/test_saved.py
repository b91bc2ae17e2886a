"""What a session's file really holds: answers that were not saved, and files that somebody altered.

The oracle is law 1: every word of every answer is known, and the model's next request is compared with the thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.api.client import Client, Reply, Thread
from clew.core.pins import PinState
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Reply as ModelReply
from clew.testing.model.scripts import Request, Text
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected
from conftest import make_stage

DISK_BYTES = 4 * 1024 * 1024


async def true_turn(thread: Thread, voice: TokenModel) -> Reply:
    history, prompt = await thread.turns(), voice.prompt()
    reply = await (await thread.ask(prompt)).reply()
    assert reply.status == "answered", reply.error
    assert voice.shown == expected(history, prompt)
    return reply


async def pins_of(client: Client, thread: Thread) -> list[PinState]:
    return [pin.state for pin in await client.engine.store.call(lambda store: store.pins.of_thread(thread.record.id))]


@pytest.fixture(
    params=["scripted", pytest.param("claude", marks=pytest.mark.real), pytest.param("codex", marks=pytest.mark.real)]
)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stage(agent: str, tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    with make_stage("real" if agent == "claude" else "scripted", tmp_path, api, codex=agent == "codex") as stage:
        yield stage


def opened(stage: Stage, agent: str) -> contextlib.AbstractAsyncContextManager[Client]:
    return stage.open(agent="codex") if agent == "codex" else stage.open()


def files(stage: Stage, agent: str) -> list[Path]:
    return stage.codex_files() if agent == "codex" else stage.session_files()


# --- answers that were not saved


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system that is small enough to be filled. It needs the privilege to mount."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"A full disk needs the right to mount one: {done.stderr}"
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return ballast


def await_in(paths: Callable[[], list[Path]], text: str) -> None:
    """Waits until the agent has written the user's line."""
    deadline = time.monotonic() + 60
    while not any(text.encode() in path.read_bytes() for path in paths()):
        assert time.monotonic() < deadline, "the prompt never came into the file"
        time.sleep(0.02)


@pytest.mark.parametrize("turn", [1, 2])
async def test_answer_that_a_full_disk_did_not_save_is_sent_with_the_next_turn(
    stage: Stage, agent: str, turn: int, api: ModelApi
) -> None:
    folder = stage.home / (".codex/sessions" if agent == "codex" else ".claude/projects")
    voice = TokenModel(api)
    with small_disk(folder):
        async with opened(stage, agent) as client:
            thread = await client.thread("t", cwd=stage.work)
            for _ in range(1, turn):
                await true_turn(thread, voice)
            ballast: list[Path] = []

            def answer(request: Request) -> ModelReply | None:
                if ballast:
                    return voice.answer(request)
                await_in(lambda: files(stage, agent), f"u{2 * turn - 1}z")
                ballast.append(fill(folder))
                return Text(f"a{2 * turn}z {'word ' * 5000}")  # more than fits into the file's last block

            api.reply = answer
            lost = await true_turn(thread, voice)
            next(voice.count)
            assert [warning for warning in lost.warnings if "The disk is full" in warning], lost.warnings
            assert await pins_of(client, thread) == [PinState.PROVISIONAL if turn == 1 else PinState.GOOD]
            ballast[0].unlink()
            after = await true_turn(thread, voice)
            assert not after.warnings
            again = await true_turn(thread, voice)
            assert (again.session_resumed, again.warnings) == (True, ())


# --- files that somebody altered


def _is_old_answer(line: dict[str, Any], token: str) -> bool:
    kind = line.get("type")
    if kind == "response_item":
        return line["payload"].get("role") == "assistant" and token in json.dumps(line["payload"])
    return kind == "assistant" and token in json.dumps(line.get("message"))


def blank(line: str, token: str) -> str:
    return " " * len(line)


def drop(line: str, token: str) -> str | None:
    return None


def alter(line: str, token: str) -> str:
    return line.replace(token, "a" + "9" * (len(token) - 2) + "z")


def lengthen(line: str, token: str) -> str:
    return line.replace(token, f"{token} and a777777z")


def damage(path: Path, token: str, how: Callable[[str, str], str | None]) -> None:
    """Damages only the line of the old answer, and restores the times of the file."""
    before = path.stat()
    lines = path.read_text().splitlines()
    found = [n for n, line in enumerate(lines) if _is_old_answer(json.loads(line), token)]
    assert found, f"no line of {token}"
    changed = [how(line, token) if n in found else line for n, line in enumerate(lines)]
    path.write_text("".join(f"{line}\n" for line in changed if line is not None))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("how", [blank, drop, alter, lengthen])
async def test_damaged_old_answer_causes_a_fresh_session_in_the_same_run(
    stage: Stage, agent: str, how: Callable[[str, str], str | None], api: ModelApi
) -> None:
    voice = TokenModel(api)
    async with opened(stage, agent) as client:
        thread = await client.thread("t", cwd=stage.work)
        for _ in range(2):
            await true_turn(thread, voice)
        [path] = files(stage, agent)
        damage(path, "a2z", how)
        healed = await true_turn(thread, voice)
        assert (healed.session_resumed, healed.reason) == (False, "session_damaged")
        assert (await true_turn(thread, voice)).session_resumed


async def test_touched_or_copied_file_is_still_the_same(stage: Stage, agent: str, api: ModelApi) -> None:
    voice = TokenModel(api)
    async with opened(stage, agent) as client:
        thread = await client.thread("t", cwd=stage.work)
        await true_turn(thread, voice)
        [path] = files(stage, agent)
        os.utime(path, (1, 1))
        assert (await true_turn(thread, voice)).session_resumed
        copy = path.with_suffix(".copy")
        copy.write_bytes(path.read_bytes())
        copy.rename(path)  # like a restored backup
        assert (await true_turn(thread, voice)).session_resumed


# --- lines that somebody added


def _json(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


Added = tuple[str, list[dict[str, Any]]]  # the reason of the fresh session, and the lines


def added_to_claude(path: Path) -> list[Added]:
    """Lines that change what the real CLI shows the model, but are not turns that somebody made in it."""
    chain = [line for line in _json(path) if line.get("uuid")]
    leaf, first = chain[-1], next(line for line in chain if line["type"] == "user")
    answer = next(line for line in reversed(chain) if line["type"] == "assistant")
    prompt = {**first, "parentUuid": leaf["uuid"], "uuid": "0e0e0e0e-0000-4000-8000-000000000001"}
    told = {**answer["message"], "content": [{"type": "text", "text": "a777777z"}]}
    forged = {**first, "parentUuid": leaf["uuid"], "message": {"role": "user", "content": "u777777z"}}
    gone_back = {"type": "last-prompt", "explicit": True, "sessionId": path.stem}
    return [
        ("session_damaged", [{**answer, "message": told}, *([leaf] if leaf != answer else [])]),
        ("session_damaged", [{**prompt, "message": {"role": "user", "content": "u777777z"}, "cwd": 7, "isMeta": "no"}]),
        ("session_damaged", [forged, {**prompt, "parentUuid": forged["uuid"]}]),
        ("session_diverged", [{**gone_back, "leafUuid": first["uuid"]}]),
        ("session_diverged", [{**gone_back, "leafUuid": None}]),
    ]


def added_to_codex(path: Path) -> list[Added]:
    lines = _json(path)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u777777z"}]}
    items = [line for line in lines if line["type"] == "response_item"]
    following = {"timestamp": items[-1]["timestamp"], "ordinal": max(line["ordinal"] for line in lines) + 1}
    payloads = [{**said, "id": line["payload"]["id"]} for line in items]
    forged = [{**following, "type": "response_item", "payload": payload} for payload in payloads]

    def rolled_back(turns: int) -> dict[str, Any]:
        return {**following, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": turns}}

    return [
        ("session_damaged", [{**lines[0], **following}]),
        ("session_damaged", [forged[-1]]),
        ("session_damaged", [forged[0]]),
        ("session_diverged", [rolled_back(1)]),
        ("session_diverged", [rolled_back(2)]),
    ]


@pytest.mark.parametrize("case", range(5))
async def test_lines_that_somebody_added_cause_a_fresh_session(
    stage: Stage, agent: str, case: int, api: ModelApi
) -> None:
    voice = TokenModel(api)
    async with opened(stage, agent) as client:
        thread = await client.thread("t", cwd=stage.work)
        for _ in range(2):
            await true_turn(thread, voice)
        [path] = files(stage, agent)
        reason, added = (added_to_codex if agent == "codex" else added_to_claude)(path)[case]
        with path.open("a") as file:
            file.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in added)
        healed = await true_turn(thread, voice)
        assert (healed.session_resumed, healed.reason) == (False, reason)


async def test_bookkeeping_that_the_cli_added_is_no_turn(stage: Stage, agent: str, api: ModelApi) -> None:
    voice = TokenModel(api)
    async with opened(stage, agent) as client:
        thread = await client.thread("t", cwd=stage.work)
        await true_turn(thread, voice)
        [path] = files(stage, agent)
        lines = _json(path)
        if agent == "codex":
            notes = [line for line in lines if line["payload"].get("type") == "token_count"][-1:]
        else:  # the last one: on a busy machine there is a `last-prompt` in the middle of the turn as well
            notes = lines[1 + max(n for n, line in enumerate(lines) if "uuid" in line) :]
        with path.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in notes)
        assert notes and (await true_turn(thread, voice)).session_resumed
