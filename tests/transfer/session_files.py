"""Session files of the Claude CLI, planted where it keeps them."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from clew.testing.stage import MODEL, Stage


def session_lines(session_id: str, cwd: Path, prompt: str, **more: Any) -> bytes:
    user = {"uuid": "u1", "parentUuid": None, "type": "user", "sessionId": session_id, "cwd": str(cwd), **more}
    user["message"] = {"role": "user", "content": prompt}
    answer = {"uuid": "a1", "parentUuid": "u1", "type": "assistant", "sessionId": session_id, "cwd": str(cwd), **more}
    answer["message"] = {"role": "assistant", "model": MODEL, "content": [{"type": "text", "text": "an answer"}]}
    return b"".join(json.dumps(line).encode() + b"\n" for line in ({"type": "summary"}, user, answer))


def plant(stage: Stage, name: str, content: bytes, folder: str = "-some-project", age_s: float = 0.0) -> Path:
    path = stage.home / ".claude" / "projects" / folder / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


def planted(stage: Stage, *folders: Path) -> list[str]:
    """Sessions of these directories, the newest first."""
    ids = [str(uuid.UUID(int=number + 1)) for number in range(len(folders))]
    for number, (session_id, folder) in enumerate(zip(ids, folders, strict=True)):
        folder.mkdir(exist_ok=True)
        plant(stage, session_id, session_lines(session_id, folder, f"question {number}"), age_s=number)
    return ids
