"""What the kernel says of the process at the other end of a connection, and what a process takes over from it."""

from __future__ import annotations

import math
import os
import socket
import struct
import sys

from clew.resident import confinement


class NotTheSame(Exception):
    """This process cannot be what the caller is: its text says in what they differ."""


def credentials(connection: socket.socket) -> tuple[int, int]:
    """The pid (0: not known) and the user of the process at the other end."""
    if sys.platform == "darwin":
        _, user = struct.unpack("2I", connection.getsockopt(0, 1, 8))  # LOCAL_PEERCRED: struct xucred
        return 0, user
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def take_limits(pid: int) -> None:
    """Takes over the caller's resource limits. Raises NotTheSame if it is confined in another way.

    A command must not leave a sandbox because a resident outside of it carries it out: both must be in the same
    namespaces, with the same capabilities and restrictions.
    """
    if sys.platform != "linux":
        return
    try:
        differs = confinement.difference(pid)
        if differs is not None:
            raise NotTheSame(differs)
        _take_resource_limits(pid)
    except (OSError, ValueError) as error:
        raise NotTheSame("not visible") from error


def _take_resource_limits(pid: int) -> None:
    import resource

    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            limit = getattr(resource, name)
            theirs, ours = resource.prlimit(pid, limit), resource.getrlimit(limit)
            if theirs != ours:
                _take_limit(limit, theirs, ours[1])
    priority = os.getpriority(os.PRIO_PROCESS, pid)
    if priority != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    processors = os.sched_getaffinity(pid)
    if processors != os.sched_getaffinity(0):
        os.sched_setaffinity(0, processors)


def _take_limit(limit: int, theirs: tuple[int, int], most: int) -> None:
    """What applies to the caller applies here; how far it could raise that may be less here, as in a systemd unit."""
    import resource

    def size(value: int) -> float:
        return math.inf if value == resource.RLIM_INFINITY else value

    soft, hard = theirs
    if size(soft) > size(most):
        raise NotTheSame("limits")
    resource.setrlimit(limit, (soft, min(hard, most, key=size)))
