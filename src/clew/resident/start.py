"""Which commands are handed over, and how one is described. This runs before anything else of Clew is loaded."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing would take longer to load than everything else here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = ("ask", "chat", "review", "pair")
WAIT_S = 0.05  # until the resident has answered; then the command does its work itself
SETTING, WAIT = "CLEW_RESIDENT", "CLEW_RESIDENT_WAIT"


def hand_over(version: str, package: str) -> int | None:
    """Has the resident carry out the command of this process. Returns its exit status; None: nothing was done."""
    if not _may_hand_over(sys.argv[1:], os.environ):
        return None
    from clew.resident import location

    try:
        path = location.socket_path(os.environ, version, package, location.home(os.environ))
        location.check_private(os.path.dirname(path))
        if not os.path.exists(path):
            return None
    except (OSError, RuntimeError, ValueError):
        return None
    from clew.resident import client

    return client.carried_out(path, version, package, _wait_s())


def _may_hand_over(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """A command of an agent does its own work: the agent's process family is found by a mark in the environment."""
    return (
        sys.platform != "win32"
        and bool(arguments)
        and arguments[0] in COMMANDS
        and not {"-h", "--help"} & {*arguments}
        and environ.get(SETTING, "").strip() != "off"
        and "CLEW_ATTEMPT" not in environ
        and "_CLEW_COMPLETE" not in environ
        and os.getuid() == os.geteuid()
        and os.getgid() == os.getegid()
    )


def _wait_s() -> float:
    try:
        return float(os.environ[WAIT])
    except (KeyError, ValueError):
        return WAIT_S
