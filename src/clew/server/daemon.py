"""The daemon: a socket, a server on it, and a graceful shutdown.

The first signal shuts it down gracefully: clients that follow events are disconnected, runs are asked to stop and their
partial answers are kept, and the process exits with 0. A second SIGINT ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp

from clew import __version__
from clew.api.client import Client
from clew.api.daemons import registered
from clew.core.record import Record
from clew.errors import Cancelled, UsageError
from clew.server.app import App
from clew.server.idle_end import IdleEnd
from clew.server.live.connections import MAX_ACCEPTED, MAX_CONNECTIONS, HttpConnection, WebSocketConnection
from clew.server.live.slow_clients import SlowClients
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials, OneTimeCode
from clew.server.worker import daemon_work, running_worker
from clew.web import STATIC

ONE_TIME_CODE_S = 60.0  # how long the code is valid: a browser may start slowly
GRACE_S = 5  # at shutdown, for answers that are being sent; runs have a time limit of their own
STUCK_S = 2.0  # at shutdown, a client that has read nothing for this long is disconnected at once
MAX_MESSAGE_BYTES = 256 * 1024  # of a message that a page sends over its WebSocket
HEAD_BYTES = 64 * 1024
WILDCARDS = ("", "0.0.0.0", "::")


class Address(Record):
    """Where the daemon listens, and the host names that it answers to."""

    host: str
    port: int
    allow_remote: bool = False
    allow_hosts: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        if not self.is_loopback and not self.allow_remote:
            raise UsageError(
                f"Other machines can reach {self.host or 'an empty host'}: everybody who has the token can run agents "
                "here.",
                hint="Add --allow-remote if you want that, and put TLS in front of it; or leave --host out.",
            )

    def url(self, port: int, token: str) -> str:
        """The address to open in a browser."""
        name = self.host
        if self.host in WILDCARDS:
            name = next(iter(self.allow_hosts), "127.0.0.1")
        shown = f"[{name}]" if ":" in name else name
        return f"http://{shown}:{port}/?token={token}"


def bind(address: Address, *, new_token: bool = False) -> socket.socket:
    """A listening socket. Raises UsageError when the address cannot be used.

    `new_token`: the user asked for a new token, so the error says that the token is unchanged.
    """
    address.check()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.getaddrinfo(address.host or None, address.port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
        # asyncio turns Nagle's algorithm off only if the protocol is given; else each answer would be delayed by 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{address.host} is not an address of this machine.", hint="Leave --host out.") from error
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[0][4])
        listening.listen(MAX_CONNECTIONS)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise _bind_error(address, error, new_token) from error
    return listening


def _bind_error(address: Address, error: OSError, new_token: bool) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        in_use = f"Port {address.port} of {address.host} is in use, perhaps by another clew serve."
        if new_token:
            hint = "End that one first; then clew serve --new-token starts with another token."
            return UsageError(f"{in_use} The token is unchanged.", hint=hint)
        return UsageError(in_use, hint="Use that one, or another port: clew serve --port 0 takes any free one.")
    if error.errno == errno.EACCES:
        return UsageError(f"You are not allowed to listen on port {address.port}.", hint="Use a port above 1023.")
    return UsageError(f"clew serve cannot listen on {address.host}:{address.port}: {error.strerror}.")


class Beside(Protocol):
    """What else the daemon's process does: it carries out commands of the command line."""

    begun: int  # commands so far
    commands: int  # those in progress

    def running(self) -> AbstractAsyncContextManager[None]: ...


class DaemonServer(uvicorn.Server):
    """Shuts down as docs/http.md says: gracefully with exit code 0, or at once after a second SIGINT."""

    def __init__(self, config: uvicorn.Config, app: App, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._started = started
        self._slow_clients = SlowClients(self.server_state.connections)  # type: ignore[arg-type]
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(MAX_CONNECTIONS)  # uvicorn has set the queue's length to `backlog`, MAX_ACCEPTED
        self._watching = asyncio.create_task(self._slow_clients.run())
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """A client that does not read its answer neither delays the shutdown nor causes a log line."""
        loop = asyncio.get_running_loop()
        self._slow_clients.end(loop.time(), stuck_s=STUCK_S)
        last = loop.call_later(GRACE_S - 1, self._abort_unsent)
        await super().shutdown(sockets)
        last.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _abort_unsent(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's method raises the signal again at the end, so the exit code would be that of a killed process."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._on_signal, each)
        try:
            yield
        finally:
            # The runs are being stopped now. SIGINT ends the process at once, for a person who does not want to wait.
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            loop.add_signal_handler(signal.SIGINT, os._exit, Cancelled.exit_code)

    def _on_signal(self, which: int) -> None:
        if self.should_exit and which == signal.SIGINT:
            os._exit(Cancelled.exit_code)
        self.end()

    def end(self) -> None:
        """Begins the graceful shutdown."""
        self._app.shared.closing.set()
        self.should_exit = True

    def uses(self, beside: Beside | None) -> tuple[int, bool]:
        """How often the daemon was used so far, and whether it is used now."""
        requests, listeners = self.server_state.total_requests, self._app.shared.listeners
        if beside is None:
            return requests, listeners > 0
        return requests + beside.begun, listeners > 0 or beside.commands > 0


async def serve(
    client: Client,
    address: Address,
    listening: socket.socket,
    credentials: Credentials,
    *,
    roots: Sequence[str | Path] = (),
    on_ready: Callable[[str, str], None],
    beside: Beside | None = None,
    idle_s: float | None = None,
) -> None:
    """Serves until a signal arrives. `on_ready` gets two addresses: one with the token, one with a one-time code.

    `beside` runs for as long as requests are answered. `idle_s`: the daemon also ends when it was unused for this time.
    """
    port = int(listening.getsockname()[1])
    hosts = tuple(name.lower() for name in (address.host, *address.allow_hosts) if name)
    policy = AccessPolicy(credentials, port, hosts, remote=not address.is_loopback)
    one_time_code = OneTimeCode(expires_at=time.monotonic() + ONE_TIME_CODE_S)
    app = App(client, policy, STATIC, roots, one_time_code)
    config = uvicorn_config(app.asgi)

    def started() -> None:
        on_ready(address.url(port, credentials.token), address.url(port, one_time_code.code))

    server = DaemonServer(config, app, started)
    work = daemon_work(client)
    async with app.running(), running_worker(client, work):
        with registered(client.home, port, __version__):
            async with contextlib.AsyncExitStack() as stack:
                if beside is not None:
                    await stack.enter_async_context(beside.running())
                if idle_s is not None and not work.max_jobs:
                    idle_end = IdleEnd(client, idle_s, lambda: server.uses(beside))
                    ending = asyncio.create_task(idle_end.run(server.end))
                    stack.callback(ending.cancel)
                await server.serve(sockets=[listening])


def uvicorn_config(asgi: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        asgi,
        http=HttpConnection,
        ws=WebSocketConnection,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # an address may contain the token, so guards.py logs the route instead
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        backlog=MAX_ACCEPTED,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


def set_up_logs(*, verbose: bool) -> None:
    """Logs go to stderr. uvicorn's info lines contain addresses, so only its warnings are logged."""
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)
    logging.getLogger("clew.server").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
