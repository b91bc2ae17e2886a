"""Opening what age has sealed with a passphrase."""

from __future__ import annotations

import re

import pyrage
import pytest

from clew.errors import UsageError
from clew.hosts import sealing

SEALED = sealing.seal_with("correct horse", b"content")
# As age says it of work that would take longer than it waits for.
BUSY = "Excessive work parameter for passphrase.\nDecryption would take around \u206832\u2069 seconds."


def test_what_age_takes_for_too_much_work_on_a_busy_machine_is_opened_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = [pyrage.DecryptError(BUSY)] * 3
    decrypt = pyrage.passphrase.decrypt

    def busy(raw: bytes, passphrase: str) -> bytes:
        if refused:
            raise refused.pop()
        return bytes(decrypt(raw, passphrase))

    monkeypatch.setattr(pyrage.passphrase, "decrypt", busy)
    assert sealing.open_with("correct horse", SEALED) == b"content"
    with pytest.raises(sealing.NotOpened, match="does not open the file"):
        sealing.open_with("battery staple", SEALED)
    refused += [pyrage.DecryptError(BUSY)] * sealing.TRIES
    with pytest.raises(UsageError, match="too slow or too busy now") as caught:
        sealing.open_with("correct horse", SEALED)
    assert not isinstance(caught.value, sealing.NotOpened), "the passphrase may be right"


def test_what_age_says_of_too_much_work() -> None:
    with pytest.raises(pyrage.DecryptError, match=sealing.EXCESSIVE):
        pyrage.passphrase.decrypt(re.sub(rb"(scrypt \S+ )\d+", rb"\g<1>40", SEALED), "correct horse")
    with pytest.raises(UsageError, match="far more work"):
        sealing.open_with("correct horse", re.sub(rb"(scrypt \S+ )\d+", rb"\g<1>40", SEALED))
