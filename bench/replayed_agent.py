"""An agent that costs next to nothing: a shell script that replays one recorded turn of the scripted agent.

The scripted agent is a Python program; its start is half of a short job's cost, and what is to be measured of the queue
would drown in it. The script reads its prompt, prints the recorded lines and writes the recorded session file, with the
ids of this turn in place of the recorded ones; for anything but a first turn it becomes the scripted agent.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from pathlib import Path

from clew.testing import scripted_agent
from clew.testing.model_api import ModelApi
from clew.testing.stage import MODEL, scrubbed_environ

SESSION = "0f0f0f0f-0000-4000-8000-00000000aaaa"
PROMPT = "0f0f0f0f-0000-4000-8000-00000000bbbb"

FLAGS = ["-p", "--output-format=stream-json", "--verbose", "--input-format=stream-json", "--include-partial-messages"]

SCRIPT = """\
#!/bin/sh
session=
for word in "$@"; do
  [ "$last" = --session-id ] && session=$word
  last=$word
done
[ -n "$session" ] || exec {agent} "$@"
read -r line
prompt=${{line##*\\"uuid\\": \\"}}
prompt=${{prompt%%\\"*}}
folder=$HOME/.claude/projects/{folder}
[ -d "$folder" ] || mkdir -p "$folder"
sed "s/{session}/$session/g; s/{prompt}/$prompt/g" {file} > "$folder/$session.jsonl"
sed "s/{session}/$session/g; s/{prompt}/$prompt/g" {out}
read -r line
"""


def install(folder: Path, work: Path, text: str) -> Path:
    """Writes the executable `claude`, for turns in `work` whose prompt is `text`."""
    agent = scripted_agent.install(folder / "scripted")
    out, file = folder / "recorded.out", folder / "recorded.jsonl"
    with tempfile.TemporaryDirectory() as home, ModelApi() as api:
        line = json.dumps({"type": "user", "message": {"role": "user", "content": text}, "uuid": PROMPT})
        said = subprocess.run(
            [agent, *FLAGS, "--model", MODEL, "--session-id", SESSION],
            input=f"{line}\n".encode(),
            env=scrubbed_environ(Path(home), api.url),
            cwd=work,
            capture_output=True,
            check=True,
        )
        out.write_bytes(said.stdout)
        [session] = Path(home).glob(".claude/projects/*/*.jsonl")
        file.write_bytes(session.read_bytes())
        where = session.parent.name
    path = folder / "claude"
    given = {"agent": agent, "folder": where, "file": file, "out": out}
    quoted = {name: shlex.quote(str(value)) for name, value in given.items()}
    path.write_text(SCRIPT.format(session=SESSION, prompt=PROMPT, **quoted))
    path.chmod(0o755)
    return path
