"""Mentions of files in a prompt: `@path`, `@path#L10-20`, `@path#L10`, `@"a path with spaces"`.

As in the plain CLI (measured), a mention begins the text or follows a blank, so that `me@example.org`, `(@a.py)` and
`"@a.py"` mention nothing, and punctuation after it does not belong to it. In code spans and fenced code, unlike there,
nothing is mentioned: a pasted program is full of decorators.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from clew.core.record import Record

_MENTION = re.compile(
    r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"(?P<range>#L\d{1,9}(?:-L?\d{1,9})?)?|(?P<bare>[^\s"@`][^\s"`]*))'
)
_LINES = re.compile(r"#L(\d{1,9})(?:-L?(\d{1,9}))?\Z")
_FENCE = re.compile(r"(?m)^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*(?:\n|\Z)")
_TICKS_OR_GAP = re.compile(r"`+|\n[^\S\n]*\n")  # a blank line ends a paragraph
_AFTER = ".,:;!?)]}>'*"  # punctuation that ends a sentence, not a path


class FilePart(Record):
    """A file that a mention may name, and its lines. Both numbers count."""

    path: str
    first: int | None = None  # None: the whole file
    last: int | None = None


class Mention(Record):
    written: str  # as it stands in the text, with the @
    candidates: tuple[FilePart, ...]  # what it may name: the first that exists counts


def mentions_in(text: str) -> tuple[Mention, ...]:
    """The mentions, in order, each once."""
    if "@" not in text:
        return ()
    code = sorted(_code(text)) if "`" in text or "~" in text else []
    starts = [start for start, _ in code]

    def is_code(at: int) -> bool:
        place = bisect_right(starts, at) - 1
        return place >= 0 and at < code[place][1]

    found = {
        match.group(): Mention(match.group(), tuple(dict.fromkeys(_candidates(match))))
        for match in _MENTION.finditer(text)
        if not is_code(match.start())
    }
    return tuple(found.values())


def _candidates(match: re.Match[str]) -> Iterator[FilePart]:
    if quoted := match["quoted"]:
        yield _part(quoted + (match["range"] or "")) if match["range"] else FilePart(quoted)
        return
    written = match["bare"]
    trimmed = written.rstrip(_AFTER)
    yield FilePart(written)
    if trimmed:
        yield FilePart(trimmed)
    if "#" in trimmed:
        yield _part(trimmed)


def _part(text: str) -> FilePart:
    """The path before the last `#`, and the lines after it. What names no lines is an anchor, and does not count."""
    path, _, _ = text.rpartition("#")
    lines = _LINES.search(text)
    if lines is None:
        return FilePart(path)
    first = max(1, int(lines[1]))
    return FilePart(path, first, max(first, int(lines[2])) if lines[2] else first)


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Where fenced code and code spans begin and end. A fence that is not closed ends with the text."""
    start = 0
    for begin, end in _fences(text):
        yield begin, end
        yield from _spans(text, start, begin)
        start = end
    yield from _spans(text, start, len(text))


def _fences(text: str) -> Iterator[tuple[int, int]]:
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        mark = match[1]
        if opened is None:
            opened = match
        elif mark[0] == opened[1][0] and len(mark) >= len(opened[1]) and not match.group().strip(" \n`~"):
            yield opened.start(), match.end()
            opened = None
    if opened is not None:
        yield opened.start(), len(text)


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A span begins and ends with the same number of backticks, within a paragraph."""
    opened: re.Match[str] | None = None
    for match in _TICKS_OR_GAP.finditer(text, start, end):
        if "`" not in match.group():
            opened = None
        elif opened is None:
            opened = match
        elif len(match.group()) == len(opened.group()):
            yield opened.start(), match.end()
            opened = None
