"""Where agents are kept between two turns: in this process, or in the daemon that serves the same store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import clew
from clew import config
from clew.core.hashing import blake2b
from clew.engine.settings import RuntimeContext
from clew.engine.warm.pool import WarmLimits, WarmPool
from clew.resident import location

if TYPE_CHECKING:
    from clew.engine.engine import Engine
    from clew.engine.warm.remote import RemotePool
    from clew.engine.warm.server import PoolServer

SUFFIX = ".pool"
LOOK_S = 5.0  # how often a daemon sees to it that its agents can be lent


def pool_socket(environ: Mapping[str, str], home: Path) -> Path:
    """Where the daemon of that home lends its agents, if one runs."""
    package = os.path.dirname(clew.__file__)  # noqa: PTH120 - as in __main__.py
    path = location.socket_path(environ, clew.__version__, package, str(home))
    return Path(path.removesuffix(location.SUFFIX) + SUFFIX)


def own_pool(settings: config.Settings, context: RuntimeContext) -> WarmPool | None:
    """None: no agents are to be kept."""
    idle_s, most, memory_bytes = (settings.of(f"warm.{name}") for name in ("idle", "max", "memory"))
    return WarmPool(context.owner, WarmLimits(idle_s=idle_s, max=most, memory_bytes=memory_bytes)) if most else None


def daemons_pool(
    settings: config.Settings,
    environ: Mapping[str, str],
    home: Path,
    context: RuntimeContext,
    *,
    connect_s: float | None = None,
) -> RemotePool | None:
    """None: there is no daemon of this home and version, or it must not be used. `connect_s`: how long it may take to
    answer."""
    path = pool_socket(environ, home)
    if settings.of("resident") == "off" or not path.exists():
        return None
    try:
        location.check_private(str(path.parent))
    except OSError:
        return None
    from clew.engine.warm.remote import RemoteLimits, RemotePool

    limits = RemoteLimits() if connect_s is None else RemoteLimits(connect_s=connect_s)
    return RemotePool(path, _identity(settings, home), context.owner, context.environ, limits=limits)


@asynccontextmanager
async def lent(
    engine: Engine, settings: config.Settings, environ: Mapping[str, str], home: Path, *, look_s: float = LOOK_S
) -> AsyncIterator[str | None]:
    """While this is open, other processes of Clew take agents out of this one's pool, and give them back.

    Yields why they cannot; None: they can. Another daemon of this home may do it already; this one does when that has
    ended.
    """
    pool = engine.warm
    if settings.of("resident") == "off" or not isinstance(pool, WarmPool):
        yield "no agents are kept here"
        return
    from clew.engine.warm.server import PoolServer

    path = pool_socket(environ, home)
    server = PoolServer(pool, path, _identity(settings, home))
    why_not = await _start(server, path)
    looking = asyncio.create_task(_keep_lending(server, path, look_s))
    try:
        yield why_not
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        await server.close()


async def _start(server: PoolServer, path: Path) -> str | None:
    """Why it cannot; None: it has started."""
    try:
        location.make_private(str(path.parent))
        await server.start()
    except OSError as error:
        return str(error)
    return None


async def _keep_lending(server: PoolServer, path: Path, look_s: float) -> None:
    """Another daemon of this home may end before this one, and the runtime folder may go when its user logs out."""
    while True:
        await asyncio.sleep(look_s)
        if not server.is_found:
            await server.close()
            await _start(server, path)


def _identity(settings: config.Settings, home: Path) -> str:
    """The version, and the store: agents are lent only to processes that use both."""
    store = f"{settings.of('store') or ''}\0{os.path.realpath(home)}"
    return f"{clew.__version__}/{blake2b(store.encode(), digest_size=10).hexdigest()}"
