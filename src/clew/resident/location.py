"""Where a resident listens.

The name of its socket is a digest of the user, the version, the installation and the home, so a command of another one
finds no socket. The folder is private: nobody else can put a socket there.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # typing would take longer to load than everything else here
if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX = ".socket"


class NotPrivate(OSError):
    """The folder exists, and belongs to somebody else or can be opened by others."""


def home(environ: Mapping[str, str]) -> str:
    """The folder of the store: CLEW_HOME, or the platform's folder for state.

    Raises RuntimeError if the user has no home directory.
    """
    chosen = environ.get("CLEW_HOME")
    if chosen:
        found = _expanded(chosen)
        return found if os.path.isabs(found) else os.path.join(os.getcwd(), found)
    state = environ.get("XDG_STATE_HOME")
    if not state:
        state = os.path.join(_expanded(environ.get("HOME") or "~"), ".local", "state")
    return os.path.join(state, "clew")


def _expanded(path: str) -> str:
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise RuntimeError("Could not determine home directory.")
    return found


def folder(environ: Mapping[str, str]) -> str:
    """The runtime folder, which need not exist."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(runtime, "clew") if os.path.isabs(runtime) else f"/tmp/clew-{os.geteuid()}"


def socket_path(environ: Mapping[str, str], version: str, package: str, home: str) -> str:
    """Where the resident of that version, installation and home listens."""
    from _blake2 import blake2b  # hashlib would load a dozen modules

    words = (str(os.geteuid()), version, package, os.path.normpath(home))
    name = blake2b(os.fsencode("\0".join(words)), digest_size=10).hexdigest()
    return os.path.join(folder(environ), name + SUFFIX)


def make_private(path: str) -> None:
    """Makes the folder, if it is not there. Raises OSError as `check_private` does."""
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # regardless of the umask
    except FileExistsError:
        pass
    check_private(path)


def check_private(path: str) -> None:
    """Raises OSError unless the folder is ours and closed to everybody else. A symbolic link is refused."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise NotPrivate(f"{path} is not a folder that only its owner, this user, can open")
