"""A copy of a Codex session that ends with an earlier turn, made by `codex app-server`.

`codex exec fork` copies a whole session. The app server's `thread/fork` takes the id of the copy's last turn. It speaks
JSON-RPC, one message per line, and exits when its input ends. It writes the copy's file and asks no model. While it
runs it holds the copy, so the copy is resumed (`codex exec resume`) after it has ended.

The process loads as little as possible: nothing of the repository, even where that is trusted, and none of the user's
MCP servers. The turn that follows has the settings of the thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from clew.agents.adapter import UUID, Binary, LaunchProfile
from clew.agents.codex import sandbox
from clew.agents.codex.command import setting, trust
from clew.agents.codex.location import is_session_id, session_file
from clew.agents.json_lines import decode
from clew.core.record import replace
from clew.core.thread import Trust

INITIALIZE, FORK = 1, 2  # the ids of our two requests
_CLIENT = {"name": "clew", "version": "1"}
_UNKNOWN_METHOD = -32601


class CodexCopyDialog:
    """Asks for one copy."""

    def __init__(self, argv: list[str], params: dict[str, Any]) -> None:
        self.argv: Sequence[str] = argv
        self.session_id: str | None = None
        self.error = ""
        self._params = params

    def begin(self) -> list[bytes]:
        return [_line(id=INITIALIZE, method="initialize", params={"clientInfo": _CLIENT})]

    def feed(self, line: bytes) -> list[bytes]:
        message = decode(line) or {}
        if "method" in message:  # a notification, or a request that nobody can answer
            refusal = {"code": _UNKNOWN_METHOD, "message": "not supported"}
            return [_line(id=message["id"], error=refusal)] if "id" in message else []
        match message.get("id"), message.get("error"):
            case ((1 | 2), error) if error is not None:
                self.error = str(error.get("message") if isinstance(error, dict) else error) or "no reason given"
            case 1, None:
                return [_line(method="initialized"), _line(id=FORK, method="thread/fork", params=self._params)]
            case 2, None:
                self._copied(message.get("result"))
        return []

    def _copied(self, result: Any) -> None:
        thread = result.get("thread") if isinstance(result, dict) else None
        session_id = str(thread.get("id")) if isinstance(thread, dict) else ""
        if is_session_id(session_id) and session_id != self._params["threadId"]:
            self.session_id = session_id
        else:
            self.error = "codex named no copy"


def copy_dialog(binary: Binary, launch: LaunchProfile) -> CodexCopyDialog | None:
    if not launch.fork_of or not launch.rewind_to:
        return None
    params = {
        "threadId": launch.fork_of,
        "lastTurnId": _turn_id(launch.config_dir, launch.fork_of, launch.rewind_to),
        "excludeTurns": True,
        "cwd": os.path.realpath(launch.work_dir),  # else it would load the settings of the session's own directory
        **({"model": launch.model} if launch.model else {}),
    }
    return CodexCopyDialog([binary.path, "app-server", *_settings(launch)], params)


def _settings(launch: LaunchProfile) -> list[str]:
    servers = sandbox.user_tables(launch.config_dir, "mcp_servers").get("mcp_servers", {})
    off = ",".join(f"{sandbox.quoted(name)}={{enabled=false}}" for name in servers)
    return [
        *setting("sandbox_mode", '"read-only"'),
        *setting("approval_policy", '"never"'),
        *setting("features.plugins", "false"),
        *(setting("mcp_servers", f"{{{off}}}") if off else []),
        *trust(replace(launch, trust=Trust.USER)),
    ]


def _turn_id(config_dir: str, session_id: str, rewind_to: str) -> str:
    """The turn that ends there. Pins of earlier versions of Clew name the turn's last message instead."""
    if UUID.match(rewind_to):
        return rewind_to
    from clew.agents.codex.session import read_session

    path = session_file(config_dir, session_id)
    try:
        entries = read_session(path).entries if path is not None else ()
    except OSError:
        entries = ()
    return next((entry.end_id for entry in entries if entry.id == rewind_to and entry.end_id), rewind_to)


def _line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
