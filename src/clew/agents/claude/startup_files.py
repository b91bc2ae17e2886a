"""What the Claude CLI reads only when it starts: settings, rules, agents, commands, skills, plugins, its login.

Each file is a text of its path and its content's digest; of a large folder, the names, sizes and times count. Of the
user's `.claude.json`, which the CLI itself rewrites all the time, only what changes how it works counts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.agents.adapter import LaunchProfile
from clew.agents.claude import location
from clew.core.hashing import blake2b
from clew.core.thread import Trust

SETTINGS = ("settings.json", "settings.local.json", "CLAUDE.md", ".credentials.json")
PLUGINS = ("plugins/installed_plugins.json", "plugins/known_marketplaces.json", "plugins/config.json")
FOLDERS = ("agents", "commands", "skills", "rules", "output-styles", "hooks")
MANAGED = ("/etc/claude-code", "/Library/Application Support/ClaudeCode")
OF_PROJECT = ("CLAUDE.md", "CLAUDE.local.md", ".mcp.json")
STATE_KEYS = ("mcpServers", "oauthAccount", "primaryApiKey", "env", "hooks")
PROJECT_KEYS = ("mcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "hasTrustDialogAccepted")
MAX_FILE_BYTES = 256 * 1024  # of a larger file, size and time count
MAX_ENTRIES = 2_000  # of all folders together

_IMPORT = re.compile(r"(?:\A|\s)@(~?[\w./-]+)")


def startup_files(launch: LaunchProfile, environ: Mapping[str, str]) -> list[str] | None:
    """None: there are too many files to compare them before every turn."""
    config = Path(launch.config_dir or location.config_dir(environ))
    found = list[str]()
    try:
        for folder in (config, *map(Path, MANAGED)):
            _add(found, folder, (*SETTINGS, *PLUGINS) if folder == config else None)
        found += _imports(config / "CLAUDE.md", Path(launch.home or "/"))
        found.append(_state(environ, launch.work_dir))
        if launch.rules_dir:
            _add_folder(found, Path(launch.rules_dir), _file)
        if launch.trust is Trust.PROJECT:
            here = Path(launch.work_dir)
            for folder in (here, *here.parents):
                found += map(_file, (folder / name for name in OF_PROJECT))
                if folder / ".claude" != config:
                    _add(found, folder / ".claude", SETTINGS)
    except _TooMany:
        return None
    return found


class _TooMany(Exception):
    pass


def _add(found: list[str], folder: Path, files: tuple[str, ...] | None) -> None:
    """The named files of a settings folder, and its folders; None: all of it."""
    if files is None:
        _add_folder(found, folder)
        return
    found += (_file(folder / name) for name in files)
    for name in FOLDERS:
        _add_folder(found, folder / name)


def _add_folder(found: list[str], folder: Path, of_file: Callable[[Path], str] | None = None) -> None:
    """`of_file`: what is compared of a file; None: its size and time."""
    for where, below, names in os.walk(folder, followlinks=False):
        below[:] = sorted(name for name in below if name not in (".git", "node_modules"))
        if of_file is not None:
            found += (of_file(Path(where) / name) for name in sorted(names))
        else:
            found += (_stat(os.path.join(where, name)) for name in (*below, *sorted(names)))  # noqa: PTH118
        if len(found) > MAX_ENTRIES:
            raise _TooMany


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return f"{path}: none"
    if len(content) > MAX_FILE_BYTES:
        return _stat(str(path))
    return f"{path}: {blake2b(content, digest_size=16).hexdigest()}"


def _stat(path: str) -> str:
    try:
        seen = os.stat(path)  # noqa: PTH116 - these are many
    except OSError:
        return f"{path}: none"
    return f"{path}: {seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}"


def _imports(rules: Path, home: Path) -> Iterator[str]:
    """The files that the user's own rules import, one level deep."""
    try:
        text = rules.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for name in _IMPORT.findall(text)[:100]:
        path = home / name[2:] if name.startswith("~/") else rules.parent / name
        yield _stat(str(path))


def _loaded(path: Path) -> Any:
    """A file that the CLI has not written yet is like one that says nothing."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}


def _state(environ: Mapping[str, str], work_dir: str) -> str:
    folder = environ.get("CLAUDE_CONFIG_DIR") or environ.get("HOME") or "/"
    try:
        state = _loaded(Path(folder) / ".claude.json")
        projects = state.get("projects") or {}
        project = projects.get(work_dir) or {}
        told = [{name: state[name] for name in STATE_KEYS if state.get(name)}]
        told.append({name: project[name] for name in PROJECT_KEYS if project.get(name)})
    except (OSError, ValueError, AttributeError, TypeError):
        return "state: none"
    text = json.dumps(told, sort_keys=True)
    return f"state: {blake2b(text.encode(), digest_size=16).hexdigest()}"
