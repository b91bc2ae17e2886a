"""Finds and redacts secrets: by their shape (see `shapes`), and by the values in the environment.

A redacted secret is replaced by a mark (`[redacted: …]`), so that a reader knows that something was there. Shapes are
heuristics: a secret that has none of them stays. So a redacted text is safer to show, but not safe.

A value of the environment is a secret if the name of its variable suggests it, unless the value is a path or a socket,
or too common a word. The password in an address is always one. The same rule holds for every file that leaves this
machine: an exported thread, a pushed one, the state file of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from clew.core.record import replace
from clew.core.secrets import shapes
from clew.core.secrets.shapes import FoundSecret

MIN_VALUE_CHARS = 8  # a shorter value in the environment may be anything
MIN_PLAIN_CHARS = 12  # the same for a value of only letters or only digits: `postgres`, `20261115`
SHARED_CHARS = 8  # how many characters of a secret in a name count as a leak; of a shorter secret, all of them
MIN_CHARS = 4  # a shorter secret may be in any name

# This pattern must not match KEYBOARD, AUTHOR, COMPASS, PATH or PWD.
_SECRET_NAME = re.compile(
    r"(?i)KEYS?(?![a-z])|TOKEN|SECRET|PASSW|PASSPHRASE|(?:\b|_)PASS(?![a-z])|_PWD\b|CREDENTIAL|COOKIE|AUTH(?!or(?!iz))"
    r"|(?:\b|_)PAT(?![a-z])"
)
_CLEAR_NAME = re.compile(r"(?i)SECRET|PASSWORD\b|PASSWD\b|PASSPHRASE\b|TOKEN\b|KEY\b")
_OF_A_PLACE = re.compile(r"(?i)_(?:FILE|PATH|DIR|SOCK|USER|USERNAME|NAME|HOST|PORT|TYPE)\b|\AGPG_KEY\Z")
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}(?P<whole>://[^\s/?#:@]{0,256}:(?P<password>[^\s@/?#]{1,512})@)")


def redact(text: str, values: Iterable[str] = (), blanked: list[str] | None = None) -> tuple[str, int]:
    """The text with its secrets redacted, doubtful ones too, and their number. `values` are known secrets.

    The redacted secrets are added to `blanked`.
    """
    return blank(text, find_secrets(text, values, doubtful=True), blanked=blanked)


def blank(
    text: str, found: Sequence[FoundSecret], mark: str | None = None, blanked: list[str] | None = None
) -> tuple[str, int]:
    """The text without the secrets that were found in it, and their number. `mark` replaces each of them."""
    pieces, place = list[str](), 0
    for each in found:
        pieces += [text[place : each.start], f"[redacted: {each.kind}]" if mark is None else mark]
        place = each.end
    if blanked is not None:
        blanked += [text[each.start : each.end] for each in found]
    return "".join((*pieces, text[place:])), len(found)


def find_secrets(
    text: str, values: Iterable[str] | Mapping[str, str] = (), *, doubtful: bool = False
) -> list[FoundSecret]:
    """The secrets in the text, by value and by shape, in order. Overlapping ones are merged.

    `values` may be a mapping from values to names.
    """
    names = values if isinstance(values, Mapping) else {}
    found = [
        FoundSecret(at, at + len(value), f"value of {names[value]}" if value in names else "value")
        for value in values
        for at in _places(text, value)
    ]
    found += [each for each in shapes.find(text) if doubtful or each.certain]
    merged: list[FoundSecret] = []
    for each in sorted(found, key=lambda each: each.start):
        last = merged[-1] if merged else None
        if last is None or each.start >= last.end:
            merged.append(each)
        elif each.end > last.end:
            merged[-1] = replace(last, end=each.end)
    return merged


def _places(text: str, value: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + len(value))


def gives_away(name: str, secrets: Iterable[str]) -> bool:
    """Whether a name, which may be derived from a text, contains a large part of a secret, in any spelling."""
    if redact(name)[1]:
        return True
    letters = _letters(name)
    parts = {letters[at : at + SHARED_CHARS] for at in range(len(letters) - SHARED_CHARS + 1)}
    for secret in {_letters(each) for each in secrets}:
        if any(part in secret for part in parts) or (MIN_CHARS <= len(secret) < SHARED_CHARS and secret in letters):
            return True
    return False


def secret_values(environ: Iterable[tuple[str, str]], is_place: Callable[[str], bool]) -> dict[str, str]:
    """The likely secrets in the environment, each with its name; the longest first.

    `is_place` says whether a value is an existing path.
    """
    found = {value: name for name, each in environ for value in _secrets(name, each, is_place)}
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair)))


def _secrets(name: str, value: str, is_place: Callable[[str], bool]) -> Iterator[str]:
    for address in _ADDRESS.finditer(value):
        yield address["whole"]  # including `://` and `@`, because the password itself may be a common word
        yield from {each for each in (address["password"], unquote(address["password"])) if not _is_plain(each)}
    if not _SECRET_NAME.search(name) or _OF_A_PLACE.search(name) or _is_plain(value):
        return
    if value.startswith(("~/", "./", "../")) or (value[0] in "/~." and not _CLEAR_NAME.search(name)):
        return
    if (value[0] in "/~." or "/" in value) and is_place(value):
        return
    yield value


def names_secret(name: str, value: str, is_place: Callable[[str], bool]) -> bool:
    """Whether the variable holds a credential, by its name, however short the value is; or an address with a
    password."""
    if _ADDRESS.search(value):
        return True
    is_named = _SECRET_NAME.search(name) is not None and _OF_A_PLACE.search(name) is None
    return is_named and bool(value.strip()) and not (value[0] in "/~." and is_place(value))


def _is_plain(value: str) -> bool:
    letters = re.sub(r"[-_.:\s]", "", value)
    return len(value) < (MIN_PLAIN_CHARS if letters.isalpha() or letters.isdigit() else MIN_VALUE_CHARS)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
