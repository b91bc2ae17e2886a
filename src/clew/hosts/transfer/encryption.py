"""Encryption of exports and remotes, in the age format: `age` decrypts them without Clew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clew.errors import UsageError

HEADER = b"age-encryption.org/v1\n"
PASSPHRASE_STANZA = b"-> scrypt "
MAX_HEADER_BYTES = 1024**2
MAX_WORK_FACTOR = 20  # each step doubles the work: 20 takes a gigabyte and some seconds, and age itself writes 18

# age estimates the time from a small part of the work, and refuses what would take 16 s or more. On a busy machine the
# estimate is far too high, so decryption is retried. A work factor that is really too large was refused before.
EXCESSIVE, TRIES = "Excessive work", 30
_WORK_FACTOR = re.compile(rb"^-> scrypt \S+ ([0-9]{1,9})$", re.MULTILINE)


class NotDecrypted(UsageError):
    """The passphrase is wrong, or the content is damaged."""


def is_encrypted(raw: bytes) -> bool:
    return raw.startswith(HEADER)


def wants_passphrase(raw: bytes) -> bool:
    """Whether the file needs a passphrase. Raises UsageError for a file that ends before its header does."""
    if b"\n---" not in raw[:MAX_HEADER_BYTES]:
        raise UsageError("The file is damaged: its encrypted part is missing.", hint="Export the thread again.")
    return raw[len(HEADER) :].startswith(PASSPHRASE_STANZA)


def encrypt_with(passphrase: str, raw: bytes) -> bytes:
    import pyrage

    return bytes(pyrage.passphrase.encrypt(raw, passphrase))


def encrypt_for(recipients: Sequence[str], raw: bytes) -> bytes:
    """Encrypts for the holders of these keys: `age1…`, or SSH public keys."""
    import pyrage

    return bytes(pyrage.encrypt(raw, [_recipient(key) for key in recipients]))


def check_recipients(recipients: Sequence[str]) -> None:
    """Raises UsageError for an invalid key. Called before anything is read or written."""
    for key in recipients:
        _recipient(key)


def decrypt_with(passphrase: str, raw: bytes) -> bytes:
    import pyrage

    if any(int(factor) > MAX_WORK_FACTOR for factor in _WORK_FACTOR.findall(raw[:MAX_HEADER_BYTES])):
        raise UsageError(
            "To decrypt the file takes far more work than Clew accepts.",
            hint="Clew does not write such files: ask its author, or decrypt it with age first.",
        )
    for _ in range(TRIES):
        try:
            return bytes(pyrage.passphrase.decrypt(raw, passphrase))
        except pyrage.DecryptError as error:
            if EXCESSIVE not in str(error):
                raise NotDecrypted(
                    "The passphrase does not decrypt the file, or the file is damaged.",
                    hint="Give the passphrase that it was exported with.",
                ) from error
    raise UsageError("This machine is too busy to decrypt the file now.", hint="Try again later.")


def decrypt_as(identities: str, raw: bytes) -> bytes:
    """Decrypts with `identities`: the text of an age identity file, or an SSH private key."""
    import pyrage

    try:
        return bytes(pyrage.decrypt(raw, _identities(identities)))
    except pyrage.DecryptError as error:
        raise UsageError(
            "The identity does not decrypt the file, or the file is damaged.",
            hint="Give the identity of one of the recipients for whom it was exported.",
        ) from error


def _recipient(key: str) -> Any:
    import pyrage

    if key.strip().upper().startswith("AGE-SECRET-KEY") or "PRIVATE KEY" in key.upper():
        raise UsageError(  # without the key: errors are shown and logged
            "A secret key was given as a recipient.",
            hint="Give the public key instead: it looks like age1… (age-keygen -y shows it), or is an SSH public key.",
        )
    kind = pyrage.ssh if key.startswith("ssh-") else pyrage.x25519
    try:
        return kind.Recipient.from_str(key)
    except (pyrage.RecipientError, ValueError) as error:
        raise UsageError(
            f"{key[:80]} is not a key for which a file can be encrypted.",
            hint="It looks like age1… (age-keygen makes one), or is an SSH public key.",
        ) from error


def _identities(text: str) -> list[Any]:
    import pyrage

    try:
        if text.lstrip().startswith("-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(text.encode())]
        keys = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if keys:
            return [pyrage.x25519.Identity.from_str(key) for key in keys]
    except (pyrage.IdentityError, ValueError):
        pass
    raise UsageError(
        "The identity file holds no key that Clew can use.",
        hint="age-keygen writes one; an SSH private key without a passphrase works, too.",
    )
