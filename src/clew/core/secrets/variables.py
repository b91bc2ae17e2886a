"""The environment variables that hold Clew's own secrets: of webhooks, of forges' APIs, of exports."""

from __future__ import annotations


def is_own_secret(name: str) -> bool:
    return name.startswith("CLEW_") and name.endswith(("_SECRET", "_TOKEN", "_PASSPHRASE"))
