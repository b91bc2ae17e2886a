"""A turn of the bare Claude CLI with the launch profile that Clew uses: `clew ask` is compared with it."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from clew.agents.claude.command import prompt_line
from clew.testing.stage import Stage


@dataclass(frozen=True, slots=True)
class BareTurn:
    """Wall-clock times of one process."""

    began: float
    first_line: float
    first_text: float
    result: float
    exited: float

    @property
    def took_s(self) -> float:
        return self.exited - self.began


class BareConversation:
    """A session in the stage's work directory. Each turn is a new process: `claude -p --resume=<id>`."""

    def __init__(self, stage: Stage, profile: Sequence[str]) -> None:
        """`profile`: the arguments of one of Clew's own launches, in which the session is replaced."""
        self._stage = stage
        self._session_id = str(uuid.uuid4())
        self._profile = _without_session(profile)
        self._turns = 0

    def turn(self, prompt: str) -> BareTurn:
        session = f"--resume={self._session_id}" if self._turns else f"--session-id={self._session_id}"
        self._turns += 1
        line = prompt_line(prompt, str(uuid.uuid4()))
        first_line = first_text = result = 0.0
        began = time.time()
        with subprocess.Popen(
            [str(self._stage.binary), *self._profile, session],
            cwd=self._stage.work,
            env=self._stage.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(line)
            process.stdin.flush()
            for out in process.stdout:
                first_line = first_line or time.time()
                if not first_text and b'"type":"text_delta"' in out:
                    first_text = time.time()
                if out.startswith(b'{"type":"result"') or b'"type":"result"' in out:
                    if b'"is_error":true' in out:
                        raise RuntimeError(f"the bare CLI failed: {out[:300]!r}")
                    result = time.time()
                    process.stdin.close()
        exited = time.time()
        if process.returncode or not result:
            raise RuntimeError(f"the bare CLI ended with {process.returncode} and without an answer")
        return BareTurn(began, first_line, first_text or result, result, exited)


def _without_session(profile: Sequence[str]) -> list[str]:
    words = [word for word in profile if not word.startswith(("--resume=", "--session-id="))]
    if "--session-id" in words:
        place = words.index("--session-id")
        del words[place : place + 2]
    return words
