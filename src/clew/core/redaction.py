"""Blanking secrets by their shape: keys of the usual vendors, tokens, private keys, passwords in addresses and headers.

What is blanked is said (`[redacted: …]`), so that a reader knows that something stood there. A shape is a guess: what
looks like none of these stays, so a redacted text is safer to show, not safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

SHORTEST_VALUE = 12  # of the environment: a shorter one may be any word

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

_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|passphrase|credential|cookie|auth")


def redact(text: str, values: Iterable[str] = ()) -> tuple[str, int]:
    """The text with its secrets blanked, and how many there were. `values` are ones that are known."""
    count = 0
    for value in values:
        count += text.count(value)
        text = text.replace(value, "[redacted: value]")
    for what, pattern in _patterns():
        text, found = pattern.subn(lambda match, what=what: _blank(match, what), text)  # type: ignore[misc]
        count += found
    return text, count


def secret_values(environ: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By name: what the environment holds that is likely a secret, the longest first."""
    found = {
        name: value
        for name, value in environ
        if _SECRET_NAME.search(name) and len(value) >= SHORTEST_VALUE and not value.startswith(("/", "~", "."))
    }
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((what, re.compile(pattern)) for what, pattern in _SHAPES)


def _blank(match: re.Match[str], what: str) -> str:
    groups = match.groupdict()
    return f"{groups.get('keep') or ''}[redacted: {what}]{groups.get('end') or ''}"
