"""Who may come in: the token or its cookie, the names that the server answers to, the pages that may call it.

Pure: each check looks at a request's head and says nothing, or the refusal. `guards.py` puts them before the app, for
HTTP and WebSocket alike.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from clew.core.record import Record
from clew.server.problems import Refusal
from clew.server.token import Secret

MAX_TARGET_BYTES = 8_192
MAX_HEADER_BYTES = 32_768
MAX_HEADERS = 100
LOOPBACK_NAMES = ("localhost",)
KEY_HEADER = b"x-clew-key"
SUBPROTOCOL = "clew"  # of the WebSocket; the page offers it beside its key
KEY_PROTOCOL = "clew-key."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s\[\]:@/?#\\]+))(?::(?P<port>[0-9]{0,5}))?\Z")
OWN_FETCHES = ("same-origin", "none")  # of Sec-Fetch-Site: this page, or a person who typed the address

Headers = Sequence[tuple[bytes, bytes]]


class Doors(Record):
    """What this server lets in."""

    secret: Secret
    port: int
    hosts: tuple[str, ...] = ()  # names beside the loopback's own
    remote: bool = False  # bound beyond the loopback: any address literal may be ours

    @property
    def cookie_name(self) -> str:
        """By port, so that two daemons on one machine do not throw each other's pages out."""
        return f"clew-{self.port}"

    def check_size(self, raw_path: bytes, query: bytes, headers: Headers) -> None:
        if len(raw_path) + len(query) > MAX_TARGET_BYTES:
            raise Refusal(414, "The address is too long.")
        if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
            raise Refusal(431, "The headers are too large.")

    def check_host(self, headers: Headers) -> None:
        """Against DNS rebinding: a foreign name that leads to this machine is refused."""
        given = _all(headers, b"host")
        if len(given) != 1 or not self._is_ours(_host_of(given[0])):
            raise Refusal(
                421,
                "This server does not answer to that host name.",
                hint="Use the address that clew serve printed, or start it with --allow-host NAME.",
            )

    def check_origin(self, headers: Headers, *, unsafe: bool) -> None:
        """A page of another origin may neither change anything nor listen."""
        if not unsafe:
            return
        for origin in _all(headers, b"origin"):
            if not _is_same_origin(origin, _one(headers, b"host")):
                raise Refusal(403, "A page of another origin may not do this.")
        site = _one(headers, b"sec-fetch-site")
        if site and site.lower() not in OWN_FETCHES:
            raise Refusal(403, "A page of another site may not do this.")

    def is_known(self, headers: Headers, *, needs_key: bool = True) -> bool:
        """Does it bring the token, or the cookie that was made from it, and the page's key where that is needed?"""
        given = _all(headers, b"authorization")
        if len(given) == 1:
            scheme, _, token = given[0].partition(" ")
            return scheme.lower() == "bearer" and self.secret.is_token(token.strip())
        if given or (needs_key and not any(self.secret.is_page_key(key) for key in _keys(headers))):
            return False
        return any(self.secret.is_cookie(value) for value in self._cookies(headers))

    def _cookies(self, headers: Headers) -> list[str]:
        """By hand: the library gives up at the first odd pair, and other servers of this host name set odd ones."""
        pairs = [pair.partition("=") for line in _all(headers, b"cookie") for pair in line.split(";")]
        return [value.strip() for name, _, value in pairs if name.strip() == self.cookie_name]

    def _is_ours(self, host: str) -> bool:
        if host in LOOPBACK_NAMES or host in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self.remote  # nobody can make another page's name be an address


def unauthorized() -> Refusal:
    return Refusal(
        401,
        "This needs the daemon's token.",
        hint="Send it as Authorization: Bearer TOKEN; clew serve prints it in its address.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _keys(headers: Headers) -> list[str]:
    """A page cannot set headers of its own on a WebSocket, but it can name subprotocols."""
    named = [name.strip() for line in _all(headers, b"sec-websocket-protocol") for name in line.split(",")]
    return [
        *_all(headers, KEY_HEADER),
        *(name.removeprefix(KEY_PROTOCOL) for name in named if name.startswith(KEY_PROTOCOL)),
    ]


def _host_of(authority: str) -> str:
    """The name without port and brackets, in lower case; "" for nonsense."""
    found = AUTHORITY.match(authority.strip().lower())
    if found is None or int(found["port"] or 0) > 65_535:
        return ""
    return (found["name"] or found["address"]).rstrip(".")


def _is_same_origin(origin: str, host: str) -> bool:
    """`null`, another name, another port: all foreign."""
    scheme, _, authority = origin.strip().lower().partition("://")
    if scheme not in ("http", "https") or not authority:
        return False
    default = ":443" if scheme == "https" else ":80"
    return authority.removesuffix(default) == host.strip().lower().removesuffix(default)


def _all(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _one(headers: Headers, name: bytes) -> str:
    return next(iter(_all(headers, name)), "")
