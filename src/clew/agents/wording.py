"""Finds the outcome of a failure in the texts that an agent printed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clew.core.outcome import Outcome

MESSAGE_CHARS = 500


def outcome_of(words: str, table: Iterable[tuple[Outcome, tuple[str, ...]]]) -> Outcome | None:
    """The outcome of the first row that matches. Its texts are regular expressions, which `re` compiles only after a
    failure, not for every answer."""
    for outcome, texts in table:
        if re.search("|".join(texts), words, re.IGNORECASE):
            return outcome
    return None


def first_line(words: str) -> str:
    return words.strip().partition("\n")[0].strip()[:MESSAGE_CHARS]


def last_line(words: str) -> str:
    """The last line that a program prints before it dies usually says why."""
    return words.strip().rpartition("\n")[2].strip()[:MESSAGE_CHARS]
