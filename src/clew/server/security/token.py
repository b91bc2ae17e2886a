"""The daemon's token: a file that only the owner reads, kept over restarts; and the two halves that a browser gets.

The cookie opens the page, the cookie and the key together open the API. A browser sends the cookie to every server of
the same host name, whatever its port (an agent's own dev server too), so it must not be enough; the key stays with the
page's own origin. Both are made from the token, so that they die with it, and neither can be used as a Bearer token.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from pathlib import Path

from clew.core.record import Record
from clew.core.tokens import TOKEN_FILE, cookie_of, page_key_of
from clew.errors import StoreError
from clew.private_folder import make_private

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,128}\Z")


class Secret(Record):
    """The token and what is made from it. Compares in constant time; never shows itself."""

    token: str

    def __repr__(self) -> str:
        return "Secret(…)"

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


class Invitation:
    """Opens the page once, soon: for a browser that is started with the address on its command line, where others on
    the machine can read it."""

    def __init__(self, *, expires_at: float) -> None:
        self.code = secrets.token_urlsafe(TOKEN_BYTES)
        self._expires_at = expires_at
        self._is_open = True

    def take(self, given: str, now: float) -> bool:
        taken = self._is_open and now < self._expires_at and _same(given, self.code)
        self._is_open = self._is_open and not taken
        return taken


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def load_token(home: Path) -> Secret:
    """The token of this home, made when there is none."""
    path = home / TOKEN_FILE
    try:
        held = path.read_text("ascii").strip()
    except FileNotFoundError:
        return _create(path)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    if not _TOKEN.match(held):
        return new_token(home)  # cut short by a full disk, or edited: a weak one must not stay
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _unreadable(path, error) from error
    return Secret(held)


def new_token(home: Path) -> Secret:
    """Another token: links and cookies made with the old one stop working when the daemon starts again."""
    path = home / TOKEN_FILE
    made = _write_beside(path)
    try:
        made.replace(path)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise _unreadable(path, error) from error
    return _read(path)


def _create(path: Path) -> Secret:
    """Two daemons may start at once: the first to put its file there wins, and both read that one."""
    made = _write_beside(path)
    try:
        os.link(made, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
    return _read(path)


def _read(path: Path) -> Secret:
    """What is at its place now. A link that leads nowhere is there, and cannot be read."""
    try:
        return Secret(path.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _write_beside(path: Path) -> Path:
    """A whole token in a file next to its place: nobody ever reads half of one."""
    made = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        make_private(path.parent)
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    return made


def _unreadable(path: Path, error: Exception) -> StoreError:
    reason = error.strerror if isinstance(error, OSError) else "it is not text"
    return StoreError(f"The token file {path} cannot be used: {reason}.", kind="unreachable", hint="Mend or remove it.")
