"""The daemon's token: the name of its file, and the cookie and key for a browser, which are derived from it."""

from __future__ import annotations

import hashlib
import hmac

TOKEN_FILE = "token"


def cookie_of(token: str) -> str:
    return hmac.new(token.encode(), b"clew page", hashlib.sha256).hexdigest()


def page_key_of(token: str) -> str:
    return hmac.new(token.encode(), b"clew page key", hashlib.sha256).hexdigest()
