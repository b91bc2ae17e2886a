"""What is certainly a secret, what may be one, and what is none: in prose, code, diffs, JSON. All are made up."""

from __future__ import annotations

import json
import re
import sys
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from clew.core.secrets import shapes as secret_shapes
from clew.core.secrets.redaction import blank, find_secrets, redact
from clew.core.secrets.shapes import _SHAPES, find, is_random

LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{LONG * 2}\n" * 4 + "-----END RSA PRIVATE KEY-----"

CERTAIN = {
    "Anthropic API key": f"sk-ant-api03-{LONG}",
    "OpenAI API key": f"sk-proj-{LONG}",
    "API key": f"sk-{LONG}",
    "GitHub token": f"ghs_{LONG}",
    "GitLab token": f"glpat-{LONG[:20]}",
    "AWS access key": "ASIAIOSFODNN7EXAMPLE",
    "AWS secret key": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Google API key": f"AIza{LONG[:35]}",
    "Slack token": "xoxp-123456789012-1234567890123-abcDEFghiJKL",
    "Stripe key": f"rk_live_{LONG[:24]}",
    "npm token": f"npm_{LONG[:36]}",
    "PyPI token": f"pypi-AgEIcHlwaS5vcmc{LONG}",
    "Hugging Face token": f"hf_{LONG[:34]}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private key": PEM,
    "age secret key": "AGE-SECRET-KEY-1" + "Q" * 58,
    "authorization header": "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "bearer token": "with bearer 0123456789abcdefXYZ",
    "password in an address": "https://me:hunter2hunter2@example.org/x.git",
    "assigned secret": "password: s3cr3tP4ssw0rd",
}

ALSO_CERTAIN = [
    f"r8_{LONG[:37]}",
    f"fw_{LONG[:24]}",
    f"lin_api_{LONG}",
    f"dckr_pat_{LONG[:27]}",
    f"ATATT3{LONG}",
    "redis://:p4ssw0rd@cache.example:6379",
    "PWD=s3cr3tP4ssw0rd and more",
    "Server=db;UID=sa;PWD=S3cr3tP4ss1;",
    "SECRET_KEY=/K7MDENG/bPxRfiCYzEXAMP1LEKEY",
    "TOKEN_URL=https://me:hunter2hunter2@example.org/x",
    "TOKEN_URL=https://example.org/x?token=a1b2c3d4e5f6g7h8",
    "Invalid token: s3cr3tT0k3n9",
    "secretNamespaceKey = a1b2c3d4e5f6g7h8",
]

INNOCENT = [
    'password: "required"',
    "token: str, secret: bytes | None = None, password=password",
    "The password: it was changed yesterday, and the token = none.",
    "token = self.tokens.next_token_v2",
    "token=3f2a0c11 and secret=0123456789abcdef0123456789abcdef01234567",
    "api_key: 01a1dfdb-189e-7681-b079-d4ea71ee7974",
    "cache_key=a1b2c3d4e5f6g7h8i9 and primary_key: a1b2c3d4e5f6g7h8",
    "MAX_TOKENS=20261115 and TOKEN=$TOKEN and PASSWORD=<yours> and SECRET={{ secret }}",
    "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, Authorization: Bearer token-of-yours",
    "postgresql://user:password@localhost/clew and https://example.org:8080/path@2",
    'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError',
    "sk-learn-contrib-extensions, risk-0123456789abcdefgh, fwrite_all_of_the_things_at_once_2b",
    "diff --git a/x b/x\nindex 0123456..89abcde 100644\n-token = old\n+token = new_token()",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "PWD=/tmp/tmp3k9x2q\nOLDPWD=/tmp/tmp8a1b2c3d/work\nexport PWD=/w0r7k5p9a1",
    "http://localhost:5173?user=alice@example.com",
    "http://localhost:5173#user=alice@example.com http://localhost?a=b1c2:d3e4f5@example.com",
    "private_key_path: ~/.ssh/id_ed25519_a1b2",
    "private_key: ~/.ssh/id_ed25519_a1b2 and secret: ./keys/a1b2c3d4e5.pem and token = /home/me/t0k3n/a1b2c3",
    '{"client_secret": "keys/client_1a2b3c4d.json", "password": "/run/secrets/db1a2b3c4d"}',
    "TOKEN_URL=https://login.example.com/v2.0/a1b2c3d4e5/oauth2/token",
    "token: https://login.example.com/v2.0/a1b2c3d4e5f6g7h8",
    "secretName: letsencrypt-prod-2a3b4c5d",
    "secret_name = prod-2a3b4c5d6e and token-type: a1b2c3d4e5f6 and keyFile: x",
    "SyntaxError: Unexpected token: x1=y2z3a4b5c6",
    f"Zm9v-R8_{'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY'} and -FW_{'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY'}",
    '{"integrity": "sha512-aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d=="}',
]


@pytest.mark.parametrize("kind", CERTAIN)
@pytest.mark.parametrize("wrap", ["{}", "before\n{}\nafter", "+{}", "`{}`"])
def test_secret_is_certain_by_its_shape(kind: str, wrap: str) -> None:
    [found] = find_secrets(wrap.format(CERTAIN[kind]))
    assert (found.kind, found.certain) == (kind, True)


@pytest.mark.parametrize("text", ALSO_CERTAIN)
def test_a_secret_is_certain_although_harmless_text_looks_similar(text: str) -> None:
    assert [found.certain for found in find_secrets(text)] == [True]


@pytest.mark.parametrize("kind", CERTAIN)
def test_secret_inside_json_is_found_without_decoding(kind: str) -> None:
    """A tool's output in an event, in an agent's session: JSON inside JSON."""
    said = f'first line\n{CERTAIN[kind]}\n"quoted"'
    for text in (json.dumps({"text": said}), json.dumps({"line": json.dumps({"text": said})})):
        assert [found.kind for found in find_secrets(text)] == [kind]


def test_a_private_key_in_a_service_account_file_is_redacted_completely() -> None:
    account = json.dumps({"type": "service_account", "private_key": PEM.replace("RSA ", ""), "client_id": "1"})
    text, count = blank(account, find_secrets(account))
    assert count == 1 and LONG not in text
    assert json.loads(text)["private_key"] == "[redacted: private key]"


@pytest.mark.parametrize("text", INNOCENT)
def test_words_hashes_and_code_are_never_certain(text: str) -> None:
    assert find_secrets(text) == []


def test_doubtful_secrets_are_redacted_only_on_request() -> None:
    text = 'password: "correct horse battery"'
    assert find_secrets(text) == []
    assert redact(text) == ('password: "[redacted: assigned secret]"', 1)


def test_overlapping_secrets_are_merged_and_redacted_completely() -> None:
    key = f"sk-ant-api03-{LONG}"
    text = f"Authorization: Bearer {key}, and more"
    assert redact(text, [key[:20], key[10:30]]) == ("Authorization: Bearer [redacted: value], and more", 1)


def test_positions_are_right_after_letters_that_change_their_length_in_lower_case() -> None:
    letters = "".join(chr(code) for code in range(0x80, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    assert len(letters.replace("İ", "i").lower()) == len(letters)
    key = f"ghp_{LONG[:36]}"
    assert redact(f"İİİ {key} İ") == ("İİİ [redacted: GitHub token] İ", 1)


@pytest.mark.parametrize(
    "value", ["hunter2hunter", "correct-horse", "getUserTokenFromEnv2", "3f2a0c11de", "v1.2.3-beta4"]
)
def test_no_secret_is_recognised_by_words_alone(value: str) -> None:
    assert not is_random(value)


def _repeats(tree: Any, depth: int = 0) -> list[tuple[Any, int, int]]:
    """Every repeat of more than one: its kind (possessive or not), its upper bound, and its depth of nesting."""
    found = []
    for op, args in tree:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            most = args[1]
            found += [(op, most, depth)] if most > 1 else []
            found += _repeats(args[2], depth + (most > 1))
        elif op is sre.BRANCH:
            found += [each for branch in args[1] for each in _repeats(branch, depth)]
        elif op is sre.SUBPATTERN:
            found += _repeats(args[3], depth)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            found += _repeats(args[1], depth)
    return found


@pytest.mark.parametrize("shape", _SHAPES, ids=lambda shape: f"{shape.kind} {shape.anchors[0]}")
def test_no_pattern_takes_more_than_linear_time(shape: secret_shapes.Shape) -> None:
    """No nested repeats; little backtracking; unbounded only where nothing follows that may fail."""
    tree = parser.parse(shape.pattern)
    for op, most, depth in _repeats(tree):
        assert depth == 0
        assert op is sre.POSSESSIVE_REPEAT or most <= 40
        if most == sre.MAXREPEAT:
            assert shape.judge in (secret_shapes._always, secret_shapes._sure_if_random)
            last_op, last = tree[-1]
            inner = last[3][-1] if last_op is sre.SUBPATTERN else (last_op, last)
            assert inner[0] is sre.POSSESSIVE_REPEAT and inner[1][1] == sre.MAXREPEAT, "nothing follows that may fail"


class Counting:
    """A pattern that counts how often it is tried, and how far it matched."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.tried = pattern, 0
        self.groupindex = pattern.groupindex

    def match(self, text: str, at: int) -> re.Match[str] | None:
        self.tried += 1
        return self.pattern.match(text, at)


@pytest.mark.parametrize(
    "piece", ["sk-", "eyJ-", "xai-", "key=", "://a:", "-----BEGIN PRIVATE KEY-----", "token: a1b2"]
)
def test_a_pattern_is_tried_once_per_anchor(piece: str) -> None:
    text = piece * 2000
    for shape, pattern in secret_shapes._compiled():
        for anchor in shape.anchors:
            counting = Counting(pattern)
            list(secret_shapes._matches(shape, counting, anchor, text, text.lower()))  # type: ignore[arg-type]
            assert counting.tried <= text.lower().count(anchor)
    assert len(find(text)) <= 2 * 2000
