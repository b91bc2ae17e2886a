"""Checks whether an agent's sandbox can hide folders on this machine. On Linux it needs a user namespace for that.

Containers and some distributions forbid user namespaces to a user's processes. Codex does not even start there if it is
told to hide something.
"""

from __future__ import annotations

import asyncio
import sys

# Makes a user namespace and mounts something in it: some systems allow only the first.
_TRY = """
import ctypes, os
call, uid = ctypes.CDLL(None), os.getuid()
done = call.unshare(0x10020000) == 0
if done:
    open("/proc/self/uid_map", "w").write(f"{uid} {uid} 1")
raise SystemExit(0 if done and call.mount(b"none", b"/", None, 0x44000, None) == 0 else 1)
"""
_known: list[bool] = []


async def available() -> bool:
    """Whether a namespace can be made. It is tried once, in another process. Only Linux needs one."""
    if sys.platform != "linux":
        return True
    if not _known:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _TRY),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        _known.append(await process.wait() == 0)
    return _known[0]
