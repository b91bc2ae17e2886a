"""Text that every database takes, and that comes back as it was.

Agents print anything: NUL characters (PostgreSQL's TEXT cannot hold them) and lone surrogates (UTF-8 cannot). So each
such character, and the escape character itself, is stored as U+001A SUBSTITUTE and four hex digits. All other text, in
practice nearly every row, is stored byte for byte, readable in any database shell. The mapping is one to one, so equal
texts stay equal and unique ones unique; it is applied to every text on its way in and out, in one place (`Database`).
"""

from __future__ import annotations

import re

ESCAPE = "\x1a"

# Left to `re` to compile and keep: hardly any text needs them, and every start would pay for them.
_UNSAFE = "[\x00\x1a\ud800-\udfff]"
_ESCAPED = "\x1a([0-9a-f]{4})"


def pack(text: str) -> str:
    """The stored form."""
    if "\0" not in text and ESCAPE not in text and (text.isascii() or not _has_surrogates(text)):
        return text
    return re.sub(_UNSAFE, lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def unpack(stored: str) -> str:
    """What `pack` was given."""
    if ESCAPE not in stored:
        return stored
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), stored)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
