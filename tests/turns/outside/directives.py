"""Prompts that make the scripted model call tools: what is added to a prompt, one line a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from clew.testing.stage import Stage

PATCHED: Final = "made.txt"


def reads(stage: Stage, *names: str) -> str:
    """Claude reads these files of the work directory, all in one answer. They are created."""
    for name in names:
        (stage.work / name).write_text(f"words of {name}")
    return _calls(*(("Read", {"file_path": str(stage.work / name)}) for name in names))


def writes(path: Path, content: str) -> str:
    return _calls(("Write", {"file_path": str(path), "content": content}))


def commands(*given: str) -> str:
    """Codex runs these commands, all in one answer."""
    return _calls(*(("exec_command", {"cmd": each}) for each in given))


def patch(line: str) -> str:
    """Codex creates the file `PATCHED` with this line."""
    text = f"*** Begin Patch\n*** Add File: {PATCHED}\n+{line}\n*** End Patch\n"
    return _calls(("apply_patch", {"input": text}))


def helper(task: str) -> str:
    """Codex starts a subagent, whose task is one of the above."""
    return _calls(("multi_agent_v1.spawn_agent", {"message": task.strip()}))


def _calls(*calls: tuple[str, dict[str, str]]) -> str:
    return "\n" + "\n".join(f"!tool {name} {json.dumps(given)}" for name, given in calls)
