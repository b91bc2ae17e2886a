"""The connections of the scripted model: a loopback server that can cut them, and the wait of a hanging answer."""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """One thread for each connection, and every connection can be cut."""

    daemon_threads = True
    request_queue_size = 128  # a test may start many agents at once

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._emptied = threading.Condition()
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._emptied:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._emptied:
            self._open.discard(request)
            self._emptied.notify_all()

    def cut_connections(self, timeout_s: float) -> None:
        """Ends every connection and waits until its thread has closed it, so that no socket outlives the API."""
        with self._emptied:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._emptied.wait_for(lambda: not self._open, timeout_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # agents get killed: a disconnect is not an error
            super().handle_error(request, client_address)


class Hold:
    """One hanging answer: a wait that ends on release, or when the client disconnects. It does not poll."""

    def __init__(self) -> None:
        self._waiter, self._waker = socket.socketpair()

    def release(self) -> None:
        self._waker.send(b"!")

    def wait(self, connection: socket.socket) -> bool:
        """True when released, False when the client has disconnected."""
        with selectors.DefaultSelector() as watched:
            watched.register(self._waiter, selectors.EVENT_READ)
            watched.register(connection, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in watched.select()]
                if self._waiter in ready:
                    return True
                if not connection.recv(1, socket.MSG_PEEK):
                    return False
                watched.unregister(connection)  # the client has sent more data: it is still connected

    def close(self) -> None:
        self._waiter.close()
        self._waker.close()
