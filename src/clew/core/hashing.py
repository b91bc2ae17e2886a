"""The hash for digests that are not secret, of CPython's own module: `hashlib` also loads OpenSSL, which takes 2 ms."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # a Python that has it elsewhere
    from hashlib import blake2b as blake2b
