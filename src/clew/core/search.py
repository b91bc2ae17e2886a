"""What somebody looks for, and the piece of a text that shows it.

A word is a run of letters and digits, and case does not count. `"…"` asks for words next to each other, and so does
what is written together (`open_run`, `src/clew`). A `*` at the end of a word asks for its beginning. All must be there.
"""

from __future__ import annotations

import re

from clew.core.record import Record

MOST_PHRASES = 32
MOST_WORD_CHARS = 200
BEFORE_CHARS = 60  # of a hit, in a snippet
SNIPPET_CHARS = 200

_PIECE = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[0-9A-Za-z\x80-\ud7ff\ue000-\U0010ffff]+")  # what else parts words is for the index to say
_LETTER = re.compile(r"[^\W_]")
_SPACE = re.compile(r"\s+")


class Phrase(Record):
    """Words next to each other; of the last one perhaps only the beginning."""

    words: tuple[str, ...]
    is_prefix: bool = False


class Words(Record):
    """All of these. None: nothing to look for."""

    phrases: tuple[Phrase, ...]

    def __bool__(self) -> bool:
        return bool(self.phrases)


class Snippet(Record):
    """A piece of a text on one line, and where in it the hits are."""

    text: str
    hits: tuple[tuple[int, int], ...]  # from, to


def parse_words(text: str) -> Words:
    """Never raises: what holds no word asks for nothing. Of a very long query the beginning counts."""
    phrases = []
    for quoted, star, plain in _PIECE.findall(text):
        words = tuple(word[:MOST_WORD_CHARS] for word in _WORD.findall(quoted or plain) if _LETTER.search(word))
        if words:
            phrases.append(Phrase(words[:MOST_PHRASES], bool(star) or plain.endswith("*") or quoted.endswith("*")))
    return Words(tuple(phrases[:MOST_PHRASES]))


def snippet(text: str, words: Words) -> Snippet:
    """Around the first place of the text where one of the phrases stands; its beginning, if none is found."""
    pattern = re.compile("|".join(_pattern(phrase) for phrase in words.phrases) or r"(?!)", re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, first.start() - BEFORE_CHARS) if first is not None else 0
    piece = text[start : start + 8 * SNIPPET_CHARS]
    flat = _SPACE.sub(" ", piece).strip()
    shown = f"{'…' if start else ''}{flat[:SNIPPET_CHARS]}"
    if len(flat) > SNIPPET_CHARS or start + len(piece) < len(text):
        shown += "…"
    return Snippet(shown, tuple(match.span() for match in pattern.finditer(shown)))


def _pattern(phrase: Phrase) -> str:
    """Bounded on both sides, so that it takes time by the length of the text alone."""
    between = r"[\W_]{1,80}"
    end = "" if phrase.is_prefix else r"(?![^\W_])"
    tail = r"[^\W_]{0,80}" if phrase.is_prefix else ""
    return rf"(?<![^\W_]){between.join(re.escape(word) for word in phrase.words)}{tail}{end}"
