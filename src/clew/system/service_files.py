"""Files with which the user's session starts the daemon: a systemd user unit, or a launchd property list.

Writing one changes nothing by itself: the user enables it with a command of the platform.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.errors import Conflict, UsageError
from clew.system.files import write_whole

SYSTEMD, LAUNCHD = "systemd", "launchd"
MARK = "Written by clew up"  # in a comment of XML, which may not contain two dashes
UNIT = "clew.service"
LABEL = "clew.daemon"


class ServiceFile(Record):
    path: Path
    content: str
    enable: str  # the shell command that enables it


def platform_kind() -> str:
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def service_file(
    kind: str, command: Sequence[str], environ: Mapping[str, str], settings: Mapping[str, str]
) -> ServiceFile:
    """The file for this user. `settings` are variables that the daemon gets; `environ` says where the file belongs."""
    if any("\n" in each for each in (*command, *settings.values())):
        raise UsageError("A path or a variable contains a line break, which a service file cannot hold.")
    return _launchd(command, environ, settings) if kind == LAUNCHD else _systemd(command, environ, settings)


def write(file: ServiceFile, *, force: bool) -> None:
    """Raises Conflict if there is one that `clew up --install` did not write, unless `force`."""
    try:
        is_ours = MARK in file.path.read_text("utf-8", "replace")
    except FileNotFoundError:
        is_ours = True
    if not (is_ours or force):
        raise Conflict(f"{file.path} exists, and clew did not write it.", hint="--force replaces it.")
    file.path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file.path, file.content.encode())


def _systemd(command: Sequence[str], environ: Mapping[str, str], settings: Mapping[str, str]) -> ServiceFile:
    chosen = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(chosen) if Path(chosen).is_absolute() else _home(environ) / ".config"
    lines = [
        f"# {MARK}, which replaces it when it installs again.",
        "[Unit]",
        "Description=Clew: its page, its API, and the resident for the command line",
        "",
        "[Service]",
        f"ExecStart={' '.join(_quoted(word.replace('$', '$$')) for word in command)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in settings.items()),
        "StandardOutput=null",  # it has the address with the token
        "Restart=on-failure",
        "RestartSec=5",
        "KillMode=process",  # commands in progress are finished
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    enable = f"systemctl --user daemon-reload && systemctl --user enable --now {UNIT}"
    return ServiceFile(folder / "systemd" / "user" / UNIT, "\n".join(lines) + "\n", enable)


def _quoted(word: str) -> str:
    """As systemd reads it: in quotes, with backslashes before quotes, and each % doubled."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def _launchd(command: Sequence[str], environ: Mapping[str, str], settings: Mapping[str, str]) -> ServiceFile:
    import plistlib

    content = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(settings),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "AbandonProcessGroup": True,  # commands in progress are finished
    }
    text = plistlib.dumps(content).decode()
    head, _, rest = text.partition("<plist")
    path = _home(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    enable = f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(path))}"
    return ServiceFile(path, f"{head}<!-- {MARK}, which replaces it when it installs again. -->\n<plist{rest}", enable)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()
