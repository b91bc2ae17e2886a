"""A known secret is recognised in the disguises that an agent can be told to use; ordinary text has no match."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from clew.core.secrets.daemon_token import TOKEN_FILE, cookie_of, page_key_of
from clew.core.secrets.leaks import leaked
from clew.hosts.hooks.own_secrets import own_secrets

TOKEN = "q7Vx-2Lk_9RtZp4WmYc8JdNb3HsGfTa6UeKi1Oo0PlM"
SECRETS = {TOKEN: "the daemon's token", "hunter2-correct!": "CLEW_GITEA_SECRET"}

DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "backwards": lambda secret: secret[::-1],
    "in capitals": str.upper,
    "spaced": " ".join,
    "one letter a line": "\n".join,
    "with dots and zero-width spaces": lambda secret: "\u200b.".join(secret),
    "in a list": lambda secret: "\n".join(f"- {letter}" for letter in secret),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 of more": lambda secret: base64.b64encode(f"x{secret}y".encode()).decode(),
    "base64 of still more": lambda secret: base64.b64encode(f"it: {secret} ok".encode()).decode(),
    "base64url": lambda secret: base64.urlsafe_b64encode(f"?{secret}".encode()).decode(),
    "base64 in lines": lambda secret: "\n".join(base64.b64encode(secret.encode()).decode()),
    "base64 of it backwards": lambda secret: base64.b64encode(secret[::-1].encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
    "hex with colons": lambda secret: secret.encode().hex(":").upper(),
    "hex escapes": lambda secret: "".join(f"\\x{byte:02x}" for byte in secret.encode()),
    "URL-encoded": lambda secret: quote(secret, safe=""),
    "every byte URL-encoded": lambda secret: "".join(f"%{byte:02X}" for byte in secret.encode()),
    "character references": lambda secret: "".join(f"&#{ord(letter)};" for letter in secret),
    "full-width": lambda secret: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in secret),
    "in a numbered list": lambda secret: "\n".join(f"{n}. {letter}" for n, letter in enumerate(secret, start=1)),
    "in a list of letters in brackets": lambda secret: "\n".join(f" {n}) `{each}`" for n, each in enumerate(secret)),
    "in a numbered list of chunks": lambda secret: "\n".join(
        f"{n}. {secret[at : at + 4]}" for n, at in enumerate(range(0, len(secret), 4), start=1)
    ),
    "numbered in one line": lambda secret: " ".join(f"{n}. {letter}" for n, letter in enumerate(secret, start=1)),
    "in a table": lambda secret: "\n".join(f"| {n} | {letter} |" for n, letter in enumerate(secret, start=1)),
    "hex in a numbered list": lambda secret: "\n".join(f"{n}. {byte:02x}" for n, byte in enumerate(secret.encode())),
    "in two halves": lambda secret: f"{secret[:22]} and then comes {secret[22:]}",
}


@pytest.mark.parametrize("how", DISGUISES)
@pytest.mark.parametrize("secret", SECRETS)
def test_secret_is_recognised(how: str, secret: str) -> None:
    text = f"I looked into it.\n\n{DISGUISES[how](secret)}\n\nAll tests pass."
    assert leaked(text, SECRETS) == [SECRETS[secret]]


PIECES: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "backwards": lambda secret: secret[::-1],
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
}


@pytest.mark.parametrize("how", PIECES)
@pytest.mark.parametrize("secret", [TOKEN, cookie_of(TOKEN), f"sk-ant-api03-{TOKEN}"])
def test_a_quarter_of_a_random_secret_is_a_leak(secret: str, how: str) -> None:
    form = PIECES[how](secret)
    size = -(-len(form) // 4)
    first, second, third, last = (form[at : at + size] for at in range(0, len(form), size))
    text = f"First {first}, after which {second} and also {third} stand; at the end {last} follows."
    assert leaked(text, {secret: "it"}) == ["it"]


def test_words_that_a_secret_shares_with_ordinary_text_are_no_leak() -> None:
    words = {"correct-horse-battery-staple-Mountain7": "words", "myHookSecretOfTheCompanyForge2024": "more words"}
    text = "The correct horse takes a battery. `myHookSecret` is of the company; its forge is new in 2024."
    assert leaked(text, words) == []
    assert leaked("Keys begin with sk-ant-api03-, AGE-SECRET-KEY-1 or github_pat_11.", {
        f"sk-ant-api03-{TOKEN}": "an API key",
        f"github_pat_{TOKEN}": "a token",
        f"AGE-SECRET-KEY-{TOKEN}": "a key",
    }) == []  # fmt: skip


def test_ordinary_text_leaks_nothing() -> None:
    repository = Path(__file__).parents[3]
    words = (repository / "docs" / "hooks.md").read_text() + (repository / "src/clew/hosts/hooks/hooks.py").read_text()
    assert leaked(words, SECRETS) == []
    assert leaked("", SECRETS) == []
    assert leaked(words, {"the": "short", "!!!": "no letters", "": "nothing"}) == []


def test_own_secrets_are_those_of_the_environment_the_settings_and_the_daemon(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_text(f"{TOKEN}\n")
    settings = tmp_path / "clew.toml"
    settings.write_text('store = "postgresql://clew:s3cr3t-of-the-store@db/clew"\n')
    environ = {"CLEW_GITEA_SECRET": "hookhook", "ANTHROPIC_API_KEY": "some-key-0123456789", "HOME": "/home/somebody"}
    found = own_secrets(environ, tmp_path, settings)
    assert found["hookhook"] == "CLEW_GITEA_SECRET"
    assert found["some-key-0123456789"] == "ANTHROPIC_API_KEY"
    assert found["s3cr3t-of-the-store"] == "a secret of clew.toml"
    assert found[TOKEN] == "the daemon's token"
    assert {cookie_of(TOKEN), page_key_of(TOKEN)} < set(found)
    assert "/home/somebody" not in found
    assert own_secrets({}, tmp_path / "gone") == {}
