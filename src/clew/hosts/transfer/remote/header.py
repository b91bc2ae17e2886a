"""The head of a remote: what it is, and the keys to it; and how its objects are named and written.

    {"format": "clew-remote", "version": 1, "id": …}                          in the clear
    {…, "key": …, "identity": "AGE-SECRET-KEY-1…"}                            in the age format, for who may open it

Rules
1. A remote is in the clear or encrypted from its first push on, and never both.
2. Of an encrypted one nothing can be read off but sizes and times: names are keyed digests, those of threads as well.
   The keys are made once. Whoever opens the head with `age` can open the rest with the identity in it.
3. What is written is compressed, and then encrypted.
"""

from __future__ import annotations

import hmac
import secrets
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts import sealing
from clew.hosts.portable_file import as_json
from clew.hosts.portable_pieces import KEY, damaged, newer, parsed, sha256

FORMAT, VERSION = "clew-remote", 1


class Lock(Record):
    """How a remote is opened, or closed when there is none yet. Nothing of it: it is in the clear."""

    passphrase: Callable[[bool], str] | None = None  # asked for it when it is needed; True: it is a new one
    recipients: tuple[str, ...] = ()
    identity: str | None = None  # the text of a file
    must_be_needed: bool = False  # a remote that is in the clear is none of those that it is for


class Head(Record):
    id: str
    codec: Codec
    unwritten: bytes | None = None  # of a remote that is new


class Codec:
    """In the clear without keys."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._key = bytes.fromhex(head["key"]) if "key" in head else None
        self._identity: Any = None
        if self._key is not None:
            import pyrage

            try:
                self._identity = pyrage.x25519.Identity.from_str(head["identity"])
            except pyrage.IdentityError as error:
                raise damaged("its head") from error

    @property
    def is_closed(self) -> bool:
        return self._key is not None

    def name(self, content: bytes) -> str:
        return sha256(content) if self._key is None else hmac.digest(self._key, b"piece\0" + content, "sha256").hex()

    def thread_key(self, thread_id: str) -> str:
        if not KEY.match(thread_id):
            raise damaged("the id of a thread")
        if self._key is None:
            return thread_id
        return hmac.digest(self._key, b"thread\0" + thread_id.encode(), "sha256").hex()

    def encoded(self, content: bytes) -> bytes:
        packed = zlib.compress(content)
        if self._identity is None:
            return packed
        import pyrage

        return bytes(pyrage.encrypt(packed, [self._identity.to_public()]))

    def decoded(self, raw: bytes, most: int, what: str) -> bytes:
        if self._identity is not None:
            import pyrage

            try:
                raw = bytes(pyrage.decrypt(raw, [self._identity]))
            except pyrage.DecryptError as error:
                raise damaged(what) from error
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(raw, most + 1)
        except zlib.error as error:
            raise damaged(what) from error
        if not unpacking.eof or unpacking.unused_data or len(content) > most:
            raise damaged(what)
        return content


def read_head(raw: bytes, lock: Lock, url: str, *, to_push: bool) -> Head:
    """Raises UsageError when it cannot be opened so."""
    is_closed = sealing.is_sealed(raw)
    if to_push:
        _check_lock(url, lock, is_closed=is_closed)
    if lock.must_be_needed and not is_closed:
        raise UsageError(
            f"{url} is not encrypted.", hint="Without --passphrase-file and --identity it is pulled as it is."
        )
    head = parsed(_opened(raw, lock) if is_closed else raw, "its head")
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise damaged("its head")
    version = head.get("version")
    if type(version) is int and version > VERSION:
        raise newer(version, VERSION)
    if version != VERSION or not isinstance(head.get("id"), str) or is_closed != ("key" in head):
        raise damaged("its head")
    try:
        return Head(head["id"], Codec(head))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged("its head") from error


def new_head(lock: Lock, url: str) -> Head:
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "id": secrets.token_hex(16)}
    if lock.passphrase is None and not lock.recipients:
        if lock.identity is not None:
            raise UsageError(f"There is nothing at {url} yet.", hint="--recipient says for whom to encrypt it.")
        return Head(head["id"], Codec(head), as_json(head))
    import pyrage

    head |= {"key": secrets.token_hex(32), "identity": str(pyrage.x25519.Identity.generate())}
    raw = as_json(head)
    closed = (
        sealing.seal_with(lock.passphrase(True), raw)
        if lock.passphrase is not None
        else sealing.seal_for(lock.recipients, raw)
    )
    return Head(head["id"], Codec(head), closed)


def _check_lock(url: str, lock: Lock, *, is_closed: bool) -> None:
    if is_closed and lock.identity is None and lock.passphrase is None:
        hint = "Give --encrypt and its passphrase, or --identity for a key of yours."
        raise UsageError(f"{url} is encrypted, and nothing is sent there in the clear.", hint=hint)
    if not is_closed and (lock.identity or lock.passphrase or lock.recipients):
        raise UsageError(f"{url} is not encrypted.", hint="Encrypt to another address; this one stays as it is.")


def _opened(raw: bytes, lock: Lock) -> bytes:
    if lock.identity is not None:
        return sealing.open_as(lock.identity, raw)
    if not sealing.wants_passphrase(raw):
        raise UsageError("The remote is encrypted for somebody's key.", hint="Give yours with --identity.")
    if lock.passphrase is None:
        raise UsageError("The remote is encrypted.", hint="Give its passphrase.")
    given = lock.passphrase(False)
    try:
        return sealing.open_with(given, raw)
    except sealing.NotOpened as error:
        raise UsageError("The passphrase does not open the remote.", hint="It is the one of its first push.") from error
