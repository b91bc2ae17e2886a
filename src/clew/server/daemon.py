"""The daemon: a socket, a server on it, and a quiet end.

The first signal ends it gently: those who listen are let go, runs are asked to stop and what they said is kept, and the
process leaves with 0. A second SIGINT does not wait.
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
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from clew.client import Client
from clew.core.record import Record
from clew.errors import Cancelled, UsageError
from clew.server.app import App
from clew.server.doors import Doors
from clew.server.patience import Patience
from clew.server.presence import announced
from clew.server.token import Invitation, Secret
from clew.server.wire import MOST_ACCEPTED, MOST_CONNECTIONS, Connection, Socket
from clew.server.worker import work_of, working
from clew.web import STATIC

INVITATION_S = 60.0  # as long as a browser may take to start
GRACE_S = 5  # for answers that are on their way; runs have their own
STUCK_S = 2.0  # who has not read for so long when the daemon ends is not waited for
MAX_MESSAGE_BYTES = 256 * 1024  # of a page's WebSocket
HEAD_BYTES = 64 * 1024
WILDCARDS = ("", "0.0.0.0", "::")


class Address(Record):
    """Where to listen and what to be called."""

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
                f"{self.host or 'An empty host'} can be reached from other machines: whoever has the token can run "
                "agents here.",
                hint="Add --allow-remote if you mean it, and put TLS in front of it; or leave --host out.",
            )

    def url(self, port: int, token: str) -> str:
        """What a person opens."""
        name = self.host
        if self.host in WILDCARDS:
            name = next(iter(self.allow_hosts), "127.0.0.1")
        shown = f"[{name}]" if ":" in name else name
        return f"http://{shown}:{port}/?token={token}"


def bound(address: Address, *, new_token: bool = False) -> socket.socket:
    """A listening place. Raises UsageError with one clear line when there is none to be had.

    `new_token`: another token is wanted, and not made when this fails.
    """
    address.check()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.getaddrinfo(address.host or None, address.port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
        # The protocol is named because asyncio looks at it: without, it leaves Nagle's delay on, 40 ms an answer.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{address.host} is no address of this machine.", hint="Leave --host out.") from error
    try:
        if sys.platform != "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(found[0][4])
        made.listen(MOST_CONNECTIONS)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise _refused(address, error, new_token) from error
    return made


def _refused(address: Address, error: OSError, new_token: bool) -> UsageError:
    if error.errno == errno.EADDRINUSE and new_token:
        return UsageError(
            f"Port {address.port} of {address.host} is taken, perhaps by a clew serve that is running. "
            "The token is unchanged.",
            hint="End that one first; clew serve --new-token then starts with another token.",
        )
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {address.port} of {address.host} is taken, perhaps by a clew serve that is running.",
            hint="Use that one, or another port: clew serve --port 0 takes any that is free.",
        )
    if error.errno == errno.EACCES:
        return UsageError(f"Port {address.port} is not allowed for you.", hint="Use one above 1023.")
    return UsageError(f"{address.host}:{address.port} cannot be listened on: {error.strerror}.")


class Daemon(uvicorn.Server):
    """Ends as docs/http.md says: gently and with 0, at once at the second SIGINT."""

    def __init__(self, config: uvicorn.Config, app: App, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._started = started
        self._patience = Patience(self.server_state.connections)  # type: ignore[arg-type]
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(MOST_CONNECTIONS)  # `backlog` only says how many are accepted before anything else is done
        self._watching = asyncio.create_task(self._patience.run())
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody who does not read holds it up, nor is complained about."""
        loop = asyncio.get_running_loop()
        self._patience.end(loop.time(), stuck_s=STUCK_S)
        last = loop.call_later(GRACE_S - 1, self._drop_the_rest)
        await super().shutdown(sockets)
        last.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _drop_the_rest(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike the library's, which raises the signal again when all is done: the exit code would tell of a kill."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._told, each)
        try:
            yield
        finally:
            # From here on the runs are being stopped; a person who does not want to wait still can.
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            loop.add_signal_handler(signal.SIGINT, os._exit, Cancelled.exit_code)

    def _told(self, which: int) -> None:
        if self.should_exit and which == signal.SIGINT:
            os._exit(Cancelled.exit_code)
        self._app.shared.closing.set()
        self.should_exit = True


async def serve(
    client: Client,
    address: Address,
    listening: socket.socket,
    secret: Secret,
    *,
    roots: Sequence[str | Path] = (),
    tell: Callable[[str, str], None],
) -> None:
    """Serves until a signal comes. `tell` gets two addresses once it answers: with the token, with an invitation."""
    port = int(listening.getsockname()[1])
    hosts = tuple(name.lower() for name in (address.host, *address.allow_hosts) if name)
    doors = Doors(secret, port, hosts, remote=not address.is_loopback)
    invitation = Invitation(expires_at=time.monotonic() + INVITATION_S)
    app = App(client, doors, STATIC, roots, invitation)
    config = configured(app.asgi)

    def started() -> None:
        tell(address.url(port, secret.token), address.url(port, invitation.code))

    async with app.running(), working(client, work_of(client)):
        with announced(client.home, port):
            await Daemon(config, app, started).serve(sockets=[listening])


def configured(asgi: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        asgi,
        http=Connection,
        ws=Socket,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # guards.py has its own, by route: an address may hold the token
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        backlog=MOST_ACCEPTED,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


def set_up_logs(*, verbose: bool) -> None:
    """Lines on stderr. The server library's own lines hold addresses, so it may only complain."""
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)
    logging.getLogger("clew.server").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
