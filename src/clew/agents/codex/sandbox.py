"""What Codex's sandbox lets its tools read and write.

Codex has two settings for it. `sandbox_mode` lets every command read the whole disk. A permission profile can hide
folders from commands, and takes precedence when both are given (measured with 0.163). It ignores the user's table
`sandbox_workspace_write`, so that table is copied into it here. With `danger-full-access` there is no sandbox.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.agents.adapter import LaunchProfile
from clew.core.decision import Abilities
from clew.core.thread import Permissions

# Codex cannot ask anybody, so `ask` may change nothing: the sandbox makes the whole disk read-only, as for `read-only`.
MODE = {
    Permissions.ASK: "read-only",
    Permissions.READ_ONLY: "read-only",
    Permissions.EDITS: "workspace-write",
    Permissions.ALL: "danger-full-access",
}
PROFILE_NAME = "clew"
SINCE_VERSION = (0, 163)  # the first version that was measured


def can_hide(abilities: Abilities, permissions: Permissions) -> bool:
    version = re.match(r"(\d+)\.(\d+)", abilities.version)
    is_new = version is not None and (int(version[1]), int(version[2])) >= SINCE_VERSION
    return is_new and MODE[permissions] != "danger-full-access"


def settings(launch: LaunchProfile, abilities: Abilities) -> Iterator[tuple[str, str]]:
    """Keys and values, as TOML."""
    mode = MODE[launch.permissions]
    yield "sandbox_mode", quoted(mode)
    if not launch.hidden_paths or not can_hide(abilities, launch.permissions):
        return
    own = user_tables(launch.config_dir, "features", "sandbox_workspace_write")
    if own.get("features", {}).get("use_legacy_landlock"):  # the legacy sandbox cannot hide anything
        return
    table = own.get("sandbox_workspace_write", {})
    network = mode == "workspace-write" and table.get("network_access") is True
    allowed = {**_allowed(mode, table), **dict.fromkeys(launch.hidden_paths, "none")}
    work_dir = os.path.realpath(launch.work_dir)
    if any(Path(work_dir).is_relative_to(path) for path in launch.hidden_paths):  # a work tree that a hook made
        allowed[work_dir] = "write" if mode == "workspace-write" else "read"
    files = ",".join(f"{quoted(path)}={_value(access)}" for path, access in allowed.items())
    yield "default_permissions", quoted(PROFILE_NAME)
    yield f"permissions.{PROFILE_NAME}", f"{{filesystem={{{files}}},network={{enabled={str(network).lower()}}}}}"


def _allowed(mode: str, table: dict[str, Any]) -> dict[str, Any]:
    """What `sandbox_mode` would allow with the user's settings."""
    allowed: dict[str, Any] = {":root": "read"}
    if mode == "workspace-write":
        allowed[":workspace_roots"] = {".": "write"}
        if table.get("exclude_tmpdir_env_var") is not True:
            allowed[":tmpdir"] = "write"
        if table.get("exclude_slash_tmp") is not True:
            allowed[":slash_tmp"] = "write"
        roots = table.get("writable_roots", ())
        allowed |= {root: "write" for root in roots if isinstance(root, str) and Path(root).is_absolute()}
    return allowed


def _value(access: Any) -> str:
    if isinstance(access, str):
        return quoted(access)
    return "{" + ",".join(f"{quoted(path)}={quoted(each)}" for path, each in access.items()) + "}"


def user_tables(config_dir: str, *names: str) -> dict[str, Any]:
    """Tables of the user's own settings (reads the disk). One is missing if it is invalid, which Codex will report."""
    if not config_dir:
        return {}
    try:
        found = tomllib.loads(Path(config_dir, "config.toml").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    tables = {name: found.get(name, {}) for name in names}
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def quoted(text: str) -> str:
    """A TOML string. JSON strings are the same, except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
