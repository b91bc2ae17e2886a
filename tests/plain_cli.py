"""A person who continues a session in the agent's own CLI, outside Clew."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from clew.testing.stage import MODEL

TIMEOUT_S = 60


def continue_outside(
    binary: Path | str, session_id: str, prompt: str, *flags: str, environ: Mapping[str, str], cwd: Path | str
) -> None:
    """Asks a prompt in the session with the plain CLI, in place. `flags` are further options of the CLI."""
    line = json.dumps({"type": "user", "message": {"role": "user", "content": prompt}, "uuid": str(uuid.uuid4())})
    argv = [str(binary), "-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    argv += ["--model", MODEL, f"--resume={session_id}", *flags]
    subprocess.run(
        argv, input=f"{line}\n", env=dict(environ), cwd=cwd, text=True, timeout=TIMEOUT_S, capture_output=True,
        check=True,
    )  # fmt: skip


def message_ids(session_file: Path) -> list[str]:
    """The agent's own ids of the answers in a session file, in order."""
    lines = [json.loads(line) for line in session_file.read_text(encoding="utf-8").splitlines()]
    return [line["uuid"] for line in lines if line.get("type") == "assistant"]
