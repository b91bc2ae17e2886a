"""What confines a process, as Linux shows it, and what it passes on to each process that it starts.

Neither a command nor an agent that was kept may be the way out of a sandbox: a process that carries work out for
another one must be confined as that one is.
"""

from __future__ import annotations

import os
import sys

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
CONFINED_BY = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def difference(pid: int) -> str | None:
    """In what the process is confined otherwise than this one; None: in nothing. Raises OSError if it is not seen."""
    if sys.platform != "linux":
        return None
    theirs, ours = f"/proc/{pid}", "/proc/self"
    for name in NAMESPACES:
        if os.readlink(f"{theirs}/ns/{name}") != os.readlink(f"{ours}/ns/{name}"):
            return f"namespace {name}"
    if _status(theirs, CONFINED_BY) != _status(ours, CONFINED_BY) or _security(theirs) != _security(ours):
        return "confinement"
    return "root" if os.readlink(f"{theirs}/root") != os.readlink(f"{ours}/root") else None


def inherited() -> list[str]:
    """What an agent that is started now would inherit from this process besides its environment, and what confines it.

    Of the limits, those that apply: a process of the resident may have a smaller right to raise them than its caller.
    """
    if sys.platform != "linux":
        return []
    import resource

    limits = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return [
        *(os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES),
        *_status("/proc/self", (*CONFINED_BY, "Umask")),
        _security("/proc/self"),
        os.readlink("/proc/self/root"),
        *(f"{name}: {resource.getrlimit(getattr(resource, name))[0]}" for name in limits),
        f"priority: {os.getpriority(os.PRIO_PROCESS, 0)}",
        f"processors: {sorted(os.sched_getaffinity(0))}",
    ]


def _status(process: str, names: tuple[str, ...]) -> list[str]:
    return [line for line in _text(f"{process}/status").splitlines() if line.partition(":")[0] in names]


def _security(process: str) -> str:
    """What a security module says of the process, if there is one."""
    try:
        return _text(f"{process}/attr/current")
    except OSError:
        return ""


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
