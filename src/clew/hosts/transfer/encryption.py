"""Encryption of exported files, in the age format: whoever has `age` can open them without Clew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clew.errors import UsageError

HEADER = b"age-encryption.org/v1\n"
PASSPHRASE_STANZA = b"-> scrypt "
HEADER_MOST = 1024**2
WORK_MOST = 20  # a doubling each: 20 takes a gigabyte and some seconds, and age itself writes 18

# age times a small piece of that work and refuses what would take 16 s and more: on a busy machine that comes out wrong
# by as much, so it is asked again. What is too much for us is refused before.
EXCESSIVE, TRIES = "Excessive work", 30
_WORK = re.compile(rb"^-> scrypt \S+ ([0-9]{1,9})$", re.MULTILINE)


class NotOpened(UsageError):
    """Not the passphrase, or damaged."""


def is_sealed(raw: bytes) -> bool:
    return raw.startswith(HEADER)


def wants_passphrase(raw: bytes) -> bool:
    """Raises UsageError for one that ends before it says how it was encrypted."""
    if b"\n---" not in raw[:HEADER_MOST]:
        raise UsageError("The file is damaged: its encrypted part is missing.", hint="Export the thread again.")
    return raw[len(HEADER) :].startswith(PASSPHRASE_STANZA)


def seal_with(passphrase: str, raw: bytes) -> bytes:
    import pyrage

    return bytes(pyrage.passphrase.encrypt(raw, passphrase))


def seal_for(recipients: Sequence[str], raw: bytes) -> bytes:
    """For the holders of these keys: `age1…`, or an SSH public key."""
    import pyrage

    return bytes(pyrage.encrypt(raw, [_recipient(key) for key in recipients]))


def check_recipients(recipients: Sequence[str]) -> None:
    """Raises UsageError. Before anything is read or written."""
    for key in recipients:
        _recipient(key)


def open_with(passphrase: str, raw: bytes) -> bytes:
    import pyrage

    if any(int(work) > WORK_MOST for work in _WORK.findall(raw[:HEADER_MOST])):
        raise UsageError(
            "The file wants far more work of whoever opens it than age does.",
            hint="It is not as Clew writes them: ask whoever made it, or open it with age first.",
        )
    for _ in range(TRIES):
        try:
            return bytes(pyrage.passphrase.decrypt(raw, passphrase))
        except pyrage.DecryptError as error:
            if EXCESSIVE not in str(error):
                raise NotOpened(
                    "The passphrase does not open the file, or the file is damaged.",
                    hint="Give the passphrase that it was exported with.",
                ) from error
    raise UsageError("This machine is too slow or too busy now to open the file.", hint="Try again in a while.")


def open_as(identities: str, raw: bytes) -> bytes:
    """`identities` is the text of an age identity file, or an SSH private key."""
    import pyrage

    try:
        return bytes(pyrage.decrypt(raw, _identities(identities)))
    except pyrage.DecryptError as error:
        raise UsageError(
            "The identity does not open the file, or the file is damaged.",
            hint="Give the identity of one of the recipients that it was exported for.",
        ) from error


def _recipient(key: str) -> Any:
    import pyrage

    kind = pyrage.ssh if key.startswith("ssh-") else pyrage.x25519
    try:
        return kind.Recipient.from_str(key)
    except (pyrage.RecipientError, ValueError) as error:
        raise UsageError(
            f"{key[:80]} is no key that a file can be encrypted for.",
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
        hint="age-keygen writes one; an SSH private key without a passphrase will do, too.",
    )
