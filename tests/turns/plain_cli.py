"""The plain CLI of an agent, as somebody uses it outside Clew, in a session that Clew knows."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

from clew.agents.claude import Claude
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import tokens

FLAGS = ("-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


class PlainCli:
    """The `claude` of a stage. Each call is one process."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def path(self, session: str) -> Path:
        found = Claude().session_file(str(self.stage.home / ".claude"), str(self.stage.work), session)
        return found if found is not None else self.stage.home / "no such session"

    def ask(self, session: str, *prompts: str, model: str = MODEL, flags: tuple[str, ...] = ()) -> list[str]:
        """The answers. Each prompt is sent after the answer to the last one."""
        lines = self._run(session, prompts, model, flags)
        answers = [str(line["result"]) for line in lines if line["type"] == "result" and not line["is_error"]]
        assert len(answers) == len(prompts), lines[-1]
        return answers

    def compact(self, session: str) -> bool:
        """Whether the agent replaced what the session holds by a summary: it refuses if that is too little."""
        lines = self._run(session, ("/compact",), MODEL, ())
        return any(line.get("subtype") == "compact_boundary" for line in lines)

    def ends(self, session: str) -> list[tuple[str, str]]:
        """The answers after the last compaction, each as its token and the agent's id of the message."""
        found: list[tuple[str, str]] = []
        for line in map(json.loads, self.path(session).read_bytes().splitlines()):
            if line.get("subtype") == "compact_boundary":
                found.clear()
            elif line["type"] == "assistant":
                texts = [block.get("text", "") for block in line["message"]["content"]]
                found += [(token, line["uuid"]) for text in texts for token in tokens(text)]
        return found

    def _run(self, session: str, prompts: tuple[str, ...], model: str, flags: tuple[str, ...]) -> list[dict[str, Any]]:
        argv = [str(self.stage.binary), *FLAGS, "--permission-mode", "acceptEdits", "--model", model]
        waiting, lines = list(prompts), []
        with subprocess.Popen(
            [*argv, f"--resume={session}", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=self.stage.environ, cwd=self.stage.work, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(_line(waiting.pop(0)))
            process.stdin.flush()
            for text in process.stdout:
                lines.append(json.loads(text))
                if lines[-1]["type"] != "result":
                    continue
                if waiting:
                    process.stdin.write(_line(waiting.pop(0)))
                    process.stdin.flush()
                else:
                    process.stdin.close()
        return lines


def _line(prompt: str) -> str:
    message = {"role": "user", "content": prompt}
    return json.dumps({"type": "user", "message": message, "uuid": str(uuid.uuid4())}) + "\n"
