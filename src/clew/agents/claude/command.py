"""The Claude CLI's command line and its input lines.

One launch profile per thread, the same on every turn and from every surface: any difference here invalidates the
agent's cached prefix. stdin is a stream of JSON lines. It is closed only after the result was read, so that no last
line is lost and the agent can ask questions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clew.agents.adapter import Binary, ImageFile, LaunchProfile
from clew.core.decision import Abilities
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError

# By default the CLI shows the model the branch, commit subjects and changed files: untrusted text, without a fence.
NO_GIT = {"includeGitInstructions": False}
# Shows the model the rules in folders that `--add-dir` names, and in those that the user's own settings add.
SHOW_RULES = {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}
READ_ONLY_TOOLS = "Read,Glob,Grep,AskUserQuestion"

# Set by a Claude session for the processes that it starts. If our agent inherited them, it would take itself for a part
# of that session.
INHERITED_VARIABLES = (
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


def command(binary: Binary, abilities: Abilities, launch: LaunchProfile) -> list[str]:
    argv = [binary.path, "-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    if "--include-partial-messages" in abilities.flags:
        argv.append("--include-partial-messages")
    argv += ["--permission-prompt-tool", "stdio"]
    if launch.model:
        argv += ["--model", launch.model]
    argv += _permissions(launch.permissions)
    if launch.rules_dir:
        argv += ["--add-dir", launch.rules_dir]  # takes every word up to the next option
    argv += _settings(launch, abilities)
    argv += _trust(launch.trust, abilities)
    if launch.resume:
        argv.append(f"--resume={launch.fork_of or launch.session_id}")  # with =, an id is never taken for an option
        if launch.fork_of:
            argv += ["--fork-session", "--session-id", launch.session_id]
        if launch.rewind_to:
            argv.append(f"--resume-session-at={launch.rewind_to}")
    elif abilities.choose_id:
        argv += ["--session-id", launch.session_id]  # a UUID that we made
    return argv


def terminal_command(binary: Binary, session_id: str, model: str | None, *, new: bool) -> list[str]:
    """With the user's own settings, and those of the repository as the CLI itself trusts it."""
    session = ["--session-id", session_id] if new else [f"--resume={session_id}"]
    return [binary.path, *session, *(["--model", model] if model else [])]


def _permissions(permissions: Permissions) -> list[str]:
    """`ask` and `all` have the same options: Clew answers the agent's requests, by asking a person or by the policy."""
    if permissions is Permissions.EDITS:
        return ["--permission-mode", "acceptEdits"]
    if permissions is Permissions.READ_ONLY:
        return ["--permission-mode", "default", "--tools", READ_ONLY_TOOLS, "--strict-mcp-config"]
    return ["--permission-mode", "default"]  # overrides the user's own defaultMode, so that `ask` asks


def _settings(launch: LaunchProfile, abilities: Abilities) -> list[str]:
    """Settings that override the user's own. They do not change the cached prefix (measured)."""
    settings: dict[str, object] = {}
    if launch.permissions is Permissions.READ_ONLY:
        settings |= NO_GIT
    denied = [rule for path in _hidden(launch) for rule in _denied(path)]
    if launch.rules_dir:
        settings["env"] = SHOW_RULES
        denied.append(f"Edit(/{_literal(launch.rules_dir)}/**)")  # a `Read` rule would hide them from the model too
    if denied:
        settings["permissions"] = {"deny": denied}
    if not settings or "--settings" not in abilities.flags:
        return []
    return ["--settings", json.dumps(settings, separators=(",", ":"))]


def _hidden(launch: LaunchProfile) -> Iterator[str]:
    """The paths to hide. If a hidden folder contains the work directory (a work tree that a hook made) or the rules,
    all other entries of that folder are hidden instead (reads the disk)."""
    for path in launch.hidden_paths:
        inside = [each for each in (launch.work_dir, launch.rules_dir) if each.startswith(f"{path}{os.sep}")]
        if not inside:
            yield path
            continue
        visible = {Path(each).relative_to(path).parts[0] for each in inside}
        yield from sorted(os.path.join(path, name) for name in os.listdir(path) if name not in visible)  # noqa: PTH118, PTH208


def _denied(path: str) -> tuple[str, str]:
    """Rules for Read, Grep and Glob: one for the path itself, one for everything below it. A path that begins with two
    slashes starts at the root."""
    literal = _literal(path)
    return f"Read(/{literal})", f"Read(/{literal}/**)"


def _literal(path: str) -> str:
    return re.sub(r"([\\*?\[\]{}!()])", r"\\\1", path)


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
    """The user's own environment, without what another Claude session set in it."""
    # `@path` anywhere in a message makes the CLI read that file and show it to the model, without asking and also
    # outside the work directory. A transcript, an answer or a pasted text must not be able to do that.
    return {**terminal_environment(environ), "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}


def terminal_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """In the terminal interface a person types, so `@path` keeps its meaning there."""
    return {key: value for key, value in environ.items() if key not in INHERITED_VARIABLES}


def prompt_line(text: str, uuid: str, images: Sequence[ImageFile] = ()) -> bytes:
    """The images come before the text, as the API's documentation recommends."""
    content: str | list[dict[str, object]] = sent_text(text)
    if images:
        content = [*map(_image_block, images), {"type": "text", "text": sent_text(text)}]
    return _line({"type": "user", "message": {"role": "user", "content": content}, "uuid": uuid})


def _image_block(image: ImageFile) -> dict[str, object]:
    import base64  # here, because few prompts have images

    data = base64.b64encode(Path(image.path).read_bytes()).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def compaction_line(focus: str, uuid: str) -> bytes:
    """The CLI's own command, without the blank that makes a prompt a text."""
    content = f"/compact {' '.join(focus.split())}".strip()
    return _line({"type": "user", "message": {"role": "user", "content": content}, "uuid": uuid})


def sent_text(text: str) -> str:
    """A text that begins with a slash gets a space: else the CLI executes it, and the model never sees it."""
    return f" {text}" if text.startswith("/") else text


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
