"""What was typed at the prompts of a project: one file for each project, which only the user can read.

Each line is a JSON string, so a prompt may have several lines and any character. Two chats may write at the same time:
each prompt is one append. A file that cannot be read or written costs the history, and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.history import History

from clew.api.files import make_private, project_of, read_plain, write_whole

FOLDER = "chat-history"
KEPT = 1_000  # prompts
PROMPT_CHARS = 50_000  # a longer prompt is not kept
FILE_BYTES = 5_000_000  # a larger file is shortened to what is kept
READ_BYTES = 50_000_000


class PromptHistory(History):
    def __init__(self, home: Path, work_dir: str) -> None:
        super().__init__()
        project = os.fsencode(project_of(Path(work_dir)))
        self._path = home / FOLDER / f"{hashlib.sha256(project).hexdigest()[:32]}.jsonl"

    def load_history_strings(self) -> Iterable[str]:
        """The newest first, as prompt_toolkit wants them."""
        with contextlib.suppress(OSError):
            content = read_plain(self._path, READ_BYTES)
            kept = list(_prompts(content))[-KEPT:]
            if len(content) > FILE_BYTES:
                write_whole(self._path, b"".join(map(_line, kept)))
            return reversed(kept)
        return ()

    def store_string(self, string: str) -> None:
        if len(string) > PROMPT_CHARS:
            return
        with contextlib.suppress(OSError):
            make_private(self._path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "ab", buffering=0) as file:
                file.write(_line(string))


def _line(prompt: str) -> bytes:
    return json.dumps(prompt).encode("ascii") + b"\n"


def _prompts(content: bytes) -> Iterator[str]:
    """The prompts in a file, the oldest first. What is no JSON string is left out, such as half a line of a crash."""
    for line in content.splitlines():
        with contextlib.suppress(ValueError):
            prompt = json.loads(line)
            if isinstance(prompt, str):
                yield prompt
