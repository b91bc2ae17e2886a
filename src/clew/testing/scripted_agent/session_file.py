"""Where sessions are kept, and which of them the options select.

As in the real CLI 2.1.325, a session is found by its id in every project's folder, and is continued in the file where
it was found.
"""
# ruff: noqa: PTH110, PTH111, PTH118, PTH119, PTH208

from __future__ import annotations

import os

from .lines import is_uuid, new_id
from .options import Refused
from .session import NoConversation, ScriptedSession

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from .options import Options


def projects_folder() -> str:
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "projects")


def session_path(cwd: str, session_id: str) -> str:
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)
    return os.path.join(projects_folder(), slug, session_id + ".jsonl")


def find_session(cwd: str, session_id: str) -> str:
    """The file of a session: in this directory's folder first, then in any other's."""
    here = session_path(cwd, session_id)
    if os.path.exists(here):
        return here
    try:
        folders = sorted(os.listdir(projects_folder()))
    except OSError:
        folders = []
    for folder in folders:
        path = os.path.join(projects_folder(), folder, session_id + ".jsonl")
        if os.path.exists(path):
            return path
    raise NoConversation(f"No conversation found with session ID: {session_id}")


def open_session(options: Options, cwd: str, version: str) -> ScriptedSession:
    """The session that the options select: a new one, an existing one, or a copy of an existing one."""
    chosen, mode = options.one("--session-id"), options.one("--permission-mode")
    if mode == "bypassPermissions" and os.geteuid() == 0 and not os.environ.get("IS_SANDBOX"):
        raise Refused("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons")
    if chosen and not is_uuid(chosen):
        raise Refused("Error: Invalid session ID. Must be a valid UUID.")
    if chosen and "--resume" in options and "--fork-session" not in options:
        raise Refused(
            "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified."
        )
    own = chosen or new_id()
    path = session_path(cwd, own)
    if chosen and os.path.exists(path):
        raise Refused(f"Error: Session ID {chosen} is already in use.")
    if "--resume" not in options:
        return ScriptedSession(own, cwd, version, path)
    session = resume_session(options.one("--resume"), cwd, version)
    if "--resume-session-at" in options:
        session.rewind(options.one("--resume-session-at"))
    if "--fork-session" in options:
        session.fork(own, path)
    return session


def resume_session(wanted: str, cwd: str, version: str) -> ScriptedSession:
    usage = "Error: --resume requires a valid session ID or session title when used with --print. "
    usage += "Usage: claude -p --resume <session-id|title>"
    if not wanted:
        raise NoConversation(usage)
    if wanted.startswith("/") and wanted.endswith(".jsonl"):
        name = os.path.basename(wanted)[: -len(".jsonl")]
        path, session_id = wanted, name if is_uuid(name) else new_id()
        if not os.path.exists(path):
            raise NoConversation(f"No conversation found with session ID: {new_id()}")
    elif is_uuid(wanted):
        path, session_id = find_session(cwd, wanted), wanted
    else:
        problem = f'. Provided value "{wanted}" is not a UUID and does not match any session title.'
        raise NoConversation(usage + problem)
    session = ScriptedSession(session_id, cwd, version, path)
    session.load(path)
    return session
