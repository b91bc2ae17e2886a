"""Reading a session's file: all of it, and what one more turn has added. Time, and peak memory of this process.

The session is generated in the format of Claude's own file: prompts, three parallel tool calls with their results, the
CLI's notes and its log of requests, and answers. "Decode" is the least that a reader without a first pass would do: it
decodes every line completely.
"""

from __future__ import annotations

import json
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, tell
from clew.agents.claude import Claude
from clew.core.session import SessionState, compare

SIZE_MB, QUICK_MB = 50.0, 4.0
CALLS = 3
PROMPT_CHARS, REPLY_CHARS, RESULT_CHARS, LOG_CHARS = 400, 1_500, 8_000, 4_000
MAX_MEMORY = 0.5  # peak memory of reading everything ÷ size of the file
MAX_SHARE = 0.05  # time of reading one more turn ÷ time of reading everything
MB = 1_000_000


def measure(quick: bool) -> Result:
    size_mb, rounds = (QUICK_MB, 3) if quick else (SIZE_MB, 9)
    tell(f"  a session of {size_mb:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{uuid.uuid4()}.jsonl"
        parent = _write(path, None, int(size_mb * MB))
        left = Claude().read_session(path)
        _write(path, parent, 1)
        added = Claude().read_session(path, left.size_bytes)
        assert compare(added, left.last_entry) is SessionState.GREW
        assert sum(len(entry.calls) for entry in added.entries) == CALLS
        size = path.stat().st_size
        works: dict[str, Callable[[], object]] = {
            "decode every line": lambda: _decode(path),
            "read everything": lambda: Claude().read_session(path),
            "read one more turn": lambda: Claude().read_session(path, left.size_bytes),
        }
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in counted("rounds", rounds):
            for name, work in works.items():
                times[name].append(_timed(work))
        peaks = {name: _peak_bytes(work) for name, work in works.items()}
    samples = {name: Sample.of(values) for name, values in times.items()}
    whole, once = samples["read everything"], samples["read one more turn"]
    rows = [
        (name, sample.n, sample.median * 1000, sample.spread(1000), sample.median / whole.median, peaks[name] / MB,
         peaks[name] / size)
        for name, sample in samples.items()
    ]  # fmt: skip
    columns = [
        Column(f"of {size / MB:.0f} MB"),
        Column("n", "d"),
        Column("median ms", ".1f"),
        Column("middle half, ms"),
        Column("× everything", ".3f"),
        Column("peak memory, MB", ".1f"),
        Column("memory ÷ file", ".3f"),
    ]
    checks = [
        Check("peak memory of reading everything ÷ the file", peaks["read everything"] / size, MAX_MEMORY, timed=False),
        Check("reading one more turn ÷ reading everything", once.median / whole.median, MAX_SHARE, timed=True),
    ]
    return Result("session_read", [Table("A session's file, interleaved runs", columns, rows)], checks)


def _decode(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if msgspec.json.decode(line))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _write(path: Path, parent: str | None, size: int) -> str | None:
    """Appends turns of at least this size. Returns the last line's id."""
    written = 0
    with path.open("ab") as file:
        while written < size:
            for line in _turn(parent):
                written += file.write(json.dumps(line).encode() + b"\n")
                parent = line.get("uuid", parent)
        file.write(json.dumps({"type": "last-prompt", "lastPrompt": "x", "leafUuid": parent}).encode() + b"\n")
        file.write(json.dumps({"type": "cost-state", "totalCostUSD": 1.5}).encode() + b"\n")
    return parent


def _turn(parent: str | None) -> Iterator[dict[str, Any]]:
    prompt = _row("user", parent, {"role": "user", "content": "p" * PROMPT_CHARS})
    yield prompt
    yield {"type": "api-request-blob", "hash": "0" * 64, "message": {"role": "user", "content": "l" * LOG_CHARS}}
    above, calls, message = prompt["uuid"], [], f"msg_{uuid.uuid4().hex}"
    for _ in range(CALLS):
        block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": "Read", "input": {"file_path": "/x"}}
        calls.append(_row("assistant", above, _answer(message, block, "tool_use")))
        above = calls[-1]["uuid"]
        yield calls[-1]
    result: dict[str, Any] = {}
    for call in calls:
        text = "r" * RESULT_CHARS
        block = {"type": "tool_result", "tool_use_id": call["message"]["content"][0]["id"], "content": text}
        result = _row("user", call["uuid"], {"role": "user", "content": [block]})
        yield {**result, "toolUseResult": {"type": "text", "file": {"filePath": "/x", "content": text}}}
    note = _row("attachment", result["uuid"], None)
    yield {**note, "attachment": {"type": "total_tokens_reminder"}}
    said = {"type": "text", "text": "a" * REPLY_CHARS}
    yield _row("assistant", note["uuid"], _answer(f"msg_{uuid.uuid4().hex}", said, "end_turn"))


def _answer(message_id: str, block: dict[str, Any], stop_reason: str) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 100, "cache_read_input_tokens": 20_000}
    head = {"id": message_id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": [block], "stop_reason": stop_reason, "usage": usage}


def _row(kind: str, parent: str | None, message: dict[str, Any] | None) -> dict[str, Any]:
    row = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": str(uuid.uuid4())}
    more = {"timestamp": "2026-11-15T08:56:17.342Z", "cwd": "/project", "version": "2.1.325"}
    return {**row, **({"message": message} if message is not None else {}), **more}
