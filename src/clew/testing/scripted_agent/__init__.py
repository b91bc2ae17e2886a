"""A stand-in for the Claude Code CLI that starts in a blink and fails on demand.

`install(folder)` writes an executable `claude` that a host spawns as it would the real one: same flags, same lines on
the stream, same session files, same refusals (CLI 2.1.325; a side-by-side test keeps the two together). It really
calls the Messages API at `ANTHROPIC_BASE_URL` and really runs the tools Bash, Write and Read, after the same question
for permission; every other tool gives an error result.

What it leaves out: compaction, subagents, hooks, MCP, output formats other than stream-json, and the folding of a
prompt into a running turn (here it waits for its own). Where the real one would retry a request ten times over three
minutes, this one says `api_retry`, waits a moment and retries once, or `CLAUDE_CODE_MAX_RETRIES` times.

Faults are data. `CLEW_SCRIPT` names a JSON file, `{"faults": [{"do": …}, …]}`; of a fault that matches,

| field    | meaning                                                                                            |
| -------- | -------------------------------------------------------------------------------------------------- |
| `do`     | what happens, see below                                                                            |
| `on`     | `resume`, `fresh` or `any` (default)                                                               |
| `turn`   | only at this prompt of the conversation, counted from 1 through all its processes                  |
| `once`   | a path: the fault fires only while there is no such file, and creates it                           |

| `do`                | further fields (default)                | what happens                                       |
| ------------------- | --------------------------------------- | -------------------------------------------------- |
| `reject`            |                                         | as if the session were unknown                     |
| `slow_start`        | `delay_s` (1)                           | waits before it does anything                      |
| `lie_success_empty` |                                         | exits 0 without a word                             |
| `hang_before_init`, `hang_after_init`, `hang_after_result` | `ignore_term` (false) | silence for ever              |
| `crash_before_init` | `rc` (1) or `signal`, `stderr` ("")     | dies; the prompt is not saved                      |
| `crash_after_init`  | as above, `saved` (true)                | dies; with `saved` false, before the prompt is kept |
| `crash_mid_text`    | as above                                | dies after the first piece of text                 |
| `flood`             | `n_bytes` (0), `stderr_lines` (0)       | one huge line on stdout, many on stderr            |
| `flood_result`      | `n_bytes`                               | the result is one huge line                        |
| `garbage_line`      |                                         | lines that are no JSON, or hardly                  |
| `lie_session_id`    |                                         | `init` carries another id                          |
| `error_result`      | `text`, `status`, `error_type`, `terminal_reason` | fails as if the API had said so          |
| `no_result`         |                                         | exits 0 where the result should come               |
| `unsaved`           |                                         | all is well, and nothing of it reaches the file    |

`CLEW_SCRIPT_LOG` names a file that gets a line for each invocation, `{"argv", "cwd", "pid", "prompts"}`, as soon as
the prompt is read. Every further prompt to the same process is a further line with the same `pid`.

| module         | what it is                                                                                  |
| -------------- | ------------------------------------------------------------------------------------------- |
| `agent`        | the process: it opens its session and works on one prompt after the other                   |
| `options`      | the command line                                                                            |
| `host`         | whoever started the process: prompts, questions and interrupts on stdin, lines on stdout    |
| `turn`         | one prompt, from its arrival to its result                                                  |
| `conversation` | the requests to the model within a turn, and the calls of tools between them                |
| `request`      | what the model is shown                                                                     |
| `answer`       | what it answers: bytes, events, blocks, refusals                                            |
| `tools`        | Bash, Write and Read                                                                        |
| `permission`   | which calls need it, and the question to the host                                           |
| `session`      | the memory: entries, the chain through them, the file                                       |
| `session_file` | where sessions are kept, and which one the options mean                                     |
| `account`      | what a session has cost                                                                     |
| `lines`        | what every line on the stream or in the file is made of                                     |
| `faults`       | the script of what goes wrong                                                               |

The executable sees these modules as a bare package, compiled into one file beside it, without this file and without the
rest of Clew. They import only each other and a few modules of the standard library, the parts in C where that can be:
json, signal, socket or pathlib would double the start-up time of a program that is spawned all day.
"""

from __future__ import annotations

import marshal
import os
import sys
from functools import cache
from pathlib import Path

from clew.testing.scripted_agent.options import PRODUCT, VERSION

__all__ = ["PRODUCT", "VERSION", "install"]


# Each after those that it imports.
MODULES = (
    *("lines", "options", "account", "faults", "host", "session", "session_file", "answer", "tools", "permission"),
    *("request", "conversation", "turn", "agent"),
)


@cache
def _compiled() -> bytes:
    """One file instead of fourteen to look for, open and read at each start."""
    here = Path(__file__).parent
    names = [(name, here / f"{name}.py") for name in MODULES]
    return marshal.dumps({name: compile(path.read_bytes(), path, "exec", dont_inherit=True) for name, path in names})


def install(
    folder: Path, name: str = "claude", product: str = PRODUCT, version: str = VERSION, resume: bool = True
) -> Path:
    """Write an executable that behaves as the CLI, and return its path. `resume=False`: one too old to resume."""
    folder.mkdir(parents=True, exist_ok=True)
    path, compiled = folder / name, folder / ".scripted-agent"
    made = folder / f".scripted-agent-{os.getpid()}"
    made.write_bytes(_compiled())
    made.replace(compiled)  # whole, for whoever starts the agent of this folder now
    body = (
        "import sys\n"
        "from marshal import loads\n"
        "sys.modules['scripted'] = type(sys)('scripted')\n"
        f"with open({str(compiled.absolute())!r}, 'rb') as file:\n"
        "    modules = loads(file.read())\n"
        "for name, code in modules.items():\n"
        "    module = sys.modules['scripted.' + name] = type(sys)('scripted.' + name)\n"
        "    module.__package__ = 'scripted'\n"
        "    exec(code, module.__dict__)\n"
        f"module.main(sys.argv, {product!r}, {version!r}, {resume!r})\n"
    )
    if len(sys.executable) < 120 and " " not in sys.executable:
        head = f"#!{sys.executable} -SEs\n"
    else:  # the kernel would cut such a line: the shell reads the next line, Python takes it for a text
        quoted = sys.executable.replace("'", "'\\''")
        head = f"#!/bin/sh\n''':'\nexec '{quoted}' -SEs \"$0\" \"$@\"\n'''\n"
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path
