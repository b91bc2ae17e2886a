"""What secrets look like: keys and tokens of common vendors, private keys, headers, addresses, assignments.

Rules
1. Each shape has anchors, short literals that every match contains. The text is searched for the anchors, and a pattern
   is tried only at an anchor. In a pattern, no repeat is nested in another, none backtracks, and every repeat that
   something must follow has an upper bound. So the time is linear in the length of the text, whatever the text is.
2. A match is certain or doubtful. Words, git hashes and UUIDs are never certain: `password: "required"` is in much
   code. If a person asked for secrets to be redacted, doubtful ones are redacted too; nothing else uses them.
3. Text inside JSON is recognized without decoding it: a quote may have backslashes before it, and a secret may follow
   the two characters of an escaped line break.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import log2

from clew.core.record import Record

PRIVATE_KEY_MAX_CHARS = 65_536  # with its first and last line
RANDOM_MIN_CHARS = 10  # a value of this length that mixes letters and digits is certain

Judge = Callable[[str, re.Match[str]], bool | None]  # True: certain; False: doubtful; None: not a secret


class FoundSecret(Record):
    """The position of a secret in a text, without the secret itself."""

    start: int
    end: int
    kind: str
    certain: bool = True


class Shape(Record):
    kind: str
    anchors: tuple[str, ...]  # in lower case
    pattern: str  # begins at the anchor; the secret is the group `s`, or else the whole match
    judge: Judge
    back: int = 0  # how many characters before the anchor the pattern begins


def find(text: str) -> list[FoundSecret]:
    """All secrets, in order; they may overlap."""
    lowered = text.replace("İ", "i").lower()  # the only character that becomes longer in lower case
    found = list(_private_keys(text, lowered))
    for shape, pattern in _compiled():
        for anchor in shape.anchors:
            found += _matches(shape, pattern, anchor, text, lowered)
    return sorted(found, key=lambda each: (each.start, not each.certain, -each.end))


def _matches(shape: Shape, pattern: re.Pattern[str], anchor: str, text: str, lowered: str) -> Iterator[FoundSecret]:
    at = lowered.find(anchor)
    while at >= 0:
        match = pattern.match(text, max(at - shape.back, 0))
        certain = shape.judge(text, match) if match is not None else None
        if match is not None and certain is not None:
            group = "s" if "s" in pattern.groupindex else 0
            yield FoundSecret(match.start(group), match.end(group), shape.kind, certain)
        at = lowered.find(
            anchor, max(at + len(anchor), match.end() if match is not None and certain is not None else 0)
        )


_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(r"[A-Za-z0-9+/=\s\\>|]*+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{16}")


def _private_keys(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Whole blocks, and incomplete ones as far as they look like a key. The first line alone is not a key."""
    at = lowered.find("-----begin ")
    footers = _END.finditer(text) if at >= 0 else iter(())
    footer = next(footers, None)
    while at >= 0:
        begin = _BEGIN.match(text, at)
        end = at + 1
        if begin is not None:
            while footer is not None and footer.start() < begin.end():
                footer = next(footers, None)
            end = _block_end(text, lowered, begin.end(), footer)
            if _BASE64.search(text, begin.end(), end):
                yield FoundSecret(at, end, "private key")
        at = lowered.find("-----begin ", end)


def _block_end(text: str, lowered: str, start: int, footer: re.Match[str] | None) -> int:
    is_near = footer is not None and footer.end() - start <= PRIVATE_KEY_MAX_CHARS
    if footer is not None and is_near and lowered.find("-----begin ", start, footer.start()) < 0:
        return footer.end()
    body = _BODY.match(text, start)
    return body.end() if body is not None else start


def is_random(value: str) -> bool:
    """Whether the value mixes letters and digits as no word does, and is neither a hash nor a UUID."""
    if re.fullmatch(r"(?i)(?:sha\d{1,3}[-:])?[0-9a-f-]*+", value):
        return False
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(value) if (one + other).isalnum())
    if len(value) >= RANDOM_MIN_CHARS and digits >= 2 and letters >= 2 and changes >= 4:
        return True
    is_mixed = digits > 0 and any(char.islower() for char in value) and any(char.isupper() for char in value)
    return is_mixed and len(value) >= 24 and _entropy(value) > 4.3


def _entropy(value: str) -> float:
    """The entropy of the value, in bits per character."""
    return -sum(count / len(value) * log2(count / len(value)) for count in Counter(value).values())


def _is_word(value: str) -> bool:
    return (
        value.isascii()
        and not any(char.isdigit() for char in value)
        and (value.islower() or value.isupper() or value.istitle())
    )


def _secret(match: re.Match[str]) -> str:
    return match["s"] if "s" in match.re.groupindex else match[0]


def _always(text: str, match: re.Match[str]) -> bool:
    return True


def _if_random(text: str, match: re.Match[str]) -> bool | None:
    return True if is_random(_secret(match)) else None


def _sure_if_random(text: str, match: re.Match[str]) -> bool:
    return is_random(_secret(match))


def _sure_unless_word(text: str, match: re.Match[str]) -> bool | None:
    secret = _secret(match)
    return None if _PLACEHOLDER.match(secret) else not _is_word(secret)


def _of_header(text: str, match: re.Match[str]) -> bool | None:
    secret = _secret(match)
    if _PLACEHOLDER.match(secret):
        return None
    return not _is_word(secret) if match["scheme"] else is_random(secret)


def _of_address(text: str, match: re.Match[str]) -> bool | None:
    secret = _secret(match)
    return None if _PLACEHOLDER.match(secret) else len(secret) >= 12 or not _is_word(secret)


def _of_assignment(text: str, match: re.Match[str]) -> bool | None:
    """A value whose name suggests a secret: if it is quoted, random, or the value of a variable in capitals."""
    before, name = text[max(match.start() - 24, 0) : match.start()], match["name"]
    is_variable = name.isupper() and match["rest"].upper() == match["rest"]
    if name.lower() == "key" and not _KEY_OF.search(before) and not (is_variable and before.endswith("_")):
        return None
    if _NO_SECRET_BEFORE.search(before) or _NO_SECRET_NAME.search(match["rest"]) or _PLACEHOLDER.match(match["s"]):
        return None
    if _PLACE.match(match["s"]) or (name.lower() == "pwd" and match["s"].startswith("/")):
        return None
    if not match["quote"] and "." in match["s"] and all(part.isidentifier() for part in match["s"].split(".")):
        return None  # an attribute in code, such as `settings.token`
    if is_random(match["s"]):
        return True
    return False if match["quote"] or is_variable else None


_PLACEHOLDER = re.compile(r"(?i)[$<{%*…]|\[redacted|x{3}|your|example|\.\.\.|[^=&\s]{0,64}+[({]")
_NO_SECRET_BEFORE = re.compile(r"(?i)public[_-]?\Z|\bunexpected \Z")  # `Unexpected token: …` is a parser's message
_NO_SECRET_NAME = re.compile(  # a name with such an end says where a secret is, or which one
    r"(?i:[_-](?:file|path|dir|url|uri|name|type))\Z|(?:File|Path|Dir|Ur[li]|UR[LI]|Name|Type)\Z"
)
_PLACE = re.compile(  # a path or an address; base64 may also begin with a slash, but not with /word/
    r"(?:~|\.{1,2})/|/[a-z]{2,16}/|/Users/|[A-Za-z][A-Za-z0-9+.-]{1,20}://|[\w.~-]{1,64}+/[\w./~-]{0,256}\.[A-Za-z]{2,5}\Z"
)
_KEY_OF = re.compile(
    r"(?i)(?:api|access|secret|private|signing|encryption|master|auth|account|client|service|deploy|storage)[_-]?\Z"
)
_LEFT = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"  # the beginning of a word; in JSON, a line break is two characters
_IS = r"\\{0,3}+[\"']?+\s{0,8}+(?:=>|:=|[=:])\s{0,8}+"
_QUOTE = r"\\{0,3}+[\"']?+"

_SHAPES: tuple[Shape, ...] = (
    Shape("age secret key", ("age-secret-key-",), r"(?i:AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,}+)", _always),
    Shape("Anthropic API key", ("sk-ant-",), rf"{_LEFT}sk-ant-[A-Za-z0-9_-]{{16,}}+", _always),
    Shape("OpenAI API key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), rf"{_LEFT}sk-[A-Za-z0-9_-]{{24,}}+", _always),
    Shape("API key", ("sk-",), rf"{_LEFT}sk-[A-Za-z0-9_-]{{16,}}+", _sure_if_random),
    Shape("Stripe key", ("_live_", "_test_"), rf"{_LEFT}[rsp]k_(?:live|test)_[A-Za-z0-9]{{16,}}+", _always, back=2),
    Shape("Stripe webhook secret", ("whsec_",), rf"{_LEFT}whsec_[A-Za-z0-9+/=]{{16,}}+", _always),
    Shape("Google API key", ("aiza",), rf"{_LEFT}AIza[0-9A-Za-z_-]{{30,}}+", _always),
    Shape("Google OAuth token", ("ya29.",), rf"{_LEFT}ya29\.[0-9A-Za-z_-]{{20,}}+", _always),
    Shape("Google OAuth token", ("1//0",), rf"{_LEFT}1//0[0-9A-Za-z_-]{{20,}}+", _always),
    Shape("GitHub token", ("gh",), rf"{_LEFT}gh[opusr]_[A-Za-z0-9]{{20,}}+", _always),
    Shape("GitHub token", ("github_pat_",), rf"{_LEFT}github_pat_[A-Za-z0-9_]{{20,}}+", _always),
    Shape(
        "GitLab token",
        ("gl",),
        rf"{_LEFT}gl(?:pat|dt|rt|cbt|ptt|oas|soat|ft|imt|agent|ffct)-(?P<d>[A-Za-z0-9_.-]{{16,512}}+)",
        lambda text, match: any(char.isdigit() for char in match["d"]) or None,
    ),
    Shape("Slack token", ("xox",), rf"{_LEFT}xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{{10,}}+", _always),
    Shape("Slack token", ("xapp-",), rf"{_LEFT}xapp-[A-Za-z0-9-]{{10,512}}+", _if_random),
    Shape(
        "Slack webhook", ("https://hooks.slack.",), r"https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{8,}+", _always
    ),
    Shape("AWS access key", ("akia", "asia", "abia", "acca"), rf"{_LEFT}A(?:KI|SI|BI|CC)A[A-Z0-9]{{16}}\b", _always),
    Shape(
        "AWS secret key",
        ("secret_access_key", "secretaccesskey"),
        rf"(?i:secret_?access_?key){_IS}{_QUOTE}(?P<s>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])",
        _always,
    ),
    Shape("npm token", ("npm_",), rf"{_LEFT}npm_[A-Za-z0-9]{{30,}}+", _always),
    Shape("PyPI token", ("pypi-age",), rf"{_LEFT}pypi-AgE[A-Za-z0-9_-]{{30,}}+", _always),
    Shape("Hugging Face token", ("hf_",), rf"{_LEFT}hf_[A-Za-z0-9]{{20,}}+", _always),
    Shape("DigitalOcean token", ("dop_v1_",), rf"{_LEFT}dop_v1_[a-f0-9]{{40,}}+", _always),
    Shape("SendGrid key", ("sg.",), rf"{_LEFT}SG\.[A-Za-z0-9_-]{{16,64}}+\.[A-Za-z0-9_-]{{16,}}+", _always),
    Shape("Shopify token", ("shp",), rf"{_LEFT}shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}", _always),
    Shape(
        "API key",
        ("gsk_", "xai-", "pplx-", "r8_", "fw_", "csk-", "nvapi-", "lin_api_", "dckr_pat_", "atatt3"),
        rf"{_LEFT}(?:gsk_|xai-|pplx-|r8_|fw_|csk-|nvapi-|lin_api_|dckr_pat_|ATATT3)[A-Za-z0-9=_-]{{20,512}}+",
        _if_random,
    ),
    Shape("Vault token", ("hvs.", "hvb."), rf"{_LEFT}hv[sb]\.[A-Za-z0-9_-]{{24,512}}+", _if_random),
    Shape(
        "Telegram token",
        (":aa",),
        r"[^\n]{0,2}?(?P<s>(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}+)",
        _always,
        back=10,
    ),
    Shape(
        "JWT",
        ("eyj",),
        rf"{_LEFT}eyJ[A-Za-z0-9_-]{{8,1024}}+\.eyJ[A-Za-z0-9_-]{{8,16384}}+\.[A-Za-z0-9_-]*+",
        _always,
    ),
    Shape(
        "authorization header",
        ("authorization",),
        rf"(?i)authorization\\{{0,3}}+[\"']?+\s{{0,8}}+[:=]\s{{0,8}}+{_QUOTE}"
        r"(?:(?P<scheme>bearer|basic|token|digest|apikey|negotiate)\s{1,8}+)?+(?P<s>[^\s\"',;\\]{6,4096}+)",
        _of_header,
    ),
    Shape(
        "bearer token",
        ("bearer",),
        rf"(?i){_LEFT}bearer\s{{1,8}}+(?P<s>[A-Za-z0-9._~+/=-]{{16,4096}}+)",
        _sure_unless_word,
    ),
    Shape(
        "cookie",
        ("cookie",),
        rf"(?i)cookie\\{{0,3}}+[\"']?+\s{{0,8}}+:\s{{0,8}}+{_QUOTE}(?P<s>[^\s\"'=;,\\]{{1,128}}+=[^\r\n\"'\\]{{4,}}+)",
        _sure_if_random,
    ),
    # The pattern has one run of characters without a colon and one without an @, so that nothing backtracks.
    Shape(
        "password in an address",
        ("://",),
        r"(?<=[A-Za-z0-9+.-])://[^\s/?#:@\"'<>\\]{0,256}+:(?P<s>[^\s/?#@\"'<>\\]{1,512}+)@",
        _of_address,
    ),
    Shape(
        "assigned secret",
        ("secret", "token", "passw", "passphrase", "credential", "pwd", "key"),
        r"(?P<name>(?i:secret|token|passw(?:or)?d|passphrase|credentials?|pwd|key))(?P<rest>[\w-]{0,32}+)"
        rf"{_IS}\\{{0,3}}+(?P<quote>[\"']?+)(?P<s>(?<=[\"'])[^\"'\r\n\\]{{6,512}}+(?=\\{{0,3}}+[\"'])"
        r"|(?<![\"'])[^\s\"'$<>(){}\[\],;&|\\`]{6,512}+(?![(\[{.]))",
        _of_assignment,
    ),
)


@cache
def _compiled() -> tuple[tuple[Shape, re.Pattern[str]], ...]:
    return tuple((shape, re.compile(shape.pattern)) for shape in _SHAPES)
