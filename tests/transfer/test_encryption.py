"""Decrypting what age has encrypted with a passphrase."""

from __future__ import annotations

import re

import pyrage
import pytest

from clew.errors import UsageError
from clew.hosts.transfer import encryption

SEALED = encryption.encrypt_with("correct horse", b"content")
# The error of age for work that would take longer than it allows.
BUSY = "Excessive work parameter for passphrase.\nDecryption would take around \u206832\u2069 seconds."


def test_work_that_age_overestimates_on_a_busy_machine_is_decrypted_on_a_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = [pyrage.DecryptError(BUSY)] * 3
    decrypt = pyrage.passphrase.decrypt

    def busy(raw: bytes, passphrase: str) -> bytes:
        if refused:
            raise refused.pop()
        return bytes(decrypt(raw, passphrase))

    monkeypatch.setattr(pyrage.passphrase, "decrypt", busy)
    assert encryption.decrypt_with("correct horse", SEALED) == b"content"
    with pytest.raises(encryption.NotDecrypted, match="does not decrypt the file"):
        encryption.decrypt_with("battery staple", SEALED)
    refused += [pyrage.DecryptError(BUSY)] * encryption.TRIES
    with pytest.raises(UsageError, match="too busy to decrypt the file now") as caught:
        encryption.decrypt_with("correct horse", SEALED)
    assert not isinstance(caught.value, encryption.NotDecrypted), "the passphrase may be right"


def test_excessive_work_is_reported_as_such() -> None:
    with pytest.raises(pyrage.DecryptError, match=encryption.EXCESSIVE):
        pyrage.passphrase.decrypt(re.sub(rb"(scrypt \S+ )\d+", rb"\g<1>40", SEALED), "correct horse")
    with pytest.raises(UsageError, match="far more work"):
        encryption.decrypt_with("correct horse", re.sub(rb"(scrypt \S+ )\d+", rb"\g<1>40", SEALED))
