"""What went wrong, read from the end of Codex's stream.

`codex exec` gives no code: a failed turn is one line of words, a refused resume a line on stderr. The words are only
ever looked for there, never in what the model said. Texts as seen from the real binary; a new one is a new line here.
"""

from __future__ import annotations

import json
import re

from clew.core.outcome import Diagnosis, Outcome

_PROSE: tuple[tuple[Outcome, re.Pattern[str]], ...] = tuple(
    (outcome, re.compile("|".join(texts), re.IGNORECASE))
    for outcome, texts in (
        (
            Outcome.POISONED,
            (
                r"No tool output found for",
                r"No tool call found for",
                r"was provided without its required",
                r"invalid_encrypted_content",
                r"image data you provided does not represent a valid image",
            ),
        ),
        (
            Outcome.OVERFLOW,
            (
                r"ran out of room in the model's context window",
                r"context_length_exceeded",
                r"exceeds the context window",
                r"Input exceeds the maximum length",
            ),
        ),
        (
            Outcome.USAGE_LIMIT,
            (
                r"usage limit",
                r"Quota exceeded",
                r"insufficient_quota",
                r"rate limit",
                r"429 Too Many Requests",
                r"upgrade to Plus",
            ),
        ),
        (
            Outcome.AUTH,
            (
                r"401 Unauthorized",
                r"403 Forbidden",
                r"Missing environment variable",
                r"not logged in",
                r"log ?in again",
                r"sign in again",
                r"refresh token",
            ),
        ),
        (
            Outcome.OVERLOADED,
            (r"experiencing high demand", r"at capacity", r"status:? 5\d\d", r"overloaded"),
        ),
        (
            Outcome.NETWORK,
            (
                r"Connection failed",
                r"error sending request",
                r"stream disconnected",
                r"timeout waiting",
                r"Reconnecting",
            ),
        ),
    )
)
_REFUSED = re.compile(
    r"thread/(?:resume|fork) failed|no rollout found for thread id|already has an active writer", re.IGNORECASE
)
_ERROR_LINE = re.compile(r"^(?:Error\b.*|.*\bERROR\b.*|No prompt provided.*|Failed to .*)$", re.MULTILINE)


def diagnose(
    *, wanted: str | None, thread: str | None, completed: bool, said: str, stderr: str, forked: bool = False
) -> Diagnosis:
    """`wanted` is the session to be resumed, `thread` the one it says it runs, `said` its own words on a failure.

    `forked`: it goes on in a copy of the wanted one, under an id of its own.
    """
    if wanted is not None and thread is not None and (thread == wanted) is forked:
        return Diagnosis(answered=False, outcome=Outcome.REJECTED, message="codex began another session instead")
    if completed:
        return Diagnosis(answered=True)
    errors = _ERROR_LINE.findall(stderr)
    if wanted is not None and thread is None and any(_REFUSED.search(line) for line in errors):
        return Diagnosis(answered=False, outcome=Outcome.REJECTED, message=_last(errors))
    words = said or "\n".join(errors)
    return Diagnosis(
        answered=False, outcome=_by_prose(words), message=_plain(said) or _last(errors) or _last_of(stderr)
    )


def _by_prose(words: str) -> Outcome | None:
    for outcome, pattern in _PROSE:
        if pattern.search(words):
            return outcome
    return None


def _plain(said: str) -> str:
    """A refused request is told as the API's own JSON: its message is enough."""
    try:
        found = json.loads(said)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = said
    return str(found).strip().partition("\n")[0][:500]


def _last(lines: list[str]) -> str:
    return lines[-1].strip()[:500] if lines else ""


def _last_of(words: str) -> str:
    return words.strip().rpartition("\n")[2].strip()[:500]
