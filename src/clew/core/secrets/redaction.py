"""Secrets: by their shape (see secret_shapes), and of the environment.

What is blanked is said (`[redacted: …]`), so that a reader knows that something stood there. A shape is a guess: what
looks like none of these stays, so a redacted text is safer to show, not safe.

A value of the environment is a secret when its variable's name tells so, unless it is a place (a path, a socket) or too
plain to be told from any word. The password of an address is one under whatever name. This one rule is that of every
file that leaves: an exported thread, a pushed one, the state file of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from clew.core import secret_shapes as shapes
from clew.core.record import replace
from clew.core.secret_shapes import Found

SHORTEST_VALUE = 8  # of the environment: a shorter one may be anything
PLAIN_VALUE = 12  # likewise of one that is made of letters alone, or of digits alone: `postgres`, `20261115`
SHARED_CHARS = 8  # so much of a secret in a name gives it away; of a shorter one, all of it
FEWEST_CHARS = 4  # what is shorter is in any name

# Not KEYBOARD, AUTHOR, COMPASS, PATH or PWD itself.
_SECRET_NAME = re.compile(
    r"(?i)KEYS?(?![a-z])|TOKEN|SECRET|PASSW|PASSPHRASE|(?:\b|_)PASS(?![a-z])|_PWD\b|CREDENTIAL|COOKIE|AUTH(?!or(?!iz))"
    r"|(?:\b|_)PAT(?![a-z])"
)
_CLEAR_NAME = re.compile(r"(?i)SECRET|PASSWORD\b|PASSWD\b|PASSPHRASE\b|TOKEN\b|KEY\b")
_OF_A_PLACE = re.compile(r"(?i)_(?:FILE|PATH|DIR|SOCK|USER|USERNAME|NAME|HOST|PORT|TYPE)\b|\AGPG_KEY\Z")
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}(?P<whole>://[^\s/?#:@]{0,256}:(?P<password>[^\s@/?#]{1,512})@)")


def redact(text: str, values: Iterable[str] = (), blanked: list[str] | None = None) -> tuple[str, int]:
    """The text with its secrets blanked, doubtful ones too, and how many there were. `values` are ones that are known.

    What was blanked is added to `blanked`.
    """
    return blank(text, find_secrets(text, values, doubtful=True), blanked=blanked)


def blank(
    text: str, found: Sequence[Found], mark: str | None = None, blanked: list[str] | None = None
) -> tuple[str, int]:
    """The text without what was found in it, and how many that were. `mark` stands in its place."""
    pieces, place = list[str](), 0
    for each in found:
        pieces += [text[place : each.start], f"[redacted: {each.kind}]" if mark is None else mark]
        place = each.end
    if blanked is not None:
        blanked += [text[each.start : each.end] for each in found]
    return "".join((*pieces, text[place:])), len(found)


def find_secrets(text: str, values: Iterable[str] | Mapping[str, str] = (), *, doubtful: bool = False) -> list[Found]:
    """By value and by shape, in order; what overlaps is one. `values`: with a mapping, the name of each."""
    names = values if isinstance(values, Mapping) else {}
    found = [
        Found(at, at + len(value), f"value of {names[value]}" if value in names else "value")
        for value in values
        for at in _places(text, value)
    ]
    found += [each for each in shapes.find(text) if doubtful or each.certain]
    merged: list[Found] = []
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
