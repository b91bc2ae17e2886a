"""Which tool calls need permission, and the question to the host."""

from __future__ import annotations

import os

from .host import Interrupted
from .lines import new_id

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from .host import Host
    from .lines import Line
    from .options import Options

FILE_TOOLS = ("Edit", "Write")
# Commands that the CLI runs without asking, if they are not combined with others; EDITING only under acceptEdits.
HARMLESS = {"cat", "date", "echo", "head", "ls", "pwd", "sleep", "tail", "true", "wc", "whoami"}
EDITING = {"cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"}


def must_ask(host: Host, options: Options, name: str, tool_input: Line) -> bool:
    if name == "AskUserQuestion":
        return True
    if host.mode == "bypassPermissions" or name in options.words("--allowedTools"):
        return False
    if name == "Bash":
        allowed = HARMLESS | EDITING if host.mode == "acceptEdits" else HARMLESS
        parts = [part.split() for part in tool_input.get("command", "").split(";")]
        risky = set(tool_input.get("command", "")) & set("&|<>$`\n(){}")
        return bool(risky) or not all(words and words[0] in allowed for words in parts)
    inside = os.path.realpath(tool_input.get("file_path", "")).startswith(host.cwd + "/")
    return not (inside and (name not in FILE_TOOLS or host.mode == "acceptEdits"))


def ask_permission(host: Host, options: Options, call: Line) -> tuple[Line, str | None]:
    """The host's answer: the input to use, and the reason if the call is refused."""
    name, tool_input = call["name"], call["input"]
    if host.mode == "dontAsk" or options.one("--permission-prompt-tool") != "stdio":
        problem = f"{name} needs approval, and nobody is asked."
        host.say("system", subtype="permission_denied", tool_name=name, tool_use_id=call["id"], message=problem)
        return tool_input, problem
    if not host.stdin_open:
        return tool_input, "Tool permission request failed: AbortError: Stream closed"
    request: Line = {"subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": tool_input}
    request["tool_use_id"] = call["id"]
    if name == "AskUserQuestion":
        request["requires_user_interaction"] = True
    else:
        request["description"] = tool_input.get("command") or tool_input.get("file_path", "")
        request["permission_suggestions"] = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    host.pending = new_id()
    host.emit({"type": "control_request", "request_id": host.pending, "request": request})
    try:
        while host.pending not in host.answers:
            if not host.stdin_open:
                return tool_input, "Tool permission request failed: AbortError: Stream closed"
            host.wait()
        answer = host.answers.pop(host.pending)
    finally:
        host.pending = None
    if answer.get("subtype") != "success":
        return tool_input, f"Tool permission request failed: {answer.get('error')}"
    response = answer["response"]
    if response.get("behavior") == "allow":
        return response.get("updatedInput") or tool_input, None
    if response.get("interrupt"):
        raise Interrupted("tools")
    return tool_input, str(response.get("message", "denied"))
