"""The daemon's token, in a file that only the owner can read, kept over restarts; and a browser's cookie and key.

The cookie is enough for the page's files; the API needs the cookie and the key. A browser sends the cookie to every
server of the same host name, whatever its port (also to a dev server that an agent started), so the cookie alone must
not be enough; the key stays with the page's own origin. Both are derived from the token, so they become invalid when it
changes, and neither can be used as a Bearer token.
"""

from __future__ import annotations

import hmac
import re
import secrets
from pathlib import Path

from clew.api.files import make_private, write_whole
from clew.core.record import Record
from clew.core.secrets.daemon_token import TOKEN_FILE, cookie_of, page_key_of
from clew.errors import StoreError

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,128}\Z")


class Credentials(Record):
    """The token, and the cookie and key that are derived from it. They are compared in constant time, and its repr does
    not show them."""

    token: str

    def __repr__(self) -> str:
        return "Credentials(…)"

    @property
    def cookie(self) -> str:
        return cookie_of(self.token)

    @property
    def page_key(self) -> str:
        return page_key_of(self.token)

    def is_token(self, given: str) -> bool:
        return _same(given, self.token)

    def is_cookie(self, given: str) -> bool:
        return _same(given, self.cookie)

    def is_page_key(self, given: str) -> bool:
        return _same(given, self.page_key)


class OneTimeCode:
    """Logs a browser in once, within a short time. `--open` uses it because other users of the machine can read the
    address on the browser's command line."""

    def __init__(self, *, expires_at: float) -> None:
        self.code = secrets.token_urlsafe(TOKEN_BYTES)
        self._expires_at = expires_at
        self._is_open = True

    def take(self, given: str, now: float) -> bool:
        accepted = self._is_open and now < self._expires_at and _same(given, self.code)
        self._is_open = self._is_open and not accepted
        return accepted


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def load_token(home: Path) -> Credentials:
    """The token of this home; creates one if there is none."""
    path = home / TOKEN_FILE
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError:
        return _create(path)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    if not _TOKEN.match(token):
        return new_token(home)  # the file was truncated or edited: a weak token must not be used
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _unreadable(path, error) from error
    return Credentials(token)


def new_token(home: Path) -> Credentials:
    """Replaces the token: links and cookies made with the old one stop working when the daemon starts again."""
    path = home / TOKEN_FILE
    _replace(path)
    return _read(path)


def _create(path: Path) -> Credentials:
    """If two daemons start at once, the first one that writes its file wins, and both read that file."""
    try:
        make_private(path.parent)
        write_whole(path, _new_content(), replace=False)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links, or one that cannot be written
        _replace(path)
    return _read(path)


def _replace(path: Path) -> None:
    try:
        make_private(path.parent)
        write_whole(path, _new_content())
    except OSError as error:
        raise _unreadable(path, error) from error


def _new_content() -> bytes:
    return f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode()


def _read(path: Path) -> Credentials:
    """Raises StoreError, also for a dangling symbolic link, which exists and cannot be read."""
    try:
        return Credentials(path.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> StoreError:
    reason = error.strerror if isinstance(error, OSError) else "it is not text"
    return StoreError(f"The token file {path} cannot be used: {reason}.", kind="unreachable", hint="Fix or remove it.")
