"""What the model is shown: the session's active chain in the form of the Messages API, and the request that sends it.

An answer that was an API error stays in the chain but is never sent; the prompt that it answered is sent (CLI 2.1.325).
"""

from __future__ import annotations

import os
from _socket import AF_INET, SOCK_STREAM, socket  # `socket` builds enumerations, which takes longer than a turn

from .answer import ApiError
from .lines import blocks, dumps

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lines import Line
    from .session import ScriptedSession

CACHED = {"type": "ephemeral"}
# Long enough to be cached, like the real CLI's system prompt.
SYSTEM_PROMPT = "You are an agent working with the user toward their goals.\n" + (
    "Use the instructions below and the tools available to you to assist the user. " * 240
)


def connect(session: ScriptedSession, model: str, tools: list[str], shown: list[Line]) -> tuple[socket, str]:
    """Sends the request; returns the connection for its answer, and the address."""
    environ = os.environ
    key = (
        environ.get("ANTHROPIC_API_KEY")
        or environ.get("ANTHROPIC_AUTH_TOKEN")
        or environ.get("CLAUDE_CODE_OAUTH_TOKEN")
    )
    if not key:
        raise ApiError("Not logged in · Please run /login", "authentication_failed")
    gateway = environ.get("ANTHROPIC_BASE_URL", "http://127.0.0.1:1").partition("://")[2].rstrip("/")
    host, _, port = gateway.partition(":")
    body = dumps(request_body(session, model, tools, shown))
    head = (
        f"POST /v1/messages?beta=true HTTP/1.1\r\nHost: {gateway}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json\r\nUser-Agent: claude-cli/{session.version} (external, sdk-cli)\r\n"
        f"X-Claude-Code-Session-Id: {session.id}\r\nanthropic-version: 2023-06-01\r\nx-app: cli\r\n"
        f"x-api-key: {key}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        connection = socket(AF_INET, SOCK_STREAM)
        connection.settimeout(10)
        connection.connect((host, int(port or 80)))
        connection.settimeout(None)
        connection.sendall(head.encode() + body)
    except OSError:
        text = "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"
        raise ApiError(text, "server_error", failure="connection_failed") from None
    return connection, gateway


def request_body(session: ScriptedSession, model: str, tools: list[str], shown: list[Line]) -> Line:
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    offered = [{"name": name, "description": f"The tool {name}.", "input_schema": schema} for name in tools]
    system: list[Line] = [
        {"type": "text", "text": f"x-anthropic-billing-header: cc_version={session.version}; cc_entrypoint=sdk-cli;"},
        {"type": "text", "text": "You are a scripted agent.", "cache_control": CACHED},
        {"type": "text", "text": SYSTEM_PROMPT, "cache_control": CACHED},
    ]
    user_id = f'{{"device_id":"scripted","account_uuid":"","session_id":"{session.id}"}}'
    body: Line = {"model": model, "messages": shown, "system": system, "tools": offered}
    return {**body, "metadata": {"user_id": user_id}, "max_tokens": 32000, "stream": True}


def messages(session: ScriptedSession, chain: list[Line]) -> list[Line]:
    """A chain in the API's form: alternating roles, reminders before the text that they came with."""
    merged: list[Line] = []
    for role, content in _spoken(session, chain):
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"].extend(content)
        else:
            merged.append({"role": role, "content": content})
    if merged:
        merged[-1]["content"][-1] = {**merged[-1]["content"][-1], "cache_control": CACHED}
    return merged


def _spoken(session: ScriptedSession, chain: list[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Runs of one role. An answer that was an API error ends a run of prompts but is not sent itself."""
    run: list[Line] = []
    for entry in chain:
        if entry["type"] == "assistant":
            if run:
                yield "user", _user_content(session, run)
            run = []
            if not entry.get("isApiErrorMessage"):
                yield "assistant", [dict(block) for block in blocks(entry)]
        elif entry["type"] in ("user", "attachment") or entry.get("subtype") == "local_command":
            run.append(entry)
    if run:
        yield "user", _user_content(session, run)


def _user_content(session: ScriptedSession, run: list[Line]) -> list[Line]:
    reminders = [part["content"] for entry in run for part in entry.get("rendered", ())]
    results = _all_results(session, run)
    texts = [[dict(block) for block in blocks(entry) if block["type"] != "tool_result"] for entry in run]
    texts = [part for part in texts if part]
    for part in texts[:-1]:
        if part[-1]["type"] == "text":
            part[-1]["text"] += "\n"
    said = [block for part in texts for block in part]
    if results:
        if reminders and isinstance(results[-1]["content"], str):
            results[-1]["content"] += "\n\n" + "\n".join(reminders)
        return results + said
    if reminders and said:
        reminders[-1] += "\n"
    return [{"type": "text", "text": text} for text in reminders] + said


def _all_results(session: ScriptedSession, run: list[Line]) -> list[Line]:
    """The results in this run, and those of parallel calls, whose entries are not on the chain."""
    found = [block for entry in run for block in blocks(entry, "tool_result")]
    if not found:
        return []
    siblings: dict[str, list[str]] = {}  # calls of one answer, by the answer's id
    results: dict[str, Line] = {}
    for entry in session.entries:
        results.update((block["tool_use_id"], block) for block in blocks(entry, "tool_result"))
        if calls := [block["id"] for block in blocks(entry, "tool_use")]:
            siblings.setdefault(entry["message"].get("id", entry["uuid"]), []).extend(calls)
    asked = {block["tool_use_id"] for block in found}
    for calls in siblings.values():
        if asked & set(calls):
            return [dict(results[call]) for call in calls if call in results]
    return [dict(block) for block in found]
