"""The secrets of this machine that Clew knows. Nothing that Clew publishes by itself may contain one of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clew.core.secrets.daemon_token import TOKEN_FILE, cookie_of, page_key_of
from clew.core.secrets.leaks import MIN_CHARS
from clew.core.secrets.redaction import find_secrets, secret_values
from clew.core.secrets.variables import is_own_secret


def own_secrets(environ: Mapping[str, str], home: Path, settings: Path | None = None) -> dict[str, str]:
    """A mapping from each secret to its name: from the environment, the user's settings, and the daemon's token."""
    found = secret_values(environ.items(), os.path.lexists)
    for name, value in environ.items():  # Clew's own secrets count even when they look like ordinary words
        if is_own_secret(name) and len(value) >= MIN_CHARS:
            found[value] = name
    text = _read(settings) if settings is not None else ""
    for value in secret_values([("clew.toml", text)], os.path.lexists):
        found.setdefault(value, "a secret of clew.toml")
    for each in find_secrets(text, doubtful=True):
        found.setdefault(text[each.start : each.end], "a secret of clew.toml")
    if token := _read(home / TOKEN_FILE).strip():
        found |= {
            token: "the daemon's token",
            cookie_of(token): "the page's cookie",
            page_key_of(token): "the page's key",
        }
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
