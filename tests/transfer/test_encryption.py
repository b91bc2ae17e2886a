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


@pytest.mark.parametrize(
    "key",
    [
        "AGE-SECRET-KEY-1QQQQ",
        " age-secret-key-1qqqq",
        "AGE-SECRET-KEY-PQ-1QQQQ",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n1QQQQ",
        "ssh-ed25519 -----begin private key-----1QQQQ",
    ],
)
def test_a_secret_key_as_a_recipient_is_not_repeated(key: str) -> None:
    with pytest.raises(UsageError, match="A secret key was given as a recipient") as caught:
        encryption.check_recipients([key])
    assert "age1" in str(caught.value.hint)
    assert "1qqqq" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}".lower()
