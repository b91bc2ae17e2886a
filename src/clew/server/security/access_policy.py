"""Who may call the server: clients with the token or its cookie, under the server's own host names, from its own pages.

The checks are pure functions of a request's head. Each raises RequestRefused or does nothing. `guards.py` applies them
before the app, for HTTP and WebSocket alike.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from clew.core.record import Record
from clew.server.models.problems import RequestRefused
from clew.server.security.token import Credentials

MAX_TARGET_BYTES = 8_192
MAX_HEADER_BYTES = 32_768
MAX_HEADERS = 100
LOOPBACK_NAMES = ("localhost",)
KEY_HEADER = b"x-clew-key"
SUBPROTOCOL = "clew"  # for the WebSocket; the page offers it together with its key
KEY_PROTOCOL = "clew-key."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s\[\]:@/?#\\]+))(?::(?P<port>[0-9]{0,5}))?\Z")
OWN_FETCH_SITES = ("same-origin", "none")  # values of Sec-Fetch-Site: this page, or a person who typed the address

Headers = Sequence[tuple[bytes, bytes]]


class AccessPolicy(Record):
    credentials: Credentials
    port: int
    hosts: tuple[str, ...] = ()  # names of this server besides those of the loopback
    remote: bool = False  # the server listens on more than the loopback, so any IP address may be its own

    @property
    def cookie_name(self) -> str:
        """It contains the port, so that two daemons on one machine do not log each other's pages out."""
        return f"clew-{self.port}"

    def check_size(self, raw_path: bytes, query: bytes, headers: Headers) -> None:
        if len(raw_path) + len(query) > MAX_TARGET_BYTES:
            raise RequestRefused(414, "The address is too long.")
        if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
            raise RequestRefused(431, "The headers are too large.")

    def check_host(self, headers: Headers) -> None:
        """Prevents DNS rebinding: a foreign name that resolves to this machine is refused."""
        hosts = _all(headers, b"host")
        if len(hosts) != 1 or not self._is_own_host(_host_of(hosts[0])):
            raise RequestRefused(
                421,
                "This server does not answer to that host name.",
                hint="Use the address that clew serve printed, or start it with --allow-host NAME.",
            )

    def check_origin(self, headers: Headers, *, unsafe: bool) -> None:
        """A page of another origin may neither change anything nor follow events."""
        if not unsafe:
            return
        for origin in _all(headers, b"origin"):
            if not _is_same_origin(origin, _one(headers, b"host")):
                raise RequestRefused(403, "A page of another origin may not do this.")
        site = _one(headers, b"sec-fetch-site")
        if site and site.lower() not in OWN_FETCH_SITES:
            raise RequestRefused(403, "A page of another site may not do this.")

    def is_authenticated(self, headers: Headers, *, needs_key: bool = True) -> bool:
        """Whether the request has the token, or its cookie and, where needed, the page's key."""
        authorization = _all(headers, b"authorization")
        if len(authorization) == 1:
            scheme, _, token = authorization[0].partition(" ")
            return scheme.lower() == "bearer" and self.credentials.is_token(token.strip())
        if authorization or (needs_key and not any(self.credentials.is_page_key(key) for key in _keys(headers))):
            return False
        return any(self.credentials.is_cookie(value) for value in self._cookies(headers))

    def _cookies(self, headers: Headers) -> list[str]:
        """Parsed by hand: the standard library stops at the first malformed pair, and other servers of this host name
        may have set one."""
        pairs = [pair.partition("=") for line in _all(headers, b"cookie") for pair in line.split(";")]
        return [value.strip() for name, _, value in pairs if name.strip() == self.cookie_name]

    def _is_own_host(self, host: str) -> bool:
        if host in LOOPBACK_NAMES or host in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self.remote  # DNS rebinding needs a name, so an IP address is safe


def unauthorized() -> RequestRefused:
    return RequestRefused(
        401,
        "This request needs the daemon's token.",
        hint="Send it as Authorization: Bearer TOKEN; clew serve prints it in its address.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _keys(headers: Headers) -> list[str]:
    """A page cannot set headers of its own on a WebSocket, so it sends the key as the name of a subprotocol."""
    protocols = [name.strip() for line in _all(headers, b"sec-websocket-protocol") for name in line.split(",")]
    return [
        *_all(headers, KEY_HEADER),
        *(name.removeprefix(KEY_PROTOCOL) for name in protocols if name.startswith(KEY_PROTOCOL)),
    ]


def _host_of(authority: str) -> str:
    """The name without port and brackets, in lower case; "" if it is malformed."""
    found = AUTHORITY.match(authority.strip().lower())
    if found is None or int(found["port"] or 0) > 65_535:
        return ""
    return (found["name"] or found["address"]).rstrip(".")


def _is_same_origin(origin: str, host: str) -> bool:
    """`null`, another name and another port are other origins."""
    scheme, _, authority = origin.strip().lower().partition("://")
    if scheme not in ("http", "https") or not authority:
        return False
    default = ":443" if scheme == "https" else ":80"
    return authority.removesuffix(default) == host.strip().lower().removesuffix(default)


def _all(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _one(headers: Headers, name: bytes) -> str:
    return next(iter(_all(headers, name)), "")
