"""Which turn an agent that was kept can answer: what must be equal to what it was."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.core.hashing import blake2b
from clew.core.record import Record
from clew.resident.confinement import inherited

_HEADER = re.compile(r"(?i)\b(?:authorization|cookie|[\w-]*api-?key|[\w-]*-(?:token|key|secret))\s*[:=]\s*\S")


class WarmSession(Record):
    """An agent's session as its process holds it in memory, and how that process was started."""

    thread_id: str
    session_id: str
    launch: str  # see `launch_digest`
    file: str  # the session's file, and its size when the last turn ended: the process is blind to what others add
    size_bytes: int = 0
    leaf: str | None = None  # the last line of the session's chain

    @property
    def is_untouched(self) -> bool:
        """Whether nobody has continued the session since (reads the disk). If somebody has, the process must not end by
        itself: its last lines may take the session back to where it left it."""
        try:
            return os.stat(self.file).st_size == self.size_bytes  # noqa: PTH116
        except OSError:
            return False


class Launch(Record):
    """How an agent is started to resume a session."""

    argv: Sequence[str]
    work_dir: str
    environ: Mapping[str, str]
    startup_files: Sequence[str]


def launch_digest(key: bytes, launch: Launch) -> str:
    """Equal only if a process that is started now would be like the one that was kept: the same user, program, command
    line, directory, environment, umask and limits, and files that are read only at the start (reads the disk).

    It is keyed, because the environment may hold secrets, and a digest of a short one could be guessed.
    """
    parts = (
        _user(),
        inherited(),
        _program(launch.argv[0]),
        list(launch.argv),
        launch.work_dir,
        sorted(launch.environ.items()),
        list(launch.startup_files),
    )
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), key=key, digest_size=32).hexdigest()


def credential_in(environ: Mapping[str, str]) -> str | None:
    """The name of a variable that holds a credential. An agent that was started with one is not kept, because the next
    caller may be somebody else who is logged in as the same user; a login in the agent's own folder is everybody's.
    Some variables hold headers of requests, with a credential among them."""
    return next((name for name, value in environ.items() if _is_credential(name, value)), None)


def _is_credential(name: str, value: str) -> bool:
    from clew.core.secrets.redaction import names_secret  # here, because a command that keeps no agent needs it not

    return names_secret(name, value, os.path.lexists) or _HEADER.search(value) is not None


def _user() -> tuple[int, ...]:
    if not hasattr(os, "getuid"):
        return ()
    return os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()


def _program(path: str) -> tuple[object, ...]:
    try:
        found = Path(path).resolve(strict=True)
        seen = found.stat()
    except OSError:
        return (path,)
    return str(found), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns
