"""A stand-in for the Claude Code CLI that starts quickly and fails on demand.

`install(folder)` writes an executable `claude` that a host spawns like the real one: it has the same flags, the same
lines on the stream, the same session files and the same refusals (of CLI 2.1.325; a test compares the two side by
side). It really calls the Messages API at `ANTHROPIC_BASE_URL`, and really runs the tools Bash, Write and Read after
the same permission question. AskUserQuestion returns the host's answers. Every other tool gives an error result.
`/compact` summarises the conversation, as in the real CLI: the boundary, the summary and the kept messages in the file,
and what the model is shown from then on. Every other command is text.

A session can be rewound (`--resume-session-at`), in a copy or in place. In place the file only grows: the next prompt
hangs on the named message, and what came after that message is no longer on the active chain. Parallel calls are one
entry for each call, each on the one before. A result hangs on its own call, so that a walk by `parentUuid` finds only
the last result.

It has no automatic compaction, subagents, hooks or MCP, and no output formats other than stream-json. It does not merge
a new prompt into a running turn: the prompt waits for a turn of its own. Where the real CLI would retry a request ten
times over three minutes, this one says `api_retry`, waits a moment and retries once, or `CLAUDE_CODE_MAX_RETRIES`
times.

Faults are data. `CLEW_SCRIPT` names a JSON file, `{"faults": [{"do": …}, …]}`. The fields of a fault:

| field    | meaning                                                                                            |
| -------- | -------------------------------------------------------------------------------------------------- |
| `do`     | what happens, see below                                                                            |
| `on`     | `resume`, `fresh` or `any` (default)                                                               |
| `turn`   | only at this prompt of the conversation, counted from 1 through all its processes                  |
| `once`   | a path: the fault happens only while there is no such file, and creates it                         |

| `do`                | further fields (default)                | what happens                                       |
| ------------------- | --------------------------------------- | -------------------------------------------------- |
| `reject`            |                                         | as if the session were unknown                     |
| `slow_start`        | `delay_s` (1)                           | waits before it does anything                      |
| `lie_success_empty` |                                         | exits 0 without any output                         |
| `hang_before_init`, `hang_after_init`, `hang_after_result` | `ignore_term` (false) | sends nothing, does not end   |
| `crash_before_init` | `rc` (1) or `signal`, `stderr` ("")     | dies; the prompt is not saved                      |
| `crash_after_init`  | as above, `saved` (true)                | dies; with `saved` false, before the prompt is saved |
| `crash_mid_text`    | as above                                | dies after the first piece of text                 |
| `flood`             | `n_bytes` (0), `stderr_lines` (0)       | one huge line on stdout, many on stderr            |
| `flood_result`      | `n_bytes`                               | the result is one huge line                        |
| `garbage_line`      |                                         | lines that are not JSON, or barely                 |
| `lie_session_id`    |                                         | `init` has another id                              |
| `error_result`      | `text`, `status`, `error_type`, `terminal_reason` | fails as if the API had returned it      |
| `no_result`         |                                         | exits 0 in place of the result                     |
| `unsaved`           |                                         | reports success, and writes nothing to the file    |

`CLEW_SCRIPT_LOG` names a log file: each invocation appends a line `{"argv", "cwd", "pid", "prompts"}` as soon as the
prompt is read. Every further prompt to the same process is a further line with the same `pid`.

| module         | what it is                                                                                  |
| -------------- | ------------------------------------------------------------------------------------------- |
| `agent`        | the process: it opens its session and works on one prompt after the other                   |
| `options`      | the command line                                                                            |
| `host`         | the program that started the process: prompts, answers and interrupts on stdin, lines out   |
| `turn`         | one prompt, from its arrival to its result                                                  |
| `conversation` | the requests to the model within a turn, and the tool calls between them                    |
| `compaction`   | the command `/compact`                                                                      |
| `request`      | what the model is shown                                                                     |
| `answer`       | what it answers: bytes, events, blocks, refusals                                            |
| `tools`        | Bash, Write and Read                                                                        |
| `permission`   | which tool calls need permission, and the question to the host                              |
| `session`      | the session: entries, the active chain, the file                                            |
| `session_file` | where sessions are kept, and which one the options select                                   |
| `account`      | what a session has cost                                                                     |
| `lines`        | the parts of every line on the stream or in the file                                        |
| `faults`       | the faults of the script                                                                    |

The executable loads these modules as a package of their own, compiled into one file beside it, without this file and
without the rest of Clew. They import only each other and a few modules of the standard library, those in C where
possible: json, signal, socket or pathlib would double the start-up time of a program that tests spawn all the time.
"""

from __future__ import annotations

import marshal
import os
import sys
from functools import cache
from pathlib import Path

from clew.testing.scripted_agent.options import PRODUCT, VERSION

__all__ = ["PRODUCT", "VERSION", "install"]


# In import order: each comes after the modules that it imports.
MODULES = (
    *("lines", "options", "account", "faults", "host", "session", "session_file", "answer", "tools", "permission"),
    *("request", "conversation", "compaction", "turn", "agent"),
)


@cache
def _compiled() -> bytes:
    """All modules in one file, so that a start opens and reads one file instead of fifteen."""
    here = Path(__file__).parent
    names = [(name, here / f"{name}.py") for name in MODULES]
    return marshal.dumps({name: compile(path.read_bytes(), path, "exec", dont_inherit=True) for name, path in names})


def install(
    folder: Path, name: str = "claude", product: str = PRODUCT, version: str = VERSION, resume: bool = True
) -> Path:
    """Writes an executable that behaves like the CLI, and returns its path. `resume=False`: it cannot resume."""
    folder.mkdir(parents=True, exist_ok=True)
    path, compiled = folder / name, folder / ".scripted-agent"
    made = folder / f".scripted-agent-{os.getpid()}"
    made.write_bytes(_compiled())
    made.replace(compiled)  # atomic: the agent of this folder may be started at the same time
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
    else:  # the kernel cannot use such a #! line: a shell starts Python, for which the shell's lines are a string
        quoted = sys.executable.replace("'", "'\\''")
        head = f"#!/bin/sh\n''':'\nexec '{quoted}' -SEs \"$0\" \"$@\"\n'''\n"
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path
