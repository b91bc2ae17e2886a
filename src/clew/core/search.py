"""Search queries, and the snippet of a text that shows a hit.

A word is a run of letters and digits; case does not count. `"…"` asks for adjacent words, and so do words that are
written together (`open_run`, `src/clew`). A `*` at the end asks for words with that beginning. A hit contains all
phrases of the query.
"""

from __future__ import annotations

import re

from clew.core.record import Record

MAX_PHRASES = 32
MAX_WORD_CHARS = 200
BEFORE_CHARS = 60  # shown before a hit in a snippet
SNIPPET_CHARS = 200

_PIECE = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[0-9A-Za-z\x80-\ud7ff\ue000-\U0010ffff]+")  # outside ASCII, the index decides what separates words
_LETTER = re.compile(r"[^\W_]")
_SPACE = re.compile(r"\s+")


class Phrase(Record):
    """Adjacent words. With `is_prefix`, the last one is only the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool = False


class SearchQuery(Record):
    """All these phrases must occur. Without any, there is nothing to search for."""

    phrases: tuple[Phrase, ...]

    def __bool__(self) -> bool:
        return bool(self.phrases)


class Snippet(Record):
    """A piece of a text on one line, and the positions of the hits in it."""

    text: str
    hits: tuple[tuple[int, int], ...]  # start, end


def parse_query(text: str) -> SearchQuery:
    """Never raises: a text without words is an empty query. Only the beginning of a very long query counts."""
    phrases = []
    for quoted, star, plain in _PIECE.findall(text):
        words = tuple(word[:MAX_WORD_CHARS] for word in _WORD.findall(quoted or plain) if _LETTER.search(word))
        if words:
            phrases.append(Phrase(words[:MAX_PHRASES], bool(star) or plain.endswith("*") or quoted.endswith("*")))
    return SearchQuery(tuple(phrases[:MAX_PHRASES]))


def snippet(text: str, query: SearchQuery) -> Snippet:
    """The text around the first phrase that occurs in it; its beginning, if none does."""
    pattern = re.compile("|".join(_pattern(phrase) for phrase in query.phrases) or r"(?!)", re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, first.start() - BEFORE_CHARS) if first is not None else 0
    piece = text[start : start + 8 * SNIPPET_CHARS]
    flat = _SPACE.sub(" ", piece).strip()
    shown = f"{'…' if start else ''}{flat[:SNIPPET_CHARS]}"
    if len(flat) > SNIPPET_CHARS or start + len(piece) < len(text):
        shown += "…"
    return Snippet(shown, tuple(match.span() for match in pattern.finditer(shown)))


def _pattern(phrase: Phrase) -> str:
    """A regular expression. Its repetitions are bounded, so that the time to search is linear in the text's length."""
    between = r"[\W_]{1,80}"
    end = "" if phrase.is_prefix else r"(?![^\W_])"
    tail = r"[^\W_]{0,80}" if phrase.is_prefix else ""
    return rf"(?<![^\W_]){between.join(re.escape(word) for word in phrase.words)}{tail}{end}"
