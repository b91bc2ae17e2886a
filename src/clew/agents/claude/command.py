"""The Claude CLI's command line and its input lines.

One launch profile per thread, the same on every turn and from every surface: anything that varies here costs the
agent's whole cached prefix. stdin is a stream of JSON lines, closed only after the result has been read: that loses no
last line and lets the agent ask.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import Binary, Launch
from clew.core.decision import Abilities
from clew.core.events import QuestionAsked
from clew.core.permissions import Answer
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError

# By itself the CLI tells the model branch, commit subjects and changed files: a stranger's words, outside any fence.
NO_GIT = {"includeGitInstructions": False}
READ_ONLY_TOOLS = "Read,Glob,Grep,AskUserQuestion"

# Set by a Claude session for the processes it starts. Handed on, our agent would think that it is a part of that one.
FOREIGN = (
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_PID",
)


def command(binary: Binary, abilities: Abilities, launch: Launch) -> list[str]:
    argv = [binary.path, "-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    if "--include-partial-messages" in abilities.flags:
        argv.append("--include-partial-messages")
    argv += ["--permission-prompt-tool", "stdio"]
    if launch.model:
        argv += ["--model", launch.model]
    argv += _permissions(launch.permissions)
    argv += _settings(launch, abilities)
    argv += _trust(launch.trust, abilities)
    if launch.resume:
        argv.append(f"--resume={launch.fork_of or launch.session_id}")  # the = form: an id is never taken for a flag
        if launch.fork_of:
            argv += ["--fork-session", "--session-id", launch.session_id]
        if launch.rewind_to:
            argv.append(f"--resume-session-at={launch.rewind_to}")
    elif abilities.choose_id:
        argv += ["--session-id", launch.session_id]  # a UUID of our own making
    return argv


def _permissions(permissions: Permissions) -> list[str]:
    """`ask` and `all` look alike to the agent: Clew answers the requests, a person or the policy."""
    if permissions is Permissions.EDITS:
        return ["--permission-mode", "acceptEdits"]
    if permissions is Permissions.READ_ONLY:
        return ["--permission-mode", "default", "--tools", READ_ONLY_TOOLS, "--strict-mcp-config"]
    return ["--permission-mode", "default"]  # over the user's own defaultMode: `ask` asks


def _settings(launch: Launch, abilities: Abilities) -> list[str]:
    """Over the user's own. They leave the cached prefix as it is (measured)."""
    settings: dict[str, object] = {}
    if launch.permissions is Permissions.READ_ONLY:
        settings |= NO_GIT
    if launch.hidden:
        settings["permissions"] = {"deny": [rule for path in _hidden(launch) for rule in _denied(path)]}
    if not settings or "--settings" not in abilities.flags:
        return []
    return ["--settings", json.dumps(settings, separators=(",", ":"))]


def _hidden(launch: Launch) -> Iterator[str]:
    """Of a folder that holds the work directory (a work tree that a hook made), all else in it (reads the disk)."""
    for path in launch.hidden:
        if not launch.work_dir.startswith(f"{path}{os.sep}"):
            yield path
            continue
        kept = Path(launch.work_dir).relative_to(path).parts[0]
        yield from sorted(os.path.join(path, name) for name in os.listdir(path) if name != kept)  # noqa: PTH118, PTH208


def _denied(path: str) -> tuple[str, str]:
    """Holds for Read, Grep and Glob: a file itself, or all that is in a folder. Two slashes: from the root."""
    literal = re.sub(r"([\\*?\[\]{}!()])", r"\\\1", path)
    return f"Read(/{literal})", f"Read(/{literal}/**)"


def _trust(trust: Trust, abilities: Abilities) -> list[str]:
    """A repository's own settings run code (hooks, MCP servers), so they load only where the user trusts them."""
    if "--setting-sources" not in abilities.flags:
        if trust is Trust.PROJECT:
            return []
        raise UsageError(
            "This Claude CLI cannot keep the work directory's own settings and hooks from running.",
            hint="Update it, or accept them with --trust project.",
        )
    if trust is Trust.PROJECT:
        return ["--setting-sources", "user,project,local"]
    return ["--setting-sources", "user"]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own environment, less what another Claude session left in it."""
    kept = {key: value for key, value in environ.items() if key not in FOREIGN}
    # `@path` anywhere in a message makes the CLI read that file and show it to the model, in or out of the work
    # directory and without asking: a transcript, an answer or a pasted text must not be able to do that.
    return {**kept, "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}


def prompt_line(text: str, uuid: str) -> bytes:
    if text.startswith("/"):
        text = f" {text}"  # or it is a command of the CLI's own, which no model sees (/clear even leaves the session)
    return _line({"type": "user", "message": {"role": "user", "content": text}, "uuid": uuid})


def answer_line(question: QuestionAsked, answer: Answer) -> bytes:
    response: dict[str, object]
    if answer.allow:
        updated = dict(question.input)
        if answer.answers is not None:
            updated["answers"] = dict(answer.answers)
        response = {"behavior": "allow", "updatedInput": updated}
    else:
        response = {"behavior": "deny", "message": answer.message or "The user declined."}
    return _line(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": question.question_id, "response": response},
        }
    )


def interrupt_line() -> bytes:
    return _line({"type": "control_request", "request_id": "clew-interrupt", "request": {"subtype": "interrupt"}})


def _line(value: object) -> bytes:
    """ASCII, so that lone surrogates and line separators in a prompt cannot break the framing."""
    return json.dumps(value).encode("ascii") + b"\n"
