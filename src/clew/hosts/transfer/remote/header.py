"""The header of a remote: its id and its keys; and how its objects are named, compressed and encrypted.

    {"format": "clew-remote", "version": 1, "id": …}            not encrypted
    {…, "key": …, "identity": "AGE-SECRET-KEY-1…"}              encrypted in the age format

Rules
1. A remote is encrypted from its first push on, or never.
2. An encrypted remote reveals only how many objects it has, their sizes and their times: names are keyed digests. The
   keys are made once. Whoever decrypts the header with `age` can decrypt the rest with the identity in it.
3. Objects are compressed, and then encrypted.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts.transfer import encryption
from clew.hosts.transfer.remote.chunks import THREAD_KEY, damaged, newer, parsed, sha256
from clew.store.transfer.codec import as_json

FORMAT, VERSION = "clew-remote", 1


class RemoteKeys(Record):
    """What the user gave to decrypt a remote, or to encrypt a new one. Without any, a new remote is not encrypted."""

    passphrase: Callable[[bool], str] | None = None  # called when it is needed; with True for a new passphrase
    recipients: tuple[str, ...] = ()
    identity: str | None = None  # the content of an identity file
    must_be_needed: bool = False  # True: refuse a remote that is not encrypted, since the keys are for another one


class RemoteHeader(Record):
    id: str
    encoding: ObjectEncoding
    unwritten: bytes | None = None  # the header of a new remote, which the first push writes


class ObjectEncoding:
    """How objects are named and written. Without keys they are compressed only."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._key = bytes.fromhex(header["key"]) if "key" in header else None
        self._identity: Any = None
        if self._key is not None:
            import pyrage

            try:
                self._identity = pyrage.x25519.Identity.from_str(header["identity"])
            except pyrage.IdentityError as error:
                raise damaged("its header") from error

    @property
    def is_encrypted(self) -> bool:
        return self._key is not None

    def name(self, content: bytes) -> str:
        return sha256(content) if self._key is None else hmac.digest(self._key, b"piece\0" + content, "sha256").hex()

    def thread_key(self, thread_id: str) -> str:
        if not THREAD_KEY.match(thread_id):
            raise damaged("the id of a thread")
        if self._key is None:
            return thread_id
        return hmac.digest(self._key, b"thread\0" + thread_id.encode(), "sha256").hex()

    def encoded(self, content: bytes) -> bytes:
        compressed = zlib.compress(content)
        if self._identity is None:
            return compressed
        import pyrage

        return bytes(pyrage.encrypt(compressed, [self._identity.to_public()]))

    def decoded(self, raw: bytes, most_bytes: int, what: str) -> bytes:
        """Decrypts and decompresses an object. Raises UsageError, which says that `what` is damaged."""
        if self._identity is not None:
            import pyrage

            try:
                raw = bytes(pyrage.decrypt(raw, [self._identity]))
            except pyrage.DecryptError as error:
                raise damaged(what) from error
        decompressing = zlib.decompressobj()
        try:
            content = decompressing.decompress(raw, most_bytes + 1)
        except zlib.error as error:
            raise damaged(what) from error
        if not decompressing.eof or decompressing.unused_data or len(content) > most_bytes:
            raise damaged(what)
        return content


async def read_header(raw: bytes, keys: RemoteKeys, url: str, *, to_push: bool) -> RemoteHeader:
    """Reads the header. Raises UsageError when these keys do not decrypt it, or are not needed."""
    is_encrypted = encryption.is_encrypted(raw)
    if to_push:
        _check_keys(url, keys, is_encrypted=is_encrypted)
    if keys.must_be_needed and not is_encrypted:
        raise UsageError(
            f"{url} is not encrypted.", hint="To pull from it, leave out --passphrase-file and --identity."
        )
    header = parsed(await _decrypted(raw, keys) if is_encrypted else raw, "its header")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise damaged("its header")
    version = header.get("version")
    if type(version) is int and version > VERSION:
        raise newer(version, VERSION)
    if version != VERSION or not isinstance(header.get("id"), str) or is_encrypted != ("key" in header):
        raise damaged("its header")
    try:
        return RemoteHeader(header["id"], ObjectEncoding(header))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged("its header") from error


async def new_header(keys: RemoteKeys, url: str) -> RemoteHeader:
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "id": secrets.token_hex(16)}
    if keys.passphrase is None and not keys.recipients:
        if keys.identity is not None:
            raise UsageError(f"There is nothing at {url} yet.", hint="--recipient says for whom to encrypt it.")
        return RemoteHeader(header["id"], ObjectEncoding(header), as_json(header))
    import pyrage

    header |= {"key": secrets.token_hex(32), "identity": str(pyrage.x25519.Identity.generate())}
    raw = as_json(header)
    encrypted = (
        await asyncio.to_thread(encryption.encrypt_with, keys.passphrase(True), raw)
        if keys.passphrase is not None
        else encryption.encrypt_for(keys.recipients, raw)
    )
    return RemoteHeader(header["id"], ObjectEncoding(header), encrypted)


def _check_keys(url: str, keys: RemoteKeys, *, is_encrypted: bool) -> None:
    if is_encrypted and keys.identity is None and keys.passphrase is None:
        hint = "Give --encrypt and its passphrase, or --identity for a key of yours."
        raise UsageError(f"{url} is encrypted, and nothing is sent there unencrypted.", hint=hint)
    if not is_encrypted and (keys.identity or keys.passphrase or keys.recipients):
        raise UsageError(f"{url} is not encrypted.", hint="Encrypt to another address; this one stays as it is.")


async def _decrypted(raw: bytes, keys: RemoteKeys) -> bytes:
    if keys.identity is not None:
        return encryption.decrypt_as(keys.identity, raw)
    if not encryption.wants_passphrase(raw):
        raise UsageError("The remote is encrypted for somebody's key.", hint="Give yours with --identity.")
    if keys.passphrase is None:
        raise UsageError("The remote is encrypted.", hint="Give its passphrase.")
    given = keys.passphrase(False)
    try:
        return await asyncio.to_thread(encryption.decrypt_with, given, raw)
    except encryption.NotDecrypted as error:
        hint = "It is the one of the first push."
        raise UsageError("The passphrase does not decrypt the remote.", hint=hint) from error
