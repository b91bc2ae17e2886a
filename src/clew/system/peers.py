"""Who is at the other end of a Unix socket, as the operating system says it."""

from __future__ import annotations

import socket
import struct

_PID_UID_GID = struct.Struct("3i")  # Linux: struct ucred
_VERSION_UID = struct.Struct("2I")  # macOS: how struct xucred begins
_XUCRED_BYTES = 76
_MACOS_LEVEL, _MACOS_PEER = 0, 1  # SOL_LOCAL, LOCAL_PEERCRED


def peer_uid(connection: socket.socket) -> int | None:
    """The user id with which the other side connected or listens; None: the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    try:
        if option is not None:
            packed = connection.getsockopt(socket.SOL_SOCKET, option, _PID_UID_GID.size)
            return int(_PID_UID_GID.unpack(packed)[1])
        packed = connection.getsockopt(_MACOS_LEVEL, _MACOS_PEER, _XUCRED_BYTES)
        return int(_VERSION_UID.unpack_from(packed)[1])
    except (OSError, struct.error):
        return None


def peer_pid(connection: socket.socket) -> int | None:
    """The process that connected; None: the system does not tell. It may have ended, and then its pid may be
    another's. 0: it is in a pid namespace that this process does not see."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return int(_PID_UID_GID.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _PID_UID_GID.size))[0])
