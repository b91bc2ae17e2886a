"""Which calls of tools need permission, and the question to the host."""

from __future__ import annotations

import os

from .host import Interrupted
from .lines import new_id

TYPE_CHECKING = False  # spares the import of typing; the checkers know the name
if TYPE_CHECKING:
    from .host import Host
    from .lines import Line
    from .options import Options

FILE_TOOLS = ("Edit", "Write")
# Commands that the CLI runs without asking, as long as they stand alone; the second set only under acceptEdits.
HARMLESS = {"cat", "date", "echo", "head", "ls", "pwd", "sleep", "tail", "true", "wc", "whoami"}
EDITING = {"cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"}


def must_ask(host: Host, options: Options, name: str, given: Line) -> bool:
    if name == "AskUserQuestion":
        return True
    if host.mode == "bypassPermissions" or name in options.words("--allowedTools"):
        return False
    if name == "Bash":
        allowed = HARMLESS | EDITING if host.mode == "acceptEdits" else HARMLESS
        parts = [part.split() for part in given.get("command", "").split(";")]
        risky = set(given.get("command", "")) & set("&|<>$`\n(){}")
        return bool(risky) or not all(words and words[0] in allowed for words in parts)
    inside = os.path.realpath(given.get("file_path", "")).startswith(host.cwd + "/")
    return not (inside and (name not in FILE_TOOLS or host.mode == "acceptEdits"))


def ask_permission(host: Host, options: Options, call: Line) -> tuple[Line, str | None]:
    """What the host says: the input to use, and why not if not."""
    name, given = call["name"], call["input"]
    if host.mode == "dontAsk" or options.one("--permission-prompt-tool") != "stdio":
        problem = f"{name} needs approval, and nobody is asked."
        host.say("system", subtype="permission_denied", tool_name=name, tool_use_id=call["id"], message=problem)
        return given, problem
    if not host.stdin_open:
        return given, "Tool permission request failed: AbortError: Stream closed"
    request: Line = {"subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": given}
    request["tool_use_id"] = call["id"]
    if name == "AskUserQuestion":
        request["requires_user_interaction"] = True
    else:
        request["description"] = given.get("command") or given.get("file_path", "")
        request["permission_suggestions"] = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    host.pending = new_id()
    host.emit({"type": "control_request", "request_id": host.pending, "request": request})
    try:
        while host.pending not in host.answers:
            if not host.stdin_open:
                return given, "Tool permission request failed: AbortError: Stream closed"
            host.wait()
        answer = host.answers.pop(host.pending)
    finally:
        host.pending = None
    if answer.get("subtype") != "success":
        return given, f"Tool permission request failed: {answer.get('error')}"
    response = answer["response"]
    if response.get("behavior") == "allow":
        return response.get("updatedInput") or given, None
    if response.get("interrupt"):
        raise Interrupted("tools")
    return given, str(response.get("message", "denied"))
