"""Secrets: by their shape (keys of the usual vendors, private keys, passwords in headers), and of the environment.

What is blanked is said (`[redacted: …]`), so that a reader knows that something stood there. A shape is a guess: what
looks like none of these stays, so a redacted text is safer to show, not safe.

A value of the environment is a secret when its variable's name tells so, unless it is a place (a path, a socket) or too
plain to be told from any word. The password of an address is one under whatever name. This one rule is that of every
file that leaves: an exported thread, a pushed one, the state file of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from urllib.parse import unquote

SHORTEST_VALUE = 8  # of the environment: a shorter one may be anything
PLAIN_VALUE = 12  # likewise of one that is made of letters alone, or of digits alone: `postgres`, `20261115`
SHARED_CHARS = 8  # so much of a secret in a name gives it away; of a shorter one, all of it
FEWEST_CHARS = 4  # what is shorter is in any name

# Each is (what it is, pattern). Of a pattern with groups `keep` and `end`, what stands between them goes.
_SHAPES: tuple[tuple[str, str], ...] = (
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    ("private key", r"(?i:AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,})"),
    ("API key", r"\bsk-[A-Za-z0-9_-]{16,}"),  # Anthropic, OpenAI and others
    ("API key", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{16,}"),  # Stripe
    ("API key", r"\bAIza[0-9A-Za-z_-]{30,}"),  # Google
    ("token", r"\bya29\.[0-9A-Za-z_-]{20,}|\b1//0[0-9A-Za-z_-]{20,}"),
    ("token", r"\bgh[opusr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("token", r"\bgl(?:pat|dt|rt|cbt|ptt|oas|soat|ft|imt|agent|ffct)-[A-Za-z0-9_.-]{16,}"),  # GitLab
    ("token", r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}"),  # Slack
    ("token", r"https://hooks\.slack\.com/services/[A-Za-z0-9/_-]+"),
    ("API key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),  # AWS
    ("token", r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}|\bdop_v1_[a-f0-9]{40,}"),
    ("token", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("API key", r"\b(?:gsk|xai|pplx|r8|fw|csk|tgp_v1|nvapi|lin_api|dckr_pat|ATATT3|hvs\.|hvb\.)[-_A-Za-z0-9=]{24,}"),
    ("token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{30,}"),  # Telegram
    ("token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JWT
    (
        "authorization",
        r"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey|negotiate)\s+)?)"
        r"(?!\[redacted)[^\s\"',;]{6,}",
    ),
    ("token", r"(?i)(?P<keep>\bbearer\s+)(?!\[redacted)[A-Za-z0-9._~+/=-]{16,}"),
    ("cookie", r"(?i)(?P<keep>\b(?:set-)?cookie[\"']?\s*:\s*[\"']?)(?!\[redacted)[^\r\n\"']{6,}"),
    # One run of characters without a colon and one without an @: nothing to go back over.
    (
        "password",
        r"(?i)(?P<keep>\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@\"'<>]{0,256}:)(?!\[redacted)[^\s@/\"'<>]{1,512}(?P<end>@)",
    ),
    (
        "secret",
        r"(?i)(?P<keep>\b[\w.-]{0,64}(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|credentials?)"
        r"[\w-]{0,32}[\"']?\s{0,8}(?:=|:|=>)\s{0,8}[\"'])(?!\[redacted)[^\"'\r\n]{6,512}(?P<end>[\"'])",
    ),
    (
        "secret",
        r"(?P<keep>\b[A-Z][A-Z0-9_]{0,64}(?:KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\s{0,8}[=:]\s{0,8})"
        r"(?!\[redacted)[^\s\"'$<]{6,}",
    ),
)

# Not KEYBOARD, AUTHOR, COMPASS, PATH or PWD itself.
_SECRET_NAME = re.compile(
    r"(?i)KEYS?(?![a-z])|TOKEN|SECRET|PASSW|PASSPHRASE|(?:\b|_)PASS(?![a-z])|_PWD\b|CREDENTIAL|COOKIE|AUTH(?!or(?!iz))"
    r"|(?:\b|_)PAT(?![a-z])"
)
_CLEAR_NAME = re.compile(r"(?i)SECRET|PASSWORD\b|PASSWD\b|PASSPHRASE\b|TOKEN\b|KEY\b")
_OF_A_PLACE = re.compile(r"(?i)_(?:FILE|PATH|DIR|SOCK|USER|USERNAME|NAME|HOST|PORT|TYPE)\b|\AGPG_KEY\Z")
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}(?P<whole>://[^\s/:@]{0,256}:(?P<password>[^\s@/?#]{1,512})@)")


def redact(text: str, values: Iterable[str] = (), blanked: list[str] | None = None) -> tuple[str, int]:
    """The text with its secrets blanked, and how many there were. `values` are ones that are known.

    What was blanked is added to `blanked`.
    """
    found: list[str] = []
    for value in values:
        found += [value] * text.count(value)
        text = text.replace(value, "[redacted: value]")
    for what, pattern in _patterns():
        text = pattern.sub(lambda match, what=what: _blank(match, what, found), text)  # type: ignore[misc]
    if blanked is not None:
        blanked += found
    return text, len(found)


def gives_away(name: str, secrets: Iterable[str]) -> bool:
    """Of a name, which may be made from a text: a good part of a secret is in it, in whatever spelling."""
    if redact(name)[1]:
        return True
    letters = _letters(name)
    parts = {letters[at : at + SHARED_CHARS] for at in range(len(letters) - SHARED_CHARS + 1)}
    for secret in {_letters(each) for each in secrets}:
        if any(part in secret for part in parts) or (FEWEST_CHARS <= len(secret) < SHARED_CHARS and secret in letters):
            return True
    return False


def secret_values(environ: Iterable[tuple[str, str]], is_place: Callable[[str], bool]) -> dict[str, str]:
    """What the environment holds that is likely a secret, and under which name; the longest first.

    `is_place` tells whether a value is the path of something that is there.
    """
    found = {value: name for name, each in environ for value in _secrets(name, each, is_place)}
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair)))


def _secrets(name: str, value: str, is_place: Callable[[str], bool]) -> Iterator[str]:
    for address in _ADDRESS.finditer(value):
        yield address["whole"]  # a password that may be any word is one in its place
        yield from {each for each in (address["password"], unquote(address["password"])) if not _is_plain(each)}
    if not _SECRET_NAME.search(name) or _OF_A_PLACE.search(name) or _is_plain(value):
        return
    if value.startswith(("~/", "./", "../")) or (value[0] in "/~." and not _CLEAR_NAME.search(name)):
        return
    if (value[0] in "/~." or "/" in value) and is_place(value):
        return
    yield value


def _is_plain(value: str) -> bool:
    letters = re.sub(r"[-_.:\s]", "", value)
    return len(value) < (PLAIN_VALUE if letters.isalpha() or letters.isdigit() else SHORTEST_VALUE)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((what, re.compile(pattern)) for what, pattern in _SHAPES)


def _blank(match: re.Match[str], what: str, found: list[str]) -> str:
    groups = match.groupdict()
    keep, end = groups.get("keep") or "", groups.get("end") or ""
    found.append(match[0][len(keep) : len(match[0]) - len(end)])
    return f"{keep}[redacted: {what}]{end}"
