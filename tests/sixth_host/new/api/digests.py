"""Digests for surfaces."""

from __future__ import annotations

from clew.core.digests import Digest


def body(digest: Digest) -> dict[str, str]:
    return {"id": digest.id, "about": digest.about, "text": digest.text}
