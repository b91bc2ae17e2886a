"""The encoding of texts, so that every database can store them and returns them unchanged.

Agents print anything: NUL characters, which PostgreSQL's TEXT cannot hold, and lone surrogates, which UTF-8 cannot.
Such a character, and the escape character itself, is stored as U+001A SUBSTITUTE and four hex digits. All other text,
which is nearly every row, is stored unchanged and readable in any database shell. The mapping is one to one, so equal
texts stay equal and different ones different. `Database` applies it to every text that it writes and reads.
"""

from __future__ import annotations

import re

ESCAPE = "\x1a"

# These are compiled when they are first used: few texts need them, and compiling them would slow down every start.
_UNSAFE = "[\x00\x1a\ud800-\udfff]"
_ESCAPED = "\x1a([0-9a-f]{4})"


def pack(text: str) -> str:
    """The stored form."""
    if "\0" not in text and ESCAPE not in text and (text.isascii() or not _has_surrogates(text)):
        return text
    return re.sub(_UNSAFE, lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def unpack(stored: str) -> str:
    """The original of what `pack` returned."""
    if ESCAPE not in stored:
        return stored
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), stored)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
